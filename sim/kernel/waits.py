"""The waits of an actor: for a time, a signal, or a queue.

An actor waits by yielding a whole number of nanoseconds (a pause), or a wait, which the kernel then arms. Each
registration holds (actor, token). It becomes stale when the token of the actor changes. A wait that was cancelled or
ended otherwise therefore takes nothing, and its registration need not be removed.

What ends a wait is decided at the moment of the event, not when the actor runs. A queue hands its item over
immediately, and takes it back (`undo`) if the actor is cancelled before it runs. A wait that gives something, such as
`put`, is withdrawn in the same way, but only until another actor has taken what was put (`final`).
"""

from collections import deque
from collections.abc import Generator
from functools import partial
from typing import Any, Protocol

from sim.base.errors import Cancelled, ClosedError, UsageError
from sim.kernel.actor import Actor, Source
from sim.kernel.compiled import core
from sim.kernel.coroutines import coroutine
from sim.kernel.duration import Duration, to_ns
from sim.kernel.kernel import ARMED, Kernel
from sim.kernel.order import WakeBatch

NOTHING = object()
"""What `take` returns when an actor has to wait."""

_FEWEST_STALE = 32  # minimum number of registrations before stale ones are removed


class Wait(Protocol):
    """Something that an actor can wait for.

    A wait may have more methods:

    - `received(value)` is called in the step in which the actor gets the value, for example to note who holds a slot;
    - `final()` returns whether what the actor gave, or the room of what it took, is in use already, so that `undo`
      would come too late;
    - `reserving()` returns a wait that keeps room for what the actor gives, and gives it in `received`, or keeps the
      room of what the actor took. `all_of` uses it, because it must be able to undo each of its waits until all have
      ended;
    - `result(value)` returns the value of the wait, when its actor runs again with `value`.
    """

    def take(self) -> Any:
        """Return the value if it is available, else `NOTHING`."""

    def arm(self, kernel: Kernel, actor: Actor, /) -> None:
        """Register the actor under its present token."""

    def undo(self, value: Any, /) -> None:
        """Take back a value that was handed over to an actor but not received by it."""

    def leave(self) -> None:
        """React to the end of the wait of an armed actor that got nothing, for example serve the waiters behind it."""


class Waiters:
    """Waiting actors in order of arrival. Actors that no longer wait are skipped.

    Attributes:
        actors: the actors, each followed by its token. A few are in a list, because an empty deque takes 760 bytes.
    """

    __slots__ = ("_purge_at", "actors")

    def __init__(self) -> None:
        self.actors: list[Any] | deque[Any] | None = None
        self._purge_at = _FEWEST_STALE

    def add(self, actor: Actor) -> None:
        """Add the actor at the end."""
        if self.actors is None:
            self.actors = []
        elif len(self.actors) >= 2 * self._purge_at:
            live = self.live()
            self.actors = deque(part for actor in live for part in (actor, actor.token))
            self._purge_at = max(_FEWEST_STALE, 2 * len(live))
        self.actors.append(actor)
        self.actors.append(actor.token)

    def pop(self) -> Actor | None:
        """Remove and return the first actor that still waits, or return None."""
        waiting = self.actors
        while waiting:
            take = partial(waiting.pop, 0) if isinstance(waiting, list) else waiting.popleft
            actor: Actor = take()
            if actor.token == take():
                return actor
        return None

    def live(self) -> list[Actor]:
        """Return the actors that still wait, in order of arrival."""
        parts = iter(self.actors or ())
        return [actor for actor, token in zip(parts, parts, strict=True) if actor.token == token]

    def __len__(self) -> int:
        return len(self.live())


