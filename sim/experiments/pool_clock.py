"""Time-weighted figures of pools: what was in use, waited and was there, for how long. They are exact, not sampled.

A pool can change at any instant, and between two instants it does not. So the figures are sums over instants: what a
pool has at the end of each, times the span to the next one. The clock only reads, so a run is the same with it.
"""

import math
from collections.abc import Iterable, Mapping

import attrs

from sim.agents.outcomes import OF_POOLS, FunctionCall
from sim.kernel import Kernel, to_seconds
from sim.kernel.duration import MAX_NS
from sim.resources.pool import Pool


@attrs.define
class _Window:
    """The sums of one pool over a part of the run: from `start` on, before `end`, in nanoseconds.

    Attributes:
        span: the nanoseconds so far.
        level, queue: the sums of level and of waiting requests, times nanoseconds.
        before: the number of requests that were served before it; None: it has not begun.
        after: the number of requests that were served or wait when it ends; None: it has not ended.
    """

    pool: Pool
    start: int
    end: int
    span: int = 0
    level: float = 0.0
    queue: int = 0
    before: int | None = None
    after: int | None = None

    def advance(self, now: int, time: int) -> None:
        """Add the span between two instants."""
        if now >= self.end or time <= self.start:
            return
        statistics = self.pool.statistics()
        span = min(time, self.end) - max(now, self.start)
        self.span += span
        self.level += statistics.level * span
        self.queue += statistics.queue * span
        if time >= self.end:
            self.after = statistics.served + statistics.queue

    def begin(self, now: int, time: int) -> None:
        """Note what was served before, at the last instant before the window."""
        if self.before is None and now < self.start <= time:
            self.before = self.pool.statistics().served

    def stop(self) -> None:
        """Note what was served, and waits, at the end of the run."""
        if self.after is None:
            statistics = self.pool.statistics()
            self.after = statistics.served + statistics.queue

    def value(self, function: str) -> float | None:
        """Return a figure; None if the run did not reach the window, or no request came."""
        if not self.span:
            return None
        level, queue = self.level / self.span, self.queue / self.span
        if function == "wait":
            requests = (self.after or 0) - (self.before or 0)
            return to_seconds(self.queue) / requests if requests > 0 else None
        used = self.pool.capacity - level
        figures = {"use": used, "utilization": used / self.pool.capacity, "queue": queue, "level": level}
        value = figures[function]
        return value if math.isfinite(value) else None


class PoolClock:
    """Watches pools while a run lasts.

    Args:
        kernel: the kernel of the run.
        pools: its pools by name.
        calls: the calls of outcomes; those that are about no pool are left out.
    """

    def __init__(self, kernel: Kernel, pools: Mapping[str, Pool], calls: Iterable[FunctionCall]) -> None:
        self._kernel = kernel
        self._windows: dict[tuple[str, int, int], _Window] = {}
        for call in calls:
            if call.function in OF_POOLS:
                key = _key(call)
                self._windows.setdefault(key, _Window(pools[call.what], *key[1:], before=None if key[1] else 0))
        if self._windows:
            kernel.advancing = self._advance

    def stop(self) -> None:
        """Stop watching, at the end of the run and before its agents stop."""
        self._kernel.advancing = None
        for window in self._windows.values():
            window.stop()

    def value(self, call: FunctionCall) -> float | None:
        """Return the value of a call about a pool."""
        return self._windows[_key(call)].value(call.function)

    def _advance(self, time: int) -> None:
        now = self._kernel.now
        for window in self._windows.values():
            window.begin(now, time)
            window.advance(now, time)


def _key(call: FunctionCall) -> tuple[str, int, int]:
    return call.what, int(call.options.get("from", 0)), int(call.options.get("to", MAX_NS))
