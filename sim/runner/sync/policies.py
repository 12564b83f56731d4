"""Logical processes (agents, each at its own simulated time), and the policies that decide which of them can advance.

In this package, `step` is the number of a tick.
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Literal

from sim.actors import AgentLoop
from sim.world.space import PositionHistory, Space

Sync = Literal["sequential", "barrier", "causal", "causal-radius", "free"]


class ProcessState(Enum):
    """The state of a logical process."""

    READY = auto()  # ready to begin its tick
    BUSY = auto()  # in its tick: it runs, or its call is being served
    GATE = auto()  # has decided on a shared action, and waits for all earlier events
    COUPLED = auto()  # has finished its tick, and waits for the rest of its cluster
    AWAY = auto()  # asleep, paused or in a queue: an event of the world wakes it
    OUT = auto()  # stopped, or at the end of the run


class LogicalProcess:
    """One agent of a synchronised run: a logical process of parallel simulation, with its own simulated time.

    Attributes:
        loop: the loop of the agent.
        number: zero-based index in the order of the agents.
        step: the tick that it executes, or will execute next.
        state: its state.
        history: its visible states in space, or None if it is not in space.
        path: length of the critical path to its present state, in seconds of service.
        watchers: processes that wait for this one to advance.
        since: when it became ready, or finished before its cluster; service time in nanoseconds.
        waited: how long it was ready and had to wait; service time in nanoseconds.
        cluster: the processes that execute their ticks together with it.
        admitted: whether it has passed the gate, so that it can change shared data.
    """

    __slots__ = (
        "_paths",
        "admitted",
        "cluster",
        "delta",
        "history",
        "loop",
        "number",
        "path",
        "serving",
        "since",
        "state",
        "step",
        "time_ns",
        "waited",
        "watchers",
    )  # fmt: skip

    def __init__(self, loop: AgentLoop, number: int, history: PositionHistory | None) -> None:
        self.loop = loop
        self.number = number
        self.history = history
        self.step = 0
        self.time_ns = self.delta = 0  # its own simulated time while it is busy
        self.state = ProcessState.AWAY
        self.path = 0.0
        self._paths: list[tuple[int, float]] = []  # (step, path at its end), one entry per change of the path
        self.watchers: list[LogicalProcess] = []
        self.since = 0
        self.waited = 0
        self.serving = False
        self.admitted = False
        self.cluster: list[LogicalProcess] = []

    @property
    def agent_id(self) -> str:
        """The name of the agent."""
        return self.loop.agent_id

    def path_before(self, step: int) -> float:
        """Return the length of the critical path to its visible state at the beginning of `step`, in seconds."""
        index = bisect_left(self._paths, (step, -math.inf)) - 1
        return self._paths[index][1] if index >= 0 else 0.0

    def note_path(self) -> None:
        """Store the length of the critical path to the end of the present tick."""
        if not self._paths or self._paths[-1][1] != self.path:
            self._paths.append((self.step, self.path))

    def forget_paths(self, step: int) -> None:
        """Delete entries that are needed only for ticks before `step`."""
        del self._paths[: max(0, bisect_left(self._paths, (step, -math.inf)) - 1)]


LOW_WATERMARK: Literal["low_watermark"] = "low_watermark"
"""The verdict of a process that must wait until every process has reached its tick."""

Verdict = LogicalProcess | Literal["low_watermark"] | None
"""What a process must wait for: another process or the low watermark; None: it can begin."""


class SyncPolicy(ABC):
    """Decides which processes can begin their tick.

    Args:
        processes: agent → its process, for all agents.
        space: the space of the world, or None.
        low_watermark: returns the earliest tick that some process has not finished.
    """

    strict = True  # whether reading a position that is not final yet is an error

    def __init__(
        self, processes: Mapping[str, LogicalProcess], space: Space | None, low_watermark: Callable[[], int]
    ) -> None:
        self._processes = processes
        self._space = space
        self._low_watermark = low_watermark

    @abstractmethod
    def verdict(self, process: LogicalProcess) -> Verdict:
        """Return what a ready process must wait for, or None if it can begin."""

    def cluster(self, process: LogicalProcess) -> Sequence[LogicalProcess]:
        """Return the processes that begin together with the process that `verdict` has just allowed, including it."""
        return (process,)

    def _shared(self, process: LogicalProcess) -> Verdict:
        """Let a process that reads shared data wait until all earlier events have happened."""
        return LOW_WATERMARK if process.loop.agent.reach == "shared" and self._low_watermark() < process.step else None


class Barrier(SyncPolicy):
    """No process begins a tick before all have finished the previous one, as in tick mode without `sync`."""

    def verdict(self, process: LogicalProcess) -> Verdict:
        """Wait for the slowest process."""
        return LOW_WATERMARK if self._low_watermark() < process.step else None


class Sequential(SyncPolicy):
    """A barrier, and within a tick one agent at a time, in order."""

    def __init__(
        self, processes: Mapping[str, LogicalProcess], space: Space | None, low_watermark: Callable[[], int]
    ) -> None:
        super().__init__(processes, space, low_watermark)
        self._order = list(processes.values())
        self._step = -1
        self._passed: dict[
            int, int
        ] = {}  # skip list over processes that are not active in this tick: number → next number to check

    def verdict(self, process: LogicalProcess) -> Verdict:
        """Wait for the slowest process, and for the nearest active process earlier in the order."""
        if self._low_watermark() < process.step:
            return LOW_WATERMARK
        if self._step != process.step or process.number in self._passed:  # new tick, or woken within the tick
            self._step, self._passed = process.step, {}
        number, passed = process.number - 1, list[int]()
        while number >= 0 and not self._stands(self._order[number]):
            passed.append(number)
            number = self._passed.get(number, number - 1)
        self._passed.update(dict.fromkeys(passed, number))
        return self._order[number] if number >= 0 else None

    def _stands(self, other: LogicalProcess) -> bool:
        return other.step == self._step and other.state in (ProcessState.READY, ProcessState.BUSY)


class Free(SyncPolicy):
    """No waiting in space: each agent sees the positions known so far. Causality in space is not preserved."""

    strict = False

    def verdict(self, process: LogicalProcess) -> Verdict:
        """Allow the process to begin, unless it reads shared data."""
        return self._shared(process)


class Causal(SyncPolicy):
    """An agent waits for agents that can be in its sight by its tick, and for its partners.

    The space keeps positions by tick. So no agent waits for one that is ahead, and agents in sight of each other can be
    at different ticks.
    """

    def verdict(self, process: LogicalProcess) -> Verdict:
        """Wait for the first agent in reach, or partner, whose position at this tick is not known yet."""
        history, space, step = process.history, self._space, process.step
        if history is None or space is None or process.loop.agent.reach == "shared":
            return self._shared(process)
        here, may_meet = history.at(step).position, space.reach.may_meet
        for other in space.neighbours(history, step):
            latest = other.final
            if latest < step and may_meet(step - latest, here, other.at(latest).position):
                return self._processes[other.agent_id]
        for name in history.partners:
            if space.histories[name].final < step:
                return self._processes[name]
        return None


class CausalRadius(SyncPolicy):
    """The rule of AI Metropolis (Xie et al., 2024).

    Agents at the same tick are coupled if their distance is at most perception + speed; coupled agents execute their
    ticks together. An agent waits for a slower one while their distance is at most
    (difference of ticks + 1) · speed + perception.
    """

    def __init__(
        self, processes: Mapping[str, LogicalProcess], space: Space | None, low_watermark: Callable[[], int]
    ) -> None:
        super().__init__(processes, space, low_watermark)
        self._cluster: Sequence[LogicalProcess] = ()  # the cluster of the latest verdict
        self._held: dict[
            LogicalProcess, tuple[int, LogicalProcess, LogicalProcess]
        ] = {}  # process with a waiting cluster → its tick, the blocked member, the process that blocks it

    def verdict(self, process: LogicalProcess) -> Verdict:
        """Wait for the first slower process that can affect a member of the cluster."""
        if process.loop.agent.reach == "shared":
            self._cluster = (process,)
            return self._shared(process)
        step, member, slower = self._held.pop(process, (-1, process, process))
        if (
            step == process.step == member.step
            and member.state is ProcessState.READY
            and self._holds_up(member, slower)
        ):
            self._held[process] = step, member, slower
            return slower
        self._cluster = self._coupled_to(process)
        for member in self._cluster:
            verdict = self._shared(member) or self._slower(member)
            if isinstance(verdict, LogicalProcess):
                self._held.update(dict.fromkeys(self._cluster, (process.step, member, verdict)))
            if verdict is not None:
                return verdict
        return None

    def cluster(self, process: LogicalProcess) -> Sequence[LogicalProcess]:
        """Return the cluster: all processes that are coupled to this one, directly or through others."""
        return self._cluster

    def _coupled_to(self, process: LogicalProcess) -> Sequence[LogicalProcess]:
        if process.history is None or self._space is None:
            return (process,)
        coupled = {process.agent_id: process}
        ahead = [process]
        while ahead:
            for other in self._coupled(ahead.pop()):
                if other.agent_id not in coupled:
                    coupled[other.agent_id] = other
                    ahead.append(other)
        return sorted(coupled.values(), key=lambda member: member.number)

    def _coupled(self, process: LogicalProcess) -> list[LogicalProcess]:
        step, space, history = process.step, self._space, process.history
        assert space is not None, "the caller has checked it"
        assert history is not None, "the caller has checked it"
        reach, here = space.reach, history.at(step).position
        near = (self._processes[other.agent_id] for other in space.neighbours(history, step))
        return [
            other
            for other in near
            if other.step == step
            and other.state is ProcessState.READY
            and other.history is not None
            and reach.near(1, here, other.history.at(step).position)
        ]

    def _slower(self, process: LogicalProcess) -> LogicalProcess | None:
        if self._space is None or process.history is None:
            return None
        slower = (self._processes[other.agent_id] for other in self._space.neighbours(process.history, process.step))
        return next((other for other in slower if self._holds_up(process, other)), None)

    def _holds_up(self, process: LogicalProcess, other: LogicalProcess) -> bool:
        """Return whether another process is behind and can come near before this process reaches its tick."""
        space, history, theirs = self._space, process.history, other.history
        if space is None or history is None or theirs is None:
            return False
        behind = (
            process.step - theirs.final
        )  # up to tick `final` the position is final, also for an agent that has stopped or sleeps
        return behind > 0 and space.reach.near(
            behind + 1, history.at(process.step).position, theirs.at(theirs.final).position
        )


class Oracle(SyncPolicy):
    """An agent waits only for agents that it will see: the lower bound for all policies.

    Args:
        processes, space, low_watermark: as for `SyncPolicy`.
        seen: (agent, tick) → the agents that it sees, from an earlier run.
    """

    def __init__(
        self,
        processes: Mapping[str, LogicalProcess],
        space: Space | None,
        low_watermark: Callable[[], int],
        seen: Mapping[tuple[str, int], Sequence[str]],
    ) -> None:
        super().__init__(processes, space, low_watermark)
        self._seen = seen

    def verdict(self, process: LogicalProcess) -> Verdict:
        """Wait for the first agent that it will see and whose position at this tick is not known yet."""
        if self._space is None or process.loop.agent.reach == "shared":
            return self._shared(process)
        for name in self._seen.get((process.agent_id, process.step), ()):
            if self._space.histories[name].final < process.step:
                return self._processes[name]
        return None


POLICIES: Mapping[str, type[SyncPolicy]] = {
    "sequential": Sequential, "barrier": Barrier, "causal": Causal, "causal-radius": CausalRadius, "free": Free,
}  # fmt: skip