class Signal:
    """A wait that wakes the actors that wait when it is fired, and keeps nothing for later ones."""

    __slots__ = ("_crowd", "_kernel", "_others", "_purge_at")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._crowd = WakeBatch(kernel.throws)  # the waiting actors
        self._others = False  # whether some of them may also wait for something else
        self._purge_at = _FEWEST_STALE

    @coroutine
    def wait(self) -> Generator[Any, Any, Any]:
        """Wait until the signal is fired and return the value it was fired with."""
        crowd, actor = self._crowd, self._kernel.current
        if actor.__class__ is not Actor or actor.cancelling:
            return (yield self)
        crowd.waiting.append(actor)  # `arm` inlined, because this is the hot path of events
        crowd.waiting.append(actor.token)
        actor.via = crowd
        try:
            yield ARMED
        except BaseException:
            crowd.lose_one()
            raise
        actor.via = None
        return crowd.value

    def fire(self, value: Any = None) -> int:
        """Wake all waiting actors, in their order, and return their number."""
        kernel, crowd = self._kernel, self._crowd
        source = kernel.current or kernel.acting()  # first: it refuses a call from outside before anything changes
        source.counter = counter = source.counter + 1
        if not crowd.waiting:
            return 0
        self._crowd = WakeBatch(kernel.throws)
        crowd.value = value
        if self._others or crowd.throws != kernel.throws:
            return self._wake_each(crowd, source, counter)
        crowd.fired = True
        crowd.sort()
        kernel.ready.append((kernel.now, 0, source.rank, counter, crowd, 0))
        kernel.crowded = True
        return len(crowd.waiting) // 2

    def _wake_each(self, crowd: WakeBatch, source: Source, counter: int) -> int:
        """Wake the actors one by one, because some waits have ended or can be ended by another event."""
        kernel, woken = self._kernel, 0
        mark = len(kernel.ready)
        self._others = False
        for actor, token in crowd:
            if actor.token == token:
                kernel.wake(actor, crowd.value, self)
                woken += 1
        kernel.wake_as_one(mark, source, counter)
        return woken

    def fail(self, error: Exception) -> None:
        """Raise `error` in all waiting actors."""
        kernel = self._kernel
        with kernel.one_event():
            crowd, self._crowd = self._crowd, WakeBatch(kernel.throws)
            for actor, token in crowd:
                if actor.token == token:
                    kernel.throw(actor, error)

    def take(self) -> Any:
        """Return `NOTHING`: a signal keeps no value."""
        return NOTHING

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Register the actor."""
        waiting = self._crowd.waiting
        if len(waiting) >= self._purge_at:
            self._crowd.purge()
            self._purge_at = max(_FEWEST_STALE, 2 * len(waiting))
        waiting.append(actor)
        waiting.append(actor.token)
        self._others = True

    def undo(self, value: Any) -> None:
        """No-op: nothing was taken."""

    def leave(self) -> None:
        """No-op: waiting here blocks no other actor."""


class Queue:
    """A first-in, first-out queue of items. Waiting actors get items in order of arrival.

    Args:
        kernel: the kernel of the actors that use it.
        limit: the maximum number of items. If the queue is full, `put` waits and `put_nowait` returns False.

    Raises:
        UsageError: if the limit is below 1.
    """

    __slots__ = ("_getters", "_kernel", "_putters", "closed", "items", "limit")

    def __init__(self, kernel: Kernel, limit: int) -> None:
        if limit.__class__ not in (int, float) or not limit >= 1:  # NaN is not, either
            raise UsageError(f"the limit of a queue must be a number from 1, not {limit!r:.60}")
        self._kernel = kernel
        self.limit = limit
        self.items: deque[Any] | None = None
        self.closed = False
        self._getters: Waiters | None = None  # created on first use, because most mailboxes never have a waiting actor
        self._putters: _Putters | None = None  # created on first use; the C code leaves all to Python from then on

    def __len__(self) -> int:
        return len(self.items) if self.items else 0

    @coroutine
    def get(self) -> Generator[Any, Any, Any]:
        """Wait for the next item and return it.

        Raises:
            ClosedError: if the queue is closed and empty.
        """
        items = self.items  # `take` inlined, because this is the hot path of messages
        if items:
            if self._kernel.current is None:
                self._kernel.acting()  # it refuses a call from outside before anything changes
            item = items.popleft()
            if self._putters is not None:
                self._make_room(self._putters)
            return item
        if self.closed:
            raise ClosedError("the queue is closed and empty")
        actor, getters = self._kernel.current, self._getters
        waiting = None if getters is None else getters.actors
        if waiting is None or len(waiting) >= 2 * _FEWEST_STALE or actor.__class__ is not Actor or actor.cancelling:
            return (yield self)
        waiting.append(actor)  # `arm` inlined
        waiting.append(actor.token)
        return (yield ARMED)

    @coroutine
    def put(self, item: Any) -> Generator[Any, Any, None]:
        """Add an item, waiting while the queue is full.

        Raises:
            ClosedError: if the queue is closed, also while waiting.
        """
        if not self.put_nowait(item):
            yield _Put(self, item)

    def put_nowait(self, item: Any, /) -> bool:
        """Add an item, or hand it to the first waiting actor. Return False if the queue is full.

        Raises:
            ClosedError: if the queue is closed.
        """
        if self.closed:
            raise ClosedError("the queue is closed and takes no more items")
        kernel, getters = self._kernel, self._getters
        waiting = None if getters is None else getters.actors
        source = kernel.current or kernel.acting()  # first: it refuses a call from outside before anything changes
        while waiting:
            if waiting.__class__ is list:
                actor, token = waiting.pop(0), waiting.pop(0)
            else:
                actor, token = waiting.popleft(), waiting.popleft()  # type: ignore[union-attr]  # a deque
            if actor.token == token:  # `pop` and `wake` inlined, because this is the hot path of messages
                actor.token = token = token + 1
                actor.value = item
                actor.via = self
                source.counter = counter = source.counter + 1
                kernel.ready.append((kernel.now, 0, source.rank, counter, actor, token))
                return True
        items = self.items
        if items is None:
            self.items = deque((item,))
        elif len(items) >= self.limit:
            return False
        else:
            items.append(item)
        return True

    def close(self) -> list[Any]:
        """Close the queue: raise `ClosedError` in all waiting actors, and return the remaining items."""
        if self._putters is None and (self._getters is None or not self._getters.actors):  # nearly always
            self._kernel.acting().counter += 1  # as below, where no actor is woken
            left, self.closed, self.items = list(self.items or ()), True, None
            return left
        with self._kernel.one_event():
            self.closed = True
            left = list(self.items or ())
            self.items = None
            while (actor := self._next()) is not None:
                self._kernel.throw(actor, ClosedError("what was waited on has been closed"))
            for actor, token, _ in () if self._putters is None else self._putters.line:
                if actor.token == token:
                    self._kernel.throw(actor, ClosedError("what was waited on has been closed"))
            self._putters = None
        return left

    def take(self) -> Any:
        """Return the next item, or `NOTHING`. The free space goes to the first actor that waits to put."""
        if not self.items:
            if self.closed:
                raise ClosedError("the queue is closed and empty")
            return NOTHING
        if self._kernel.current is None:
            self._kernel.acting()  # it refuses a call from outside before anything changes
        item = self.items.popleft()
        if self._putters is not None:
            self._make_room(self._putters)
        return item

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Register an actor that waits for an item."""
        if self._getters is None:
            self._getters = Waiters()
        self._getters.add(actor)

    def undo(self, value: Any) -> None:
        """Take back an item whose receiver was cancelled. The next waiting actor gets it, or it becomes the first.

        Nothing is lost: if others have filled the queue in the meantime, it holds one more than its limit.
        """
        actor = self._next()
        if actor is not None:
            self._kernel.wake(actor, value, self)
            return
        if self.items is None:
            self.items = deque()
        self.items.appendleft(value)
        if self._putters is not None:
            self._putters.taken -= 1

    def leave(self) -> None:
        """No-op: each waiter wants one item, so it blocks no other waiter."""

    def _next(self) -> Actor | None:
        return None if self._getters is None else self._getters.pop()

    def _make_room(self, putters: "_Putters") -> None:
        """Count an item that has left at the front, and admit the actors for whose items there is room."""
        putters.taken += 1
        if putters.admitted:
            putters.forget_past()
        self._admit(putters)

    def _admit(self, putters: "_Putters") -> None:
        while putters.line and len(self) < self.limit:
            actor, token, put = putters.line.popleft()
            if actor.token == token and self.items is not None:
                put.place = putters.taken + len(self.items)
                self.items.append(put.item)
                self._kernel.wake(actor, None, put)
                putters.admitted.append((actor, actor.token, put))

    def has(self, put: "_Put") -> bool:
        """Return whether the item of an admitted actor is still in the queue."""
        return self._putters is not None and any(one[2] is put for one in self._putters.admitted)

    def withdraw(self, put: "_Put") -> None:
        """Remove the item of an actor that was admitted, but has not run since. It must still be in the queue."""
        putters, items = self._putters, self.items
        assert putters is not None
        assert items is not None
        del items[put.place - putters.taken]
        putters.admitted = [one for one in putters.admitted if one[0].token == one[1] and one[2] is not put]
        for _, _, other in putters.admitted:
            other.place -= other.place > put.place
        self._admit(putters)


