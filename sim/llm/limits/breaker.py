"""The circuit breaker: an endpoint that answers next to nothing is left alone for a while, then asked by one caller.

It looks at the share of failures among the latest requests, not at failures in a row: with many agents on an endpoint
that fails one request in three, a row of failures is a matter of time, and no reason to stop.
"""

from collections import deque
from typing import Final

import attrs

from sim.llm.types import ClientClock, ErrorClass

_BROKEN: Final[frozenset[ErrorClass]] = frozenset({"overload", "server", "network", "timeout"})
"""What speaks against the endpoint. A `rate_limit` is the governor's business, a bad request the caller's."""


@attrs.define
class Breaker:
    """Whether one endpoint may be asked.

    Args:
        clock: what tells the time.
        window: how many of the latest requests count.
        minimum: how many requests there must be before it opens.
        share: the share of failures at which it opens.
        cool_down: seconds that it stays open first; doubled each time the caller that then tries fails.
        longest: the longest cool-down in seconds.
    """

    clock: ClientClock
    window: int = 20
    minimum: int = 10
    share: float = 0.8
    cool_down: float = 15.0
    longest: float = 120.0
    _latest: deque[bool] = attrs.field(init=False)  # whether each failed
    _open_until: float | None = attrs.field(init=False, default=None)
    _current: float = attrs.field(init=False)
    _probing: bool = attrs.field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        """Start closed."""
        self._latest = deque(maxlen=self.window)
        self._current = self.cool_down

    @property
    def is_open(self) -> bool:
        """Whether the endpoint is left alone, or under trial."""
        return self._open_until is not None

    def wait(self) -> float:
        """Return the seconds until the endpoint may be asked, 0 for now."""
        return 0.0 if self._open_until is None else max(0.0, self._open_until - self.clock.now())

    def begin(self) -> None:
        """Note that a request is made. If the breaker is open, it is the trial: the others wait one cool-down more.

        So a trial whose caller is cancelled needs no clean-up: the next trial comes one cool-down later.
        """
        if self._open_until is not None:
            self._probing = True
            self._open_until = self.clock.now() + self._current

    def record(self, kind: ErrorClass | None) -> None:
        """Note how a request ended: `kind` is its class of error, None if it was answered."""
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
