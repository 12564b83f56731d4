"""The frontier of a synchronised run: the tick and the state of each process.

In this package, `step` is the number of a tick.
"""

from heapq import heappop, heappush

from sim.runner.sync.policies import LogicalProcess, ProcessState


class Frontier:
    """Counts the active processes per tick.

    Attributes:
        away: processes that wait for the world, for example asleep, paused or in a queue.
    """

    def __init__(self) -> None:
        self.away: dict[LogicalProcess, None] = {}
        self._changed: dict[LogicalProcess, None] = {}  # those whose loop changed since `take_changed`
        self._present: dict[int, int] = {}  # tick → number of ready and busy processes
        self._gated: dict[
            int, list[tuple[int, LogicalProcess]]
        ] = {}  # tick → heap of the processes that have decided on a shared action
        self._waiting: dict[int, list[LogicalProcess]] = {}  # tick → processes that wait until all have reached it

    def enter(self, process: LogicalProcess, step: int, state: ProcessState) -> None:
        """Set a process to ready or busy at a tick."""
        self.away.pop(process, None)
        process.step = step
        process.state = state
        self._present[step] = self._present.get(step, 0) + 1

    def leave(self, process: LogicalProcess) -> None:
        """Count a process as no longer ready or busy at its tick."""
        left = self._present[process.step] - 1
        if left:
            self._present[process.step] = left
        else:
            del self._present[process.step]

    def set_away(self, process: LogicalProcess) -> None:
        """Set a process that has left its tick to away: an event of the world will wake it."""
        process.state = ProcessState.AWAY
        self.away[process] = self._changed[process] = None  # its loop may already have changed

    def note_change(self, process: LogicalProcess) -> None:
        """Report a change in the loop of an agent."""
        self._changed[process] = None

    def take_changed(self) -> list[LogicalProcess]:
        """Return the away processes whose loop changed since the last call, in order."""
        changed = in_order([process for process in self._changed if process in self.away])
        self._changed.clear()
        return changed

    def goes_out(self, process: LogicalProcess) -> None:
        """Set a process to out: its agent has no further tick."""
        if process.state is ProcessState.READY:
            self.leave(process)
        self.away.pop(process, None)
        process.state = ProcessState.OUT

    def to_gate(self, process: LogicalProcess) -> None:
        """Move a process to its gate, because its agent has decided on a shared action."""
        self.leave(process)
        process.state = ProcessState.GATE
        heappush(self._gated.setdefault(process.step, []), (process.number, process))

    def next_at_gate(self, step: int) -> LogicalProcess | None:
        """Return the next process to act in a tick; None if a process has not decided yet, or none is left."""
        gated = self._gated.get(step)
        if gated is None or step in self._present:
            return None
        _, process = heappop(gated)
        if not gated:
            del self._gated[step]
        return process

    def wait_for_all(self, process: LogicalProcess) -> None:
        """Let a process wait until all processes have reached its tick."""
        self._waiting.setdefault(process.step, []).append(process)

    def all_at(self, step: int) -> list[LogicalProcess]:
        """Return the processes that waited until all have reached `step`, in order, and remove them."""
        steps = sorted(earlier for earlier in self._waiting if earlier <= step)
        return [process for earlier in steps for process in in_order(self._waiting.pop(earlier))]

    def lowest(self) -> int | None:
        """Return the earliest tick with an active process, or None."""
        return min((min(steps) for steps in (self._present, self._gated) if steps), default=None)


def in_order(processes: list[LogicalProcess]) -> list[LogicalProcess]:
    """Return processes in the order of their agents."""
    return sorted(processes, key=lambda process: process.number)