class _Putters:
    """The actors that wait to put an item into a full queue, and where the items of admitted ones are.

    Attributes:
        line: the waiting actors, each with its token and its wait, in order of arrival.
        admitted: those that were admitted, whose item has not left the queue, and that may not have run since.
        taken: the number of items that have left at the front, less those that came back. The item at index i has the
            place taken + i.
    """

    __slots__ = ("admitted", "line", "taken")

    def __init__(self) -> None:
        self.line: deque[tuple[Actor, int, _Put]] = deque()
        self.admitted: list[tuple[Actor, int, _Put]] = []
        self.taken = 0

    def add(self, actor: Actor, put: "_Put") -> None:
        """Add an actor at the end."""
        self.forget_past()
        self.line.append((actor, actor.token, put))

    def forget_past(self) -> None:
        """Forget admitted actors that have run since, or whose item has left the queue."""
        self.admitted = [one for one in self.admitted if one[0].token == one[1] and one[2].place >= self.taken]


class _Put:
    """The wait of an actor that puts an item into a full queue."""

    __slots__ = ("item", "place", "queue")

    def __init__(self, queue: Queue, item: Any) -> None:
        self.queue = queue
        self.item = item
        self.place = 0  # once the actor is admitted

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        if self.queue._putters is None:
            self.queue._putters = _Putters()
        self.queue._putters.add(actor, self)

    def final(self) -> bool:
        """Return whether another actor has the item already."""
        return not self.queue.has(self)

    def undo(self, value: object) -> None:
        """Remove the item."""
        self.queue.withdraw(self)


