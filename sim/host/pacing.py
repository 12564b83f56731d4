"""Edge: the pace of simulated time against real time."""

import logging
import time

from sim.base.errors import RunError, UsageError
from sim.kernel.duration import MAX_NS, NS, to_text
from sim.kernel.kernel import Kernel
from sim.kernel.ports import Clock

_LOG = logging.getLogger("sim.host")

_NOTICED = 0.01 * NS
"""From how many real nanoseconds on a delay is reported: event loops are late by some milliseconds."""


def check_speed(speed: float) -> None:
    """Check simulated seconds per real second.

    Raises:
        UsageError: if it is not a number above 0 and below 1e9.
    """
    if speed.__class__ not in (int, float) or not 0 < speed < 1e9:  # also true for NaN
        raise UsageError(f"the speed is simulated seconds per real second, a number above 0, not {speed!r:.60}")


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
        strict: whether a step that is more than one simulated second late is an error.

    Attributes:
        lag_ns: how late the latest paced step was, in nanoseconds of simulated time. A metric, not part of the state.
        worst_ns: how late a step of the present run was at worst, in nanoseconds of simulated time.

    Raises:
        UsageError: if the speed is out of range.
    """

    def __init__(self, kernel: Kernel, clock: Clock, speed: float | None, *, strict: bool = False) -> None:
        if speed is not None:
            check_speed(speed)
        self.lag_ns = 0
        self.worst_ns = 0
        self._strict = strict
        self._kernel = kernel
        self._clock = clock
        self._speed = speed
        self._anchor = (0, 0)

    @property
    def paced(self) -> bool:
        """Whether simulated time follows real time now."""
        return self._speed is not None or bool(self._kernel.effects.measured)

    @property
    def speed(self) -> float | None:
        """Simulated seconds per real second; None jumps from event to event."""
        return self._speed

    def pace(self, speed: float | None) -> None:
        """Change the speed from this moment on. Call it in the thread of the run.

        Raises:
            UsageError: if the speed is out of range.
        """
        if speed is not None:
            check_speed(speed)
        self._speed = speed
        self.anchor()

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

    def check_lag(self) -> None:
        """Measure how late the step is that ran last, if there is a speed.

        Raises:
            RunError: if it is too late, and the pace is strict. SimPy's real time has the same limit.
        """
        if self._speed is None:
            return
        late = self._simulated() - 1 - self._kernel.now
        self.worst_ns = max(self.worst_ns, late)
        if self._strict and late > NS:
            raise RunError(
                f"the run cannot keep up with the wall clock: {self._text(late)} late at {to_text(self._kernel.now)}",
                hint="lower the speed, or run without strict",
            )

    def report_lag(self) -> None:
        """Say how late the run was at worst, if it could not keep up, and begin to measure again."""
        worst, self.worst_ns = self.worst_ns, 0
        if self._speed is not None and worst > NS and worst / self._speed > _NOTICED:
            _LOG.warning(
                "the run could not keep up with the wall clock: at worst it was %s late; a lower speed helps",
                self._text(worst),
            )

    def _text(self, late: int) -> str:
        assert self._speed is not None, "without a speed nothing is late"
        return f"{late / NS:.3g} simulated seconds ({late / NS / self._speed:.3g} s of real time)"

    def note_lag(self, due: int) -> None:
        """Measure how late a step is that was due at a simulated time."""
        self.lag_ns = max(0, self._simulated() - due)

    def _simulated(self) -> int:
        simulated, started = self._anchor
        elapsed = self._clock.now() - started
        return simulated + (elapsed if self._speed is None else round(elapsed * self._speed)) + 1
