"""The view of a run: the chunks of its events, its calls, and what the page needs of the whole run."""

from typing import Final

from sim.events.coerce import mapping
from sim.inspect.viewer.blocks import Blocks
from sim.inspect.viewer.calls import Calls
from sim.inspect.viewer.chunks import Chunks
from sim.inspect.viewer.contacts import KINDS
from sim.inspect.viewer.folds import Folds
from sim.inspect.viewer.map import GroundMap
from sim.inspect.viewer.names import ROLES, NameTable, Topics
from sim.inspect.viewer.starts import Money, start_of
from sim.inspect.viewer.states import MOST_VALUES, STATES, NameStates
from sim.kernel.codec import Json, decode, json_items
from sim.kernel.rows import RecordedEvent
from sim.record import StoredRun
from sim.record.rows import Wanted
from sim.record.summary import fields_of, pairs, without_folder
from sim.runner.branching import end_of
from sim.runner.recorded import recorded_scenario, recorded_text
from sim.scenario.groups import Groups

_MOST_PAIRS: Final = 5_000


class View:
    """What a page shows of one run. More events of the run can be added.

    Args:
        stored: the run.
        blocks: takes the blocks.
        many: takes those of events and calls; None: the same.

    Raises:
        RunError: if the run is damaged.
    """

    def __init__(self, stored: StoredRun, blocks: Blocks, many: Blocks | None = None) -> None:
        self.info = stored.info
        scenario = recorded_scenario(stored)
        start = start_of(stored, scenario)
        self._names, self._topics = NameTable(), Topics()
        self._map = GroundMap(scenario, start.graph)
        self._groups = Groups(scenario)
        self._states = NameStates(self._names, self._map, start, Money(scenario))
        many = many or blocks
        self.chunks = Chunks(many, self._names, self._topics, self._states)
        self.calls = Calls(many, self._names)
        self._recorded = () if scenario is None else scenario.recording.state
        self._has_money = any(start.balances.values())
        self._description = "" if scenario is None else scenario.description
        self._scenario = blocks.add(recorded_text(stored).encode())
        self._last_chunk = -1
        self._wanted = Wanted()
        self._end = 0.0

    def read(self, stored: StoredRun, folds: Folds | None = None) -> bool:
        """Add what is on record since the last time, and return whether there is anything new.

        Args:
            stored: the run.
            folds: get each new event, too, and are advanced to the end of the run.
        """
        before = (self.chunks.events, self.calls.total, self.info.status)
        self.info = stored.info
        sql = "SELECT id, first_event, CAST(data AS BLOB) FROM chunks WHERE id > ? ORDER BY id LIMIT 1"
        while rows := stored.query(sql, (self._last_chunk,)):  # one by one, because the first read can have many
            self._last_chunk, first, data = rows[0]
            for row, line in zip(decode(data), json_items(data[1:-1]), strict=True):
                self.chunks.add(RecordedEvent(*row), line)
            if folds is not None:
                for event in self._wanted.of(first, data, 0):
                    folds.add(event)
        self.chunks.cut()
        if folds is not None:
            folds.finish()
        self.calls.read(stored, ended=self.info.status != "running")
        self._end = end_of(stored) / 1e9
        return before != (self.chunks.events, self.calls.total, self.info.status)

    def about(
        self, chunks: int = 0, names: int = 0, topics: int = 0, calls: int = 0, parts: int = 0
    ) -> dict[str, Json]:
        """Return what the page needs of the whole run, JSON-like.

        Args:
            chunks, names, topics, calls, parts: how many the page has of each already; they are left out.
        """
        cut = self.chunks
        groups = [self._groups.of(name) for name in self._names.labels[names:]]
        return {
            "run": self._run(),
            "end": self._end or 1.0,
            "instant": not self._end,
            "events": cut.events,
            "names": self._names.labels[names:],
            "groups": groups,
            "roles": self._names.roles,
            "role_names": ROLES,
            "topics": self._topics.labels[topics:],
            "states": STATES,
            "contact_kinds": KINDS,
            "activities": self._states.activities.labels,
            "map": self._map.to_json(),
            "chunks": cut.table[chunks:],
            "series": {
                "states": cut.state_counts.to_json(),
                "activity": cut.activity.to_json(),
                "metrics": cut.metrics.to_json(),
            },
            "pairs": [[*pair, count] for pair, count in cut.pairs.most_common(_MOST_PAIRS)],
            "payments": [[*pair, count] for pair, count in cut.payments.most_common(_MOST_PAIRS)],
            "pairs_in_all": len(cut.pairs),
            "errors": cut.errors,
            "calls": self.calls.index[calls:],
            "parts": self.calls.parts[parts:],
            "calls_in_all": self.calls.total,
            "variables": self._variables(),
            "has_money": self._has_money,
            "finals": self._finals(),
            "scenario": self._scenario,
        }

    def _run(self) -> dict[str, Json]:
        info = self.info
        fields = [[name, without_folder(info, text)] for name, text in pairs({**fields_of(info), "run": info.id})]
        error = (info.summary or {}).get("error")
        error = error and without_folder(info, error)
        return {
            "id": info.id,
            "name": info.name,
            "seed": str(info.seed),
            "status": info.status,
            "error": error,
            "hash": info.hash,
            "fields": fields,
            "description": self._description,
        }

    def _variables(self) -> list[dict[str, Json]]:
        """Return the recorded state variables, in the order in which the scenario names them."""
        variables = self._states.variables
        names = dict.fromkeys((*(name for name in self._recorded if name in variables), *variables))
        return [variables[name].to_json(name) for name in names]

    def _finals(self) -> dict[str, Json]:
        """Return the variables of agents at the end with few values: for each value, the names that have it."""
        agents = mapping(mapping(self.info.digest).get("agents"))
        finals: dict[str, dict[str, list[int]]] = {}
        for name, agent in agents.items():
            number = self._names.actor_number(name)
            state = agent.get("state") if isinstance(agent, dict) else None
            if number is None or not isinstance(state, dict):
                continue
            for variable, value in state.items():
                values = finals.setdefault(variable, {})
                if isinstance(value, str | bool | int) and len(values) <= MOST_VALUES:
                    values.setdefault(str(value)[:60], []).append(number)
                else:
                    finals[variable] = {str(index): [] for index in range(MOST_VALUES + 1)}
        recorded = self._states.variables  # these are known at all times
        return {
            name: values for name, values in finals.items() if 2 <= len(values) <= MOST_VALUES and name not in recorded
        }
