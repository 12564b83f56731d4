"""The frontier of a synchronised run: which process is at which step, at its gate, or away."""

from heapq import heappop, heappush

from sim.sync.policies import LogicalProcess, ProcessState


class Frontier:
    """Counts the processes that have something to do, by step.

    Attributes:
        away: processes that the world's own time wakes.
    """

    def __init__(self) -> None:
        self.away: dict[LogicalProcess, None] = {}
        self._stirred: dict[LogicalProcess, None] = {}  # those whose loop has changed since `stirred` was called
        self._present: dict[int, int] = {}  # by step: how many are ready or busy
        self._gated: dict[
            int, list[tuple[int, LogicalProcess]]
        ] = {}  # by step: heap of those that have decided on a shared action
        self._waiting: dict[int, list[LogicalProcess]] = {}  # by step: those that wait until all have reached it

    def enter(self, process: LogicalProcess, step: int, state: ProcessState) -> None:
        """An agent is ready for a step, or busy in it."""
        self.away.pop(process, None)
        process.step = step
        process.state = state
        self._present[step] = self._present.get(step, 0) + 1

    def leave(self, process: LogicalProcess) -> None:
        """An agent has finished its step, or leaves it."""
        left = self._present[process.step] - 1
        if left:
            self._present[process.step] = left
        else:
            del self._present[process.step]

    def goes_away(self, process: LogicalProcess) -> None:
        """An agent that has left its step is woken by the world's own time."""
        process.state = ProcessState.AWAY
        self.away[process] = self._stirred[process] = None  # it may have changed before

    def stirs(self, process: LogicalProcess) -> None:
        """Something has changed about an agent's loop."""
        self._stirred[process] = None

    def stirred(self) -> list[LogicalProcess]:
        """Return the processes away whose loop has changed, in order, each once."""
        found = in_order([process for process in self._stirred if process in self.away])
        self._stirred.clear()
        return found

    def goes_out(self, process: LogicalProcess) -> None:
        """An agent does no more steps."""
        if process.state is ProcessState.READY:
            self.leave(process)
        self.away.pop(process, None)
        process.state = ProcessState.OUT

    def to_gate(self, process: LogicalProcess) -> None:
        """An agent has decided on a shared action."""
        self.leave(process)
        process.state = ProcessState.GATE
        heappush(self._gated.setdefault(process.step, []), (process.number, process))

    def next_at_gate(self, step: int) -> LogicalProcess | None:
        """Return the process that acts next in a step; None if some have not decided yet or none is left."""
        gated = self._gated.get(step)
        if gated is None or step in self._present:
            return None
        _, process = heappop(gated)
        if not gated:
            del self._gated[step]
        return process

    def wait_for_all(self, process: LogicalProcess) -> None:
        """An agent waits until all have reached its step."""
        self._waiting.setdefault(process.step, []).append(process)

    def all_at(self, step: int) -> list[LogicalProcess]:
        """All have reached a step: return those that waited for it, in order."""
        steps = sorted(earlier for earlier in self._waiting if earlier <= step)
        return [process for earlier in steps for process in in_order(self._waiting.pop(earlier))]

    def lowest(self) -> int | None:
        """Return the earliest step that some process has to do."""
        return min((min(steps) for steps in (self._present, self._gated) if steps), default=None)


def in_order(processes: list[LogicalProcess]) -> list[LogicalProcess]:
    """Return processes in the order of their agents."""
    return sorted(processes, key=lambda process: process.number)
