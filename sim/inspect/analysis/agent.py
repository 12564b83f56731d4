"""The record of one agent, and the agents of a run."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sim.base.errors import UsageError
from sim.base.pages import Table, tag
from sim.base.text import number, plain
from sim.events.coerce import mapping
from sim.events.event_text import event_line
from sim.kernel.codec import JsonObject, decode
from sim.kernel.rows import RecordedEvent
from sim.record.frames import Frame, Library, frame
from sim.world.action import near

if TYPE_CHECKING:
    from sim.inspect.analysis.run import Run

_LINES = 12
"""How many events of the beginning, and of the end, an agent is shown with."""

_ROWS = 60
"""How many agents a list is shown with."""

_OWN = "actor = :name OR (topic = 'message.sent' AND data ->> '$.to' = :name)"
"""The events of an agent, and the messages to it."""

_HEADINGS = ("agent", "state", "events", "actions", "refused", "sent", "model calls")

_AGENTS = """
    SELECT actor, count(*),
           sum(topic GLOB 'action.*' AND coalesce(data ->> '$.success', 0)),
           sum(topic GLOB 'action.*' AND NOT coalesce(data ->> '$.success', 0)),
           sum(topic = 'message.sent'), sum(topic = 'model.call')
    FROM events GROUP BY actor HAVING sum(topic = 'agent.state') ORDER BY min(id)
"""
_STATES = "SELECT agent, to_state, max(id) FROM transitions WHERE reason IS NOT 'end' GROUP BY agent"
"""The last state of each agent before the end of the run, which stops them all."""


class AgentRecord:
    """What is on record of one agent of a run.

    Args:
        run: the run.
        name: the name of the agent.

    Raises:
        UsageError: if the run has no agent of this name.
    """

    def __init__(self, run: "Run", name: str) -> None:
        self.run = run
        self.name = name
        rows = run.query("SELECT to_state, reason FROM transitions WHERE agent = ? ORDER BY id", (name,))
        if not rows:
            names = dict.fromkeys(agent for (agent,) in run.query("SELECT DISTINCT agent FROM transitions"))
            raise UsageError(f"the run has no agent {name!r:.80}{near(name, names)}")
        self.final_state: str = next((state for state, reason in reversed(rows) if reason != "end"), "stopped")

    @property
    def state(self) -> JsonObject | None:
        """The variables of the agent at the end of the run; None if the run has not ended."""
        state = mapping(mapping(mapping(self.run.info.digest).get("agents")).get(self.name)).get("state")
        return None if state is None else mapping(state)

    def states(self, *, as_: Library | None = None) -> Frame:
        """Return the changes of its state (running, sleeping, paused, ...) as a DataFrame."""
        return self._frame("transitions", "agent = :name", as_)

    def actions(self, *, as_: Library | None = None, expand: bool | Sequence[str] = True) -> Frame:
        """Return its actions as a DataFrame, also those that were refused. The arguments are as in `Run.frame`."""
        return self._frame("actions", "agent = :name", as_, expand)

    def messages(self, *, as_: Library | None = None, expand: bool | Sequence[str] = True) -> Frame:
        """Return the messages from it and to it as a DataFrame. The arguments are as in `Run.frame`."""
        return self._frame("messages", "sender = :name OR receiver = :name", as_, expand)

    def events(self, *, as_: Library | None = None, expand: bool | Sequence[str] = True) -> Frame:
        """Return its events, and the messages to it, as a DataFrame. The arguments are as in `Run.frame`."""
        return self._frame("events", _OWN, as_, expand)

    def prompts(self, *, as_: Library | None = None, expand: bool | Sequence[str] = True) -> Frame:
        """Return its prompts to language models, with the answers, as a DataFrame. The arguments: see `Run.frame`."""
        return self._frame("prompts", "agent = :name", as_, expand)

    def story(self) -> Iterator[str]:
        """Yield a line for each of its events and each message to it, in order. Text of agents is made harmless."""
        return (self._line(row) for row in self._rows)

    def _frame(self, view: str, where: str, as_: Library | None, expand: bool | Sequence[str] = True) -> Frame:
        return self.run.frame(view, where=where, parameters={"name": self.name}, as_=as_, expand=expand)

    @cached_property
    def _rows(self) -> list[tuple[Any, ...]]:
        columns = "time_ns, delta, priority, source, counter, actor, topic, data"  # those of `RecordedEvent`
        return self.run.query(f"SELECT {columns} FROM events WHERE {_OWN} ORDER BY id", {"name": self.name})  # noqa: S608 - constant

    def _line(self, row: tuple[Any, ...]) -> str:
        event = RecordedEvent._make((*row[:-1], decode(row[-1].encode()), None))
        return event_line(event, self.name)

    def _heading(self) -> str:
        when = "at the end" if self.run.info.status == "finished" else "at last"
        return plain(f"{self.name} in {self.run.info.id}: {number(len(self._rows))} events, {self.final_state} {when}")

    def _shown(self) -> list[str]:
        rows = self._rows
        if len(rows) <= 2 * _LINES:
            return list(self.story())
        gap = f"{'...':>14}  {number(len(rows) - 2 * _LINES)} more events"
        return [*map(self._line, rows[:_LINES]), gap, *map(self._line, rows[-_LINES:])]

    def __repr__(self) -> str:
        return "\n".join([self._heading(), *self._shown()])

    def _repr_html_(self) -> str:
        variables = Table((), list((self.state or {}).items())).html() if self.state else None
        lines = [(line, tag("br")) for line in self._shown()]
        return tag("div", tag("p", tag("b", self._heading())), variables, tag("pre", lines))


class AgentRecords(Mapping[str, AgentRecord]):
    """The agents of a run by name, in the order of their first events.

    Args:
        run: the run.
    """

    def __init__(self, run: "Run") -> None:
        self._run = run
        states = {agent: state for agent, state, _ in run.query(_STATES)}
        self._rows = [(agent, states.get(agent, "stopped"), *rest) for agent, *rest in run.query(_AGENTS)]
        self._names = {row[0]: None for row in self._rows}

    def __getitem__(self, name: str) -> AgentRecord:
        if name not in self._names:
            raise KeyError(name)
        return AgentRecord(self._run, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def frame(self, *, as_: Library | None = None) -> Frame:
        """Return a row for each agent: its last state, and how often it did what. `as_` is as in `Run.frame`."""
        return frame(([heading.replace(" ", "_") for heading in _HEADINGS], self._rows), as_)

    def _table(self) -> Table:
        rows: list[tuple[Any, ...]] = list(self._rows[:_ROWS])
        if len(self._rows) > _ROWS:
            rows.append((f"... {number(len(self._rows) - _ROWS)} more", *[None] * (len(_HEADINGS) - 1)))
        return Table(_HEADINGS, rows)

    def __repr__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()
