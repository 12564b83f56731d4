"""Heartbeats: who is expected to show signs of work, and the warning when there are none.

Employees, recurring jobs and step workers are watched over alike. A warning comes when twice the interval has passed
without a heartbeat, whatever state the agent is in, also if it has stopped.
"""

from collections.abc import Callable

import attrs

from sim.kernel import Kernel, Timer


@attrs.define
class Heartbeat:
    """The heartbeat of one agent.

    Attributes:
        title: the name that warnings give.
        interval_ns: the time from one heartbeat to the next, in simulated nanoseconds.
        heard_ns: when the last one was, or since when one is expected.
        expected: whether one is expected at present. A step worker has nothing to show while no step waits.
        alerts: the number of warnings so far.
    """

    title: str
    interval_ns: int
    heard_ns: int
    expected: bool = True
    alerts: int = 0
    _timer: Timer | None = None

    def is_missing(self, now_ns: int) -> bool:
        """Return whether the heartbeat has been missing for twice the interval."""
        return self.expected and now_ns - self.heard_ns >= 2 * self.interval_ns

    def beat(self, kernel: Kernel, warn: Callable[["Heartbeat"], object], *, more: bool = True) -> None:
        """Take a heartbeat.

        Args:
            kernel: the kernel, which has the clock.
            warn: called when the next one is missing for twice the interval.
            more: whether another one is expected.
        """
        self.heard_ns, self.expected = kernel.now, more
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if more:
            due = self.heard_ns + 2 * self.interval_ns
            self._timer = kernel.call_at(due, lambda: warn(self), kernel.source_for(self.title, purpose="heartbeat"))

    def state(self) -> list[int | bool]:
        """Return what the final digest has of it."""
        return [self.heard_ns, self.expected, self.alerts]
