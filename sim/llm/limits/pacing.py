"""Pacing: spreads requests and tokens over time, on a `ClientClock`. The real client can use its own `Pacer`."""

import math
from typing import Final, Protocol

from sim.llm.types import ClientClock

SLACK: Final = 0.1
"""Seconds of unused places that can be used at once, so that a late timer does not lower the rate."""


class Pacer(Protocol):
    """Admits requests at a steady rate."""

    async def acquire(self) -> None:
        """Wait for the next place."""


class ClockPacer:
    """A first-in, first-out pacer on any clock.

    Args:
        clock: the source of time.
        rate: places per second.
    """

    def __init__(self, clock: ClientClock, rate: float) -> None:
        self._clock = clock
        self._step = 1 / rate
        self._slack = max(0.0, SLACK - self._step)
        self._next = clock.now()

    async def acquire(self) -> None:
        """Wait for the next place. A cancelled wait returns its place."""
        now = self._clock.now()
        place = max(self._next, now - self._slack)
        self._next = place + self._step
        if place > now:
            try:
                await self._clock.sleep(place - now)
            except BaseException:
                self._next -= self._step
                raise


class Tokens:
    """A token bucket whose level can become negative.

    This happens if a request is larger than the bucket, or uses more tokens than reserved.
    """

    def __init__(self) -> None:
        self.rate = math.inf  # per second
        self.level = 0.0
        self._size = 0.0
        self._at = 0.0

    def set_rate(self, per_minute: float, size: float, now: float) -> None:
        """Change the rate. The first limit starts with a full bucket."""
        self.refill(now)
        self.level = size if math.isinf(self.rate) else min(self.level, size)
        self.rate, self._size = per_minute / 60, size

    def refill(self, now: float) -> None:
        """Add the tokens for the time since the last refill."""
        if not math.isinf(self.rate):
            self.level = min(self._size, self.level + max(0.0, now - self._at) * self.rate)
        self._at = max(self._at, now)

    def hold(self, until: float) -> None:
        """Add no tokens before `until`."""
        self._at = max(self._at, until)

    def delay(self, amount: float) -> float:
        """Return the seconds until `amount` tokens can be taken."""
        return 0.0 if math.isinf(self.rate) else max(0.0, (min(amount, self._size) - self.level) / self.rate)

    def add(self, amount: float) -> None:
        """Add tokens, or take them (negative amount)."""
        if not math.isinf(self.rate):
            self.level = min(self._size, self.level + amount)
