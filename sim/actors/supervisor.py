"""The restart limit: how often a failing agent is restarted before it counts as crashed."""

from collections import deque


class RestartLimit:
    """Limits restarts within a sliding period, like the restart intensity of Erlang/OTP supervisors.

    Args:
        restarts: the maximum number of restarts within any period.
        period_ns: the length of the period, in simulated nanoseconds.
    """

    __slots__ = ("_period", "_restarts", "_times")

    def __init__(self, restarts: int, period_ns: int) -> None:
        self._restarts = restarts
        self._period = period_ns
        self._times: deque[int] = deque(maxlen=restarts + 1)

    def allow(self, now: int) -> bool:
        """Count one restart at `now` (nanoseconds) and return whether it is within the limit."""
        self._times.append(now)
        return len(self._times) <= self._restarts or now - self._times[0] > self._period
