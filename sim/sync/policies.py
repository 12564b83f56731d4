"""Logical processes (agents, each at its own simulated time), and the policies that decide which may advance."""

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
    """What an agent is doing."""

    READY = auto()  # wants to begin its step
    BUSY = auto()  # in its step: it runs, or is being served
    GATE = auto()  # has decided on a shared action, and waits until everything earlier has happened
    COUPLED = auto()  # has finished, but its step counts only when the rest of its cluster has finished too
    AWAY = auto()  # asleep, paused or in a queue: the world's own time wakes it
    OUT = auto()  # stopped, or at the end of the run


class LogicalProcess:
    """One agent of a synchronised run, as parallel simulation calls it: with a simulated time of its own.

    Attributes:
        loop: the agent's loop.
        number: its place in the order.
        step: the step that it is doing, or is about to do.
        state: what it is doing.
        history: its positions in space, if it has any.
        path: seconds of service on the longest chain of dependencies that led to its present state.
        watchers: processes that wait for this one to advance.
        since: service time, in nanoseconds, at which it became ready, or finished before its cluster.
        waited: service time, in nanoseconds, during which it was ready and had to wait.
        cluster: the processes that do their steps together with it.
        admitted: whether it has passed the gate, so that it may change what agents share.
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
        self.time_ns = self.delta = 0  # its own time, while it is busy
        self.state = ProcessState.AWAY
        self.path = 0.0
        self._paths: list[tuple[int, float]] = []  # (step, path when it was through), where it changed
        self.watchers: list[LogicalProcess] = []
        self.since = 0
        self.waited = 0
        self.serving = False
        self.admitted = False
        self.cluster: list[LogicalProcess] = []

    @property
    def agent_id(self) -> str:
        """The agent's name."""
        return self.loop.agent_id

    def path_before(self, step: int) -> float:
        """Return the longest chain that led to what it shows at the beginning of `step`."""
        index = bisect_left(self._paths, (step, -math.inf)) - 1
        return self._paths[index][1] if index >= 0 else 0.0

    def note_path(self) -> None:
        """Keep the length of the chain that led to the end of this step."""
        if not self._paths or self._paths[-1][1] != self.path:
            self._paths.append((self.step, self.path))

    def forget_paths(self, step: int) -> None:
        """Drop what only steps before `step` could ask for."""
        del self._paths[: max(0, bisect_left(self._paths, (step, -math.inf)) - 1)]


LOW_WATERMARK: Literal["low_watermark"] = "low_watermark"
"""Stands for the wait until every process has reached the same step."""

Verdict = LogicalProcess | Literal["low_watermark"] | None
"""What a process has to wait for; None if it may begin."""


