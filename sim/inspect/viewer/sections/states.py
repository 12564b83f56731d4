"""The number of agents in each state over a run, and the states of each agent."""

import attrs

from sim.actors import AgentState
from sim.actors.events import StateChanged
from sim.inspect.viewer.bins import Bins
from sim.inspect.viewer.section import Data, Event, Folds, Json, Section

LIVE = tuple(str(state) for state in AgentState if state is not AgentState.STOPPED)
"""The states that are drawn. Agents that have stopped, or have not started yet, are not drawn."""

_SIGNS = dict(zip(LIVE, "irspx", strict=True))
"""One character for each state; `.` is none."""

_STATES = frozenset(map(str, AgentState))


@attrs.define
class Swimlane:
    """The states of one agent over time.

    Attributes:
        state: the current state.
        final: the last state before the end of the run.
        wakeups: how often it changed from SLEEPING or PAUSED to RUNNING.
    """

    state: str
    since_ns: int
    signs: bytearray
    final: str
    wakeups: int = 0
    ended: bool = False
    part: int = -1
    longest_ns: dict[str, int] = attrs.field(factory=dict)  # time in each state, within the current part

    def close(self) -> None:
        """Finish a part: note the state with the longest time in it."""
        if self.longest_ns:
            state = max(self.longest_ns, key=self.longest_ns.__getitem__)
            self.signs[self.part] = ord(_SIGNS.get(state, "."))
            self.longest_ns = {}


class StateTimes:
    """Sums the time of agents in each state, for each part of a run.

    Args:
        bins: the parts of the run.

    Attributes:
        swimlanes: the states of each agent over time.
    """

    def __init__(self, bins: Bins) -> None:
        self.swimlanes: dict[str, Swimlane] = {}
        self._bins = bins
        self._spent = {state: bins.zeros() for state in LIVE}

    def add(self, time_ns: int, agent: str, change: StateChanged) -> None:
        """Add a change of state."""
        before, after = change.before, change.after
        if before not in _STATES or after not in _STATES:
            return
        swimlane = self.swimlanes.get(agent)
        if swimlane is None:
            signs = bytearray(b"." * self._bins.count)
            swimlane = self.swimlanes[agent] = Swimlane(before, time_ns, signs, before)
        self._spend(swimlane, time_ns)
        swimlane.state = after
        swimlane.wakeups += after == "running" and before in ("sleeping", "paused")
        swimlane.ended = swimlane.ended or change.reason == "end"
        if not swimlane.ended:
            swimlane.final = after

    def finish(self) -> None:
        """Advance all agents to the end of the run."""
        for swimlane in self.swimlanes.values():
            self._spend(swimlane, self._bins.end_ns)
            swimlane.close()

    def to_json(self) -> dict[str, list[float]]:
        """Return the mean number of agents in each state, for each part. Unused states are omitted."""
        width = self._bins.end_ns / self._bins.count
        return {state: [round(ns / width, 3) for ns in parts] for state, parts in self._spent.items() if any(parts)}

    def finals(self) -> dict[str, int]:
        """Return the number of agents by final state."""
        counts = dict.fromkeys(sorted(_STATES), 0)
        for swimlane in self.swimlanes.values():
            counts[swimlane.final] += 1
        return {state: count for state, count in counts.items() if count}

    def _spend(self, swimlane: Swimlane, until_ns: int) -> None:
        """Add the time since the last change to the current state of the agent."""
        bins, state, time = self._bins, swimlane.state, swimlane.since_ns
        swimlane.since_ns = until_ns
        parts = self._spent.get(state)
        while time < until_ns:
            part = bins.at(time)
            edge = until_ns if part == bins.count - 1 else min(until_ns, bins.begin(part + 1))
            if parts is not None:
                parts[part] += edge - time
            if part != swimlane.part:
                swimlane.close()
                swimlane.part = part
            swimlane.longest_ns[state] = swimlane.longest_ns.get(state, 0) + edge - time
            time = edge


class States(Section):
    """Follows the state of each agent.

    Attributes:
        times: the time of agents in each state, and their swimlanes.
    """

    title = "Agents by state"
    place = 30
    topics = ("agent.state",)

    def __init__(self, folds: Folds) -> None:
        super().__init__(folds)
        self.times = StateTimes(folds.bins)

    def add(self, event: Event, data: Data) -> None:
        """Add a change of state."""
        if isinstance(data, StateChanged):
            self.times.add(event.time_ns, event.actor, data)

    def finish(self) -> None:
        """Advance all agents to the end of the run."""
        self.times.finish()

    def to_json(self) -> Json:
        """Return the mean number of agents in each state, and the number at the end; None without agents.

        The swimlanes are with the rows of agents.
        """
        parts = self.times.to_json()
        return {"parts": parts, "finals": self.times.finals()} if parts else None
