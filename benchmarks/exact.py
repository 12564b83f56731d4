"""The least that the kernel's guarantees need, with nothing else around it: a floor for what `sim` could reach.

Kept are the guarantees of the order and of cancelling: each step has the whole key (time, priority, source, counter),
what one instant causes runs in a round of its own, sorted; a wait is decided when something happens, by a token that
makes every other registration stale, and what was handed over is known, so that it could be taken back. Actors are
coroutines that await. Left out is everything else: limits, budgets of steps, pauses, effects, errors, purging, a width
that adapts, checks of what users pass.
"""

import types
from collections import deque
from collections.abc import Coroutine, Generator
from heapq import heappop, heappush
from typing import Any

_ARMED = object()


class Actor:
    """A coroutine with a place in the order."""

    __slots__ = ("cancelling", "coro", "counter", "ordinal", "token", "value", "via")

    def __init__(self, ordinal: int, coro: Coroutine[Any, Any, Any]) -> None:
        self.ordinal = ordinal
        self.coro = coro
        self.counter = self.token = 0
        self.value = self.via = None
        self.cancelling = False


class Exact:
    """The loop.

    Args:
        shift: `time >> shift` is the number of a bucket.
    """

    def __init__(self, shift: int = 26) -> None:
        self.now = 0
        self.current: Any = None
        self.ready: list[Any] = []
        self._buckets: dict[int, list[Any]] = {}
        self._turns: list[int] = []
        self._shift = shift

    def spawn(self, ordinal: int, coro: Coroutine[Any, Any, Any]) -> None:
        """Add an actor."""
        self.ready.append((self.now, 0, ordinal, 0, Actor(ordinal, coro), 0))

    def run(self, until: int = 2**62) -> None:
        """Run all that is due before `until`."""
        while True:
            while self.ready:
                batch = self.ready.copy()
                self.ready.clear()
                batch.sort()
                self._run(batch)
            if not self._turns or self._turns[0] << self._shift >= until:
                return
            bucket = self._buckets.pop(heappop(self._turns))
            bucket.sort()
            self._run(bucket)

    def _run(self, entries: list[Any]) -> None:
        buckets, shift, now, ready = self._buckets, self._shift, self.now, self.ready
        for position, entry in enumerate(entries):
            time = entry[0]
            if time != now:
                if ready:  # comes first
                    batch = ready.copy()
                    ready.clear()
                    batch.sort()
                    entries[position:position] = batch
                    entry = batch[0]
                    time = now
                else:
                    self.now = now = time
            actor, token = entry[4], entry[5]
            if actor.token != token:
                continue
            self.current = actor
            actor.token = token = (token | 1) + 1
            try:
                request = actor.coro.send(actor.value)
            except StopIteration:
                continue
            if request is not _ARMED:
                actor.counter = counter = actor.counter + 1
                due = time + request
                turn = due >> shift
                if turn in buckets:
                    buckets[turn].append((due, 0, actor.ordinal, counter, actor, token))
                else:
                    buckets[turn] = [(due, 0, actor.ordinal, counter, actor, token)]
                    heappush(self._turns, turn)

    def wake(self, actor: Actor, token: int, value: Any, via: Any) -> None:
        """Decide a wait."""
        actor.token = token + 1
        actor.value = value
        actor.via = via
        source = self.current
        source.counter = counter = source.counter + 1
        self.ready.append((self.now, 0, source.ordinal, counter, actor, token + 1))


@types.coroutine
def sleep(delay: int) -> Generator[int, Any, None]:
    """Wait for a span of time."""
    yield delay


class Box:
    """Items, handed over to who waits."""

    __slots__ = ("items", "kernel", "waiting")

    def __init__(self, kernel: Exact) -> None:
        self.kernel = kernel
        self.items: deque[Any] | None = None
        self.waiting: list[Any] = []

    @types.coroutine
    def get(self) -> Generator[Any, Any, Any]:
        """Wait for an item."""
        if self.items:
            return self.items.popleft()
        actor = self.kernel.current
        self.waiting.append((actor, actor.token))
        return (yield _ARMED)

    def put(self, item: Any) -> None:
        """Hand an item to who waits first, or keep it."""
        waiting = self.waiting
        while waiting:
            actor, token = waiting.pop(0)
            if actor.token == token:
                self.kernel.wake(actor, token, item, self)
                return
        if self.items is None:
            self.items = deque()
        self.items.append(item)


class Bell:
    """Wakes all who wait."""

    __slots__ = ("kernel", "waiting")

    def __init__(self, kernel: Exact) -> None:
        self.kernel = kernel
        self.waiting: list[Any] = []

    @types.coroutine
    def wait(self) -> Generator[Any, Any, Any]:
        """Wait until it rings."""
        actor = self.kernel.current
        self.waiting.append((actor, actor.token))
        return (yield _ARMED)

    def ring(self, value: Any) -> None:
        """Wake all."""
        kernel, source = self.kernel, self.kernel.current
        waiting, self.waiting = self.waiting, []
        counter, now, ordinal, append = source.counter, kernel.now, source.ordinal, kernel.ready.append
        for actor, token in waiting:
            if actor.token == token:
                actor.token = token = token + 1
                actor.value = value
                actor.via = self
                counter += 1
                append((now, 0, ordinal, counter, actor, token))
        source.counter = counter


class Slots:
    """Equal slots, handed over in order of arrival."""

    __slots__ = ("free", "kernel", "line")

    def __init__(self, kernel: Exact, free: int) -> None:
        self.kernel = kernel
        self.free = free
        self.line: deque[Any] = deque()

    @types.coroutine
    def acquire(self) -> Generator[Any, Any, None]:
        """Wait for a slot."""
        if self.free and not self.line:
            self.free -= 1
        else:
            actor = self.kernel.current
            self.line.append((actor, actor.token))
            yield _ARMED

    def release(self) -> None:
        """Give a slot to who waits first."""
        line = self.line
        while line:
            actor, token = line.popleft()
            if actor.token == token:
                self.kernel.wake(actor, token, None, self)
                return
        self.free += 1
