"""Edge: runs a kernel in short slices of real time, so that the host program can run in between."""

from sim.kernel.duration import NS
from sim.kernel.kernel import Kernel, Pause
from sim.kernel.ports import Clock

SLICE = 0.004
"""Real seconds that the kernel runs before the host program can run."""

_FIRST_BUDGET = 16
_MOST = 1_000_000


class TimeSlicer:
    """Runs a kernel in slices of about `SLICE` seconds."""

    def __init__(self, kernel: Kernel, clock: Clock) -> None:
        self._kernel = kernel
        self._clock = clock
        self._budget = _FIRST_BUDGET
        self._most = _MOST

    def take_steps(self, most: int) -> None:
        """Run at most a number of steps in a slice from now on."""
        self._budget = self._most = most

    def run(self, limit: int) -> Pause:
        """Run one slice, up to a simulated time (nanoseconds, exclusive), and adapt the number of steps per slice."""
        started = self._clock.now()
        pause = self._kernel.run(limit, self._budget)
        elapsed = self._clock.now() - started
        if pause is Pause.BUDGET and elapsed > 0:
            wanted = self._budget * SLICE * NS / elapsed
            self._budget = max(1, min(round(wanted), self._budget * 4, self._most))
        return pause

    def run_through(self, time: int, *, blocked: bool = False) -> Pause | None:
        """Run all entries that are due up to `time`, and advance simulated time to it.

        Args:
            time: the simulated time in nanoseconds.
            blocked: whether to accept an earlier instant if the kernel is blocked there.

        Returns:
            None if the time was reached, else why it was not reached yet.
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
        return Pause.BUDGET  # an effect with measured latency has started, which paused the kernel
