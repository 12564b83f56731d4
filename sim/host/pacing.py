"""Edge: the pace of simulated time against real time."""

import time

from sim.errors import UsageError
from sim.kernel.duration import MAX_NS, NS
from sim.kernel.kernel import Kernel
from sim.kernel.ports import Clock


class MonotonicClock:
    """Real time from a monotonic clock, so that changes of the wall clock have no effect."""

    def now(self) -> int:
        """Return monotonic nanoseconds."""
        return time.monotonic_ns()


class Pacer:
    """Says how far simulated time may advance now.

    Simulated time jumps from event to event, unless there is a speed, or an effect with measured latency is in flight:
    such an effect takes as long in simulated time as in real time.

    Args:
        kernel: the kernel whose time is paced.
        clock: the clock for real time.
        speed: simulated seconds per real second, or None.

    Attributes:
        lag_ns: how late the latest paced step was, in nanoseconds of simulated time. A metric, not part of the state.

    Raises:
        UsageError: if the speed is out of range.
    """

    def __init__(self, kernel: Kernel, clock: Clock, speed: float | None) -> None:
        if speed is not None and not 0 < speed < 1e9:
            raise UsageError(f"the speed must be above 0, not {speed}")
        self.lag_ns = 0
        self._kernel = kernel
        self._clock = clock
        self._speed = speed
        self._anchor = (0, 0)

    @property
    def paced(self) -> bool:
        """Whether simulated time follows real time now."""
        return self._speed is not None or bool(self._kernel.effects.measured)

    def anchor(self) -> None:
        """Let simulated time follow real time from this moment on."""
        self._anchor = (self._kernel.now, self._clock.now())

    def limit(self) -> int:
        """Return the simulated time (nanoseconds, exclusive) up to which the kernel may run now."""
        if self.paced:
            return self._simulated()
        self.anchor()
        return MAX_NS

    def stamp(self) -> int:
        """Return the simulated time (nanoseconds) of an arrival that comes now."""
        return max(self._kernel.now, self._simulated() - 1) if self.paced else self._kernel.now

    def seconds_until(self, target: int) -> float:
        """Return the real seconds until simulated time may reach `target` (nanoseconds)."""
        ahead = target - self._simulated() + 1
        return max(0.0, ahead / NS / (self._speed or 1.0))

    def note_lag(self, due: int) -> None:
        """Measure how late a step is that was due at a simulated time."""
        self.lag_ns = max(0, self._simulated() - due)

    def _simulated(self) -> int:
        simulated, started = self._anchor
        elapsed = self._clock.now() - started
        return simulated + (elapsed if self._speed is None else round(elapsed * self._speed)) + 1
