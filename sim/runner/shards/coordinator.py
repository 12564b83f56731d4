"""The coordinator of shards: it lets them run window by window, samples metrics, and puts their events in order (edge).

A window ends `latency` after the next thing that can happen anywhere: nothing that is sent in it can arrive before. So
shards need not wait for each other within a window, and each event has the key that it has in one process.
"""

from collections.abc import Mapping, Sequence
from heapq import merge
from itertools import chain
from typing import Any

from sim.actors.inputs import PersonAnswer
from sim.agents.metric_functions import MetricFunctions
from sim.base.crashpoints import reach
from sim.base.errors import RunError
from sim.base.expressions import Expression
from sim.kernel.codec import Json
from sim.kernel.rows import InputRow
from sim.runner.event_loop import heed_interrupt
from sim.runner.shards.calls import Calls, wait_for_disk
from sim.runner.shards.protocol import AnyShard, Call, Closed, Columns, Order, Report, Row, RowKey, restored
from sim.runner.shards.shard import RowRecorder
from sim.runner.shards.stopping import AllStopped, StopRequests
from sim.runner.shards.watching import Watching
from sim.scenario.assembly.build import Simulation
from sim.world.islands import Islands, Letter


class Coordinator:
    """Drives shards, and records their events in the order of one process.

    Args:
        world: the simulation of the coordinator, in which no agent runs.
        shards: the processes.
        rows: what the scenario itself does.
        watching: shows the run while it is under way, and records the events of all.
        until_ns: the end of the run in simulated nanoseconds.
        calls: makes the calls of models at endpoints; None: there are none.
        stops: what people and programs ask.

    Attributes:
        windows: the number of windows so far.
        critical_ns: the CPU time of the slowest shard, summed over all orders, in nanoseconds.
        total_ns: the CPU time of all shards in nanoseconds.
    """

    def __init__(
        self,
        world: Simulation,
        shards: Sequence[AnyShard],
        rows: RowRecorder,
        watching: Watching,
        until_ns: int,
        *,
        calls: Calls | None = None,
        stops: StopRequests,
    ) -> None:
        islands = Islands.of(world.world)
        self.windows = self.critical_ns = self.total_ns = 0
        self._latency = islands.settings.latency
        self._has_agents = bool(islands.first)
        self._shards = shards
        self._own = rows
        self._keeper, self._watching = watching.keeper, watching
        self._until_ns = until_ns
        self._home = {island: place for place, shard in enumerate(shards) for island in shard.setup.islands}
        self._letters: list[list[Letter]] = [[] for _ in shards]
        self._next: list[int | None] = [0 for _ in shards]
        self._rows: list[list[Row]] = [[] for _ in shards]
        self._calls = calls
        self._of_calls: list[Call | Closed] = []  # begun or ended, and not recorded
        self._late: list[Row] = []  # of the scenario: those that are not before the end of the latest window
        self.reached = 0  # all that is before this time has happened
        self._asked = 0  # orders so far
        self._at: list[tuple[int, int]] = []  # the instant and the round at which each shard is
        self._world, self._stops = world, stops
        self._running, self._stopping = False, False  # whether any agent runs, and whether all were asked to stop
        self.looked = (0, 0)  # the instant and the round at which the scenario has sampled last

    def advance(self, limit: int, *, whole: bool = False) -> None:
        """Have everything before `limit` (nanoseconds) happen.

        Args:
            limit: the time.
            whole: the scenario itself has something to do at the end of the instant before it: agents are stopped
                later, and if the last one stops then, the run ends with that instant.

        Raises:
            RunError: if a shard fails, or all agents have stopped.
            AllStopped: if all agents have stopped because they were asked to, unless that was in this instant.
        """
        while self.reached < limit:
            due = [time for time in self._next if time is not None]
            due += [letter.due for letters in self._letters for letter in letters]
            if self._stopping and self._calls is not None:
                due += self._calls.times()
            earliest = min(due, default=limit)
            # While agents stop, a window is one instant: the run ends with that in which the last one stops.
            length = 1 if self._stopping else self._latency
            self._window(limit if earliest >= limit else min(earliest + length, limit))
            if not whole:
                self._stop_if_asked()
            if self._stopping and not self._running:
                self._all_stopped()
                if not whole:
                    raise AllStopped(self._until_ns)

    def _all_stopped(self) -> None:
        """End the run with the instant at which the last agent has stopped, as in one process."""
        world = self._world.world
        assert world.on_all_stopped is not None, "the run has begun"
        world.on_all_stopped()
        self._until_ns = self.reached - 1

    def _window(self, end: int) -> None:
        heed_interrupt()
        self.windows += 1
        number, calls, figures = self._asked + 1, self._calls, self._watching.due()
        answers = [()] * len(self._shards) if calls is None else calls.due(end, len(self._shards))
        reports = self._ask(
            [
                Order("run", end, tuple(letters), those, figures=figures, number=number)
                for letters, those in zip(self._letters, answers, strict=True)
            ]
        )
        self._letters = [[] for _ in self._shards]
        self._take(reports, end)
        self._watching.seen(end, reports)
        if self._has_agents and not self._running and not self._stopping:
            raise RunError(
                f"all agents have stopped before {end / 1e9:g} s, and a run on shards ends at its time limit",
                hint="run it without --shards",
            )

    def _take(self, reports: Sequence[Report], end: int) -> None:
        """Take what shards report that have done everything before a time."""
        for place, report in enumerate(reports):
            if report.next is not None and report.next < end:
                at, until = report.next / 1e9, end / 1e9
                message = f"shard {place + 1} stopped at {at:g} s, before the end of a window at {until:g} s"
                raise RunError(message, hint="run it without --shards, and report this")
            self._next[place] = report.next
            for letter in report.letters:
                self._post(letter, place)
        self._running = any(report.running for report in reports)
        self.reached = end
        begun = [(place, call) for place, report in enumerate(reports) for call in report.calls]
        if begun and self._calls is not None:
            self._record(end)  # a request is on disk before it is sent
            self._calls.start(begun)

    def _stop_if_asked(self) -> None:
        """Begin to stop all agents, if people or programs have asked for it.

        It happens at the end of the latest instant at which anything has happened. In one process, the inputs have the
        same place. They are on disk before a shard sees them.
        """
        at, delta = max(*self._at, self.looked)
        inputs = self._stops.take() if at else ()  # at the start, the scenario looks at its first sample again
        if not inputs:
            return
        self._record(self.reached)
        for kind, data in inputs:
            self._keeper.input(InputRow(at, delta, kind, data))
        reach("arrivals.applied")
        wait_for_disk(self._keeper)
        reach("arrivals.durable")
        self._stopping = True
        order = Order("stop", at, delta=delta, inputs=inputs, number=self._asked + 1)
        self._take(self._ask([order for _ in self._shards]), at + 1)
        for kind, data in inputs:
            if kind == "person":
                self._world.manager.answers[data["row"]] = PersonAnswer(at)

    def _ask(self, orders: Sequence[Order]) -> list[Report]:
        self._asked += 1
        for shard, order in zip(self._shards, orders, strict=True):
            shard.ask(order)
        self._record(self.reached)  # while the shards work
        reports = [shard.report() for shard in self._shards]
        self.critical_ns += max(report.cpu_ns for report in reports)
        self.total_ns += sum(report.cpu_ns for report in reports)
        for rows, report in zip(self._rows, reports, strict=True):
            rows.extend(report.rows)
            self._of_calls += [*report.calls, *report.closed]
        self._at = [(report.now, report.delta) for report in reports]
        return reports

    def _post(self, letter: Letter, sent_from: int) -> None:
        if letter.what != "event":
            self._letters[self._home[letter.island]].append(letter)
            return
        for place, letters in enumerate(self._letters):
            if place != sent_from:
                letters.append(letter)

    def _record(self, end: int) -> None:
        """Record all events before a time, in the order of one process."""
        own = [*self._late, *self._own.take()]
        self._late = [row for row in own if row[0][0] >= end]
        ready = [row for row in own if row[0][0] < end]
        of_calls, self._of_calls = sorted(self._of_calls, key=_key), []
        for row in merge(ready, *self._rows, of_calls, key=_key):
            if not isinstance(row, tuple):
                assert self._calls is not None, "otherwise no shard has calls"
                self._calls.note(row)
                continue
            key, source, counter, actor, topic, data, cause = row
            time_ns, delta, priority = key[:3]
            self._keeper.event((time_ns, delta, priority, source, counter, actor, topic, data, cause))
        self._rows = [[] for _ in self._shards]

    def gather(self, wanted: Mapping[str, list[str]]) -> dict[str, Columns]:
        """Return what metrics read of the groups, on all shards."""
        order = Order("gather", wanted=dict(wanted), number=self._asked + 1)
        parts = [report.columns or {} for report in self._ask([order for _ in self._shards])]
        return {group: _joined([part[group] for part in parts]) for group in wanted}

    def end(self, at: int, delta: int) -> list[Report]:
        """End the run on all shards.

        Args:
            at: the time of the end in simulated nanoseconds.
            delta: the round of that instant.
        """
        reports = self._ask([Order("end", at, delta=delta, number=self._asked + 1) for _ in self._shards])
        self._watching.seen(at, reports)
        return reports

    def last_delta(self, at: int) -> int:
        """Return the last round of an instant, on any shard or in a sample; 0 if nothing has happened then."""
        return max((delta for now, delta in (*self._at, self.looked) if now == at), default=0)

    def settle(self) -> None:
        """Record all that has happened. What happens at the same instant from now on follows it."""
        self._record(self.reached)

    def record_rest(self) -> None:
        """Record what is left when the run has ended."""
        self._record(self._until_ns + 1)


