"""The circuit breaker: stops requests to an endpoint for a while after most of them failed, then admits one trial.

It uses the share of failures among the latest requests, not consecutive failures. With many agents, an endpoint that
fails one request in three soon has a series of consecutive failures, although it is still useful.
"""

from collections import deque
from typing import Final

import attrs

from sim.llm.types import ClientClock, ErrorClass

_BROKEN: Final[frozenset[ErrorClass]] = frozenset({"overload", "server", "network", "timeout"})
"""Error classes that count as failures of the endpoint. The governor handles `rate_limit`, the caller a bad request."""


@attrs.define
class Breaker:
    """Decides whether requests may be sent to one endpoint.

    Args:
        clock: the source of time.
        window: the number of latest requests that count.
        minimum: the number of requests before it can open.
        share: the share of failures at which it opens.
        cool_down: seconds that it stays open at first; doubled each time a trial request fails.
        longest: the longest cool-down in seconds.
    """

    clock: ClientClock
    window: int = 20
    minimum: int = 10
    share: float = 0.8
    cool_down: float = 15.0
    longest: float = 120.0
    _latest: deque[bool] = attrs.field(init=False)  # True for a failure
    _open_until: float | None = attrs.field(init=False, default=None)
    _current: float = attrs.field(init=False)
    _probing: bool = attrs.field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        """Start in the closed state."""
        self._latest = deque(maxlen=self.window)
        self._current = self.cool_down

    @property
    def is_open(self) -> bool:
        """Whether requests are stopped, or a trial request is in flight."""
        return self._open_until is not None

    def wait(self) -> float:
        """Return the seconds until the next request is allowed; 0: now."""
        return 0.0 if self._open_until is None else max(0.0, self._open_until - self.clock.now())

    def begin(self) -> None:
        """Note that a request starts. If the breaker is open, it is the trial, and all others wait one cool-down more.

        A cancelled trial therefore needs no clean-up: the next trial starts one cool-down later.
        """
        if self._open_until is not None:
            self._probing = True
            self._open_until = self.clock.now() + self._current

    def record(self, kind: ErrorClass | None) -> None:
        """Note how a request ended: `kind` is the class of its error, or None for an answer."""
        failed = kind in _BROKEN
        if self._open_until is None:
            self._latest.append(failed)
            count = len(self._latest)
            if count >= self.minimum and sum(self._latest) >= self.share * count:
                self._open_until = self.clock.now() + self._current
        elif not failed:
            self._open_until, self._probing, self._current = None, False, self.cool_down
            self._latest.clear()
        elif self._probing:
            self._probing = False
            self._current = min(self.longest, 2 * self._current)
            self._open_until = self.clock.now() + self._current
