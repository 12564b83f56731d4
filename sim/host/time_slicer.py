"""Runs a kernel in slices of real time (edge), so that the host program gets its turns."""

from sim.kernel.duration import NS
from sim.kernel.kernel import Kernel, Pause
from sim.kernel.ports import Clock

SLICE = 0.004
"""Real seconds the kernel runs before the host program gets a turn."""

_FIRST_BUDGET = 16


class TimeSlicer:
    """Runs `kernel` for about `SLICE` at a time."""

    def __init__(self, kernel: Kernel, clock: Clock) -> None:
        self._kernel = kernel
        self._clock = clock
        self._budget = _FIRST_BUDGET

    def run(self, limit: int) -> Pause:
        """Run for a slice, at most up to a simulated time (exclusive), and choose the next slice's budget of steps."""
        started = self._clock.now()
        pause = self._kernel.run(limit, self._budget)
        elapsed = self._clock.now() - started
        if pause is Pause.BUDGET and elapsed > 0:
            wanted = self._budget * SLICE * NS / elapsed
            self._budget = max(1, min(round(wanted), self._budget * 4, 1_000_000))
        return pause

    def run_through(self, time: int, *, blocked: bool = False) -> Pause | None:
        """Run all that is due up to `time`, and let time pass to it. Return why it cannot be yet.

        Args:
            time: simulated nanoseconds.
            blocked: an earlier instant will do if the kernel is blocked there.
        """
        kernel = self._kernel
        pause = self.run(time + 1)
        if pause in (Pause.BUDGET, Pause.HALTED) or not kernel.whole():
            return pause
        due = kernel.next_time()
        if due is None or due > time:
            kernel.advance_to(time)
            return None
        if pause is Pause.BLOCKED:
            return None if blocked else pause
        return Pause.BUDGET  # a measured effect began