@coroutine
def sleep(delay: Duration) -> Generator[Any, Any, None]:
    """Pause the actor for a duration in simulated time (seconds, or text such as `5m`)."""
    yield to_ns(delay)


@coroutine
def sleep_ns(delay: int, /) -> Generator[Any, Any, None]:
    """Pause the actor for a whole number of nanoseconds of simulated time."""
    yield delay


if core is not None:
    sleep_ns = core.sleep_ns


@coroutine
def wait_for(wait: Wait) -> Generator[Any, Any, Any]:
    """Take the value of a wait, or wait for it."""
    return (yield from taken(wait))


def taken(wait: Wait) -> Generator[Any, Any, Any]:
    """Like `wait_for`, for `yield from`."""
    value = wait.take()
    if value is NOTHING:
        value = yield from wait_armed(wait)
    receive(wait, value)
    return value


def wait_armed(wait: Wait) -> Generator[Any, Any, Any]:
    """Wait for a wait whose `take` has just returned `NOTHING`. The caller passes the value to `receive`."""
    try:
        value = yield wait
    except (Exception, Cancelled):  # not GeneratorExit: garbage collection must change nothing
        wait.leave()
        raise
    result = getattr(wait, "result", None)
    return value if result is None else result(value)


def receive(wait: Wait, value: Any) -> None:
    """Tell a wait that the running actor has its value now."""
    received = getattr(wait, "received", None)
    if received is not None:
        received(value)


def reserving(wait: Wait) -> Wait:
    """Return a wait that can be undone at any time until its value was received."""
    kept = getattr(wait, "reserving", None)
    return wait if kept is None else kept()
