"""The supervisor's rule: how often an agent may be retried before it counts as crashed."""

from collections import deque


class RestartLimit:
    """Restart intensity, as in Erlang/OTP: at most n restarts within any period.

    Args:
        restarts: n.
        period_ns: the period in simulated nanoseconds.
    """

    __slots__ = ("_period", "_restarts", "_times")

    def __init__(self, restarts: int, period_ns: int) -> None:
        self._restarts = restarts
        self._period = period_ns
        self._times: deque[int] = deque(maxlen=restarts + 1)

    def allow(self, now: int) -> bool:
        """Count one restart at `now` (nanoseconds) and return whether it is still within the intensity."""
        self._times.append(now)
        return len(self._times) <= self._restarts or now - self._times[0] > self._period