def _key(row: Row | Call | Closed) -> RowKey:
    return row[0] if isinstance(row, tuple) else row.key


def _joined(parts: Sequence[Columns]) -> Columns:
    return Columns(
        dead=tuple(chain.from_iterable(part.dead for part in parts)),
        values={key: tuple([restored(one) for part in parts for one in part.values[key]]) for key in parts[0].values},
        lacking={
            key: tuple(chain.from_iterable(part.lacking.get(key, ()) for part in parts)) for key in parts[0].values
        },
    )


FUNCTIONS = ("count", "total", "mean", "distinct_values", "quantile", "gini", "clusters", "agents", "state_of")
"""The functions of metrics that a run on shards can have: they read the states of agents."""


class GatheredFunctions(MetricFunctions):
    """The functions of metrics over the agents of all shards.

    Args:
        simulation: that of the coordinator.
        coordinator: gathers the states.
        wanted: by group, the state variables that metrics read.
    """

    def __init__(self, simulation: Simulation, coordinator: Coordinator, wanted: Mapping[str, list[str]]) -> None:
        super().__init__(simulation.world, simulation.manager)
        self._coordinator = coordinator
        self._wanted = wanted
        self._gathered: dict[str, Columns] = {}
        self._as_of = -1

    def value_of(self, name: str, expression: Expression, *, lenient: bool = False) -> float | None:
        """See `MetricFunctions`; first, everything before this moment happens on all shards."""
        kernel, coordinator = self._world.kernel, self._coordinator
        coordinator.advance(kernel.now)
        if name == "stop.when":
            coordinator.advance(kernel.now + 1, whole=True)  # the condition holds after an instant
        coordinator.looked = (kernel.now, kernel.delta)
        if self._as_of != self._coordinator.reached:
            self._gathered = self._coordinator.gather(self._wanted)
            self._as_of = self._coordinator.reached
        return super().value_of(name, expression, lenient=lenient)

    def count(self, group: str, key: str | None = None, value: Any = None) -> int:
        """See `MetricFunctions`."""
        if key is None:
            return len(self.agents(group))
        return super().count(group, key, value)

    def agents(self, group: str) -> list[str]:
        """See `MetricFunctions`."""
        dead = frozenset(self._gathered[group].dead)
        return [one.agent_id for one in self._world.members(group) if one.agent_id not in dead]

    def state_of(self, agent: str, key: str, default: Any = None) -> Any:
        """See `MetricFunctions`."""
        columns = self._gathered[agent]
        return default if columns.lacking[key] or not columns.values[key] else columns.values[key][0]

    def _values(self, group: str, key: str) -> Sequence[Json]:
        return self._gathered[group].values[key]