class SyncPolicy(ABC):
    """Decides which processes may begin their step.

    Args:
        processes: all processes, by agent.
        space: where the agents are, if there is one.
        low_watermark: returns the earliest step that some process still has to do.
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
        """Return what a process that is ready has to wait for."""

    def cluster(self, process: LogicalProcess) -> Sequence[LogicalProcess]:
        """Return the processes that begin together with one that `verdict` has just allowed, itself included."""
        return (process,)

    def _shared(self, process: LogicalProcess) -> Verdict:
        """Let a process that reads shared state wait until everything earlier has happened."""
        return LOW_WATERMARK if process.loop.agent.reach == "shared" and self._low_watermark() < process.step else None


class Barrier(SyncPolicy):
    """No process begins a step before all have finished the previous one: the policy of the tick mode."""

    def verdict(self, process: LogicalProcess) -> Verdict:
        """Wait for the slowest process."""
        return LOW_WATERMARK if self._low_watermark() < process.step else None


class Sequential(SyncPolicy):
    """A barrier, and one agent at a time, in their order."""

    def __init__(
        self, processes: Mapping[str, LogicalProcess], space: Space | None, low_watermark: Callable[[], int]
    ) -> None:
        super().__init__(processes, space, low_watermark)
        self._order = list(processes.values())
        self._step = -1
        self._passed: dict[
            int, int
        ] = {}  # skips processes that have nothing to do in this step: number → where to look next

    def verdict(self, process: LogicalProcess) -> Verdict:
        """Wait for the slowest process, and for the nearest one that comes earlier in the order."""
        if self._low_watermark() < process.step:
            return LOW_WATERMARK
        if self._step != process.step or process.number in self._passed:  # it has woken within the step
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
        """Begin, unless it reads shared state."""
        return self._shared(process)


class Causal(SyncPolicy):
    """An agent waits for those that may have come into its sight by its step, and for those it depends on.

    Positions are kept by step, so no agent waits for one that is ahead, and agents in sight of each other need not
    step together.
    """

    def verdict(self, process: LogicalProcess) -> Verdict:
        """Wait for the first neighbour whose position is not known far enough."""
        history, space, step = process.history, self._space, process.step
        if history is None or space is None or process.loop.agent.reach == "shared":
            return self._shared(process)
        here, may_meet = history.at(step).position, space.reach.may_meet
        for other in space.neighbours(history, step):
            known = other.known
            if known < step and may_meet(step - known, here, other.at(known).position):
                return self._processes[other.agent_id]
        for name in history.partners:
            if space.histories[name].known < step:
                return self._processes[name]
        return None


class CausalRadius(SyncPolicy):
    """The rule of AI Metropolis (Xie et al., 2024).

    Agents at the same step within perception + speed of each other are coupled and step together. One waits for a
    slower one while their distance is at most (difference of steps + 1) · speed + perception.
    """

    def __init__(
        self, processes: Mapping[str, LogicalProcess], space: Space | None, low_watermark: Callable[[], int]
    ) -> None:
        super().__init__(processes, space, low_watermark)
        self._cluster: Sequence[LogicalProcess] = ()  # of the latest verdict
        self._held: dict[
            LogicalProcess, tuple[int, LogicalProcess, LogicalProcess]
        ] = {}  # whose cluster waits → its step, the member held up, by whom

    def verdict(self, process: LogicalProcess) -> Verdict:
        """Wait for the first slower process that may interfere with any member of the cluster."""
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
        """Return the cluster: all processes coupled to this one, directly or through others."""
        return self._cluster

    def _coupled_to(self, process: LogicalProcess) -> Sequence[LogicalProcess]:
        if process.history is None or self._space is None:
            return (process,)
        found = {process.agent_id: process}
        ahead = [process]
        while ahead:
            for other in self._coupled(ahead.pop()):
                if other.agent_id not in found:
                    found[other.agent_id] = other
                    ahead.append(other)
        return sorted(found.values(), key=lambda member: member.number)

    def _coupled(self, process: LogicalProcess) -> list[LogicalProcess]:
        step, space, history = process.step, self._space, process.history
        assert space is not None, "asked before"
        assert history is not None, "asked before"
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
        """Whether another process is so far behind that it may come near before this one's step."""
        space, history, theirs = self._space, process.history, other.history
        if space is None or history is None or theirs is None:
            return False
        behind = (
            process.step - theirs.known
        )  # by which time even one that has stopped, or sleeps, stands where it stood
        return behind > 0 and space.reach.near(
            behind + 1, history.at(process.step).position, theirs.at(theirs.known).position
        )


class Oracle(SyncPolicy):
    """An agent waits only for those that it will see: no policy can do better.

    Args:
        processes, space, low_watermark: as for `SyncPolicy`.
        seen: (agent, step) → the agents that it sees, from an earlier run.
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
        """Wait for the first agent that it will see and that has not reached this step."""
        if self._space is None or process.loop.agent.reach == "shared":
            return self._shared(process)
        for name in self._seen.get((process.agent_id, process.step), ()):
            if self._space.histories[name].known < process.step:
                return self._processes[name]
        return None


POLICIES: Mapping[str, type[SyncPolicy]] = {
    "sequential": Sequential, "barrier": Barrier, "causal": Causal, "causal-radius": CausalRadius, "free": Free,
}  # fmt: skip
