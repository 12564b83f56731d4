"""`Store`: a pool of distinct items, which are taken first-in, first-out or by a filter."""

import math
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Generic, Self, TypeVar

from sim.base.errors import UsageError
from sim.kernel import Actor, Kernel
from sim.kernel.coroutines import coroutine
from sim.kernel.waits import NOTHING
from sim.resources.pool import Line, Pool, check_number

T = TypeVar("T")


class Store(Pool, Generic[T]):
    """A pool of items in order. An actor that waits for an item does not block actors that want another item.

    Args:
        kernel: the kernel of its users.
        capacity: the maximum number of items.
    """

    def __init__(self, kernel: Kernel, capacity: float = math.inf) -> None:
        check_number(capacity, "the capacity of a store")
        if not capacity >= 1:
            raise UsageError(f"the capacity of a store must be at least 1, not {capacity}")
        self._items: deque[tuple[int, T]] = deque()  # numbered, so that an item can return to its old position
        self._puts = 0
        self._reserved = 0  # the number of places kept for puts of `all_of`, and for items that it may give back
        self._getters = Line()
        self._putters = Line()
        super().__init__(kernel, capacity, self._getters, self._putters)

    @property
    def level(self) -> int:
        """The number of items in the store."""
        return len(self._items)

    @coroutine
    def get(self, accept: Callable[[T], bool] | None = None) -> Generator[Any, Any, T]:
        """Wait for the first item, or the first for which `accept` returns True. Take it and return it.

        Raises:
            ClosedError: if the store is closed and has no such item, also while waiting.
        """
        wait = self.getting(accept)
        value = wait.take()
        return (yield wait) if value is NOTHING else value  # type: ignore[no-any-return]

    @coroutine
    def put(self, item: T) -> Generator[Any, Any, None]:
        """Wait until there is room, and add `item`.

        Raises:
            ClosedError: if the store is closed, also while waiting.
        """
        if not self.put_nowait(item):
            yield self.putting(item)

    def put_nowait(self, item: T) -> bool:
        """Add `item` if there is room and no actor waits to put. Return whether it was added.

        Raises:
            ClosedError: if the store is closed.
        """
        if self._kernel.current is None:
            self._kernel.acting()  # it refuses a call from outside before anything changes
        self._check_open()
        if self._full() or self._putters.head():
            return False
        self.take_in(item)
        return True

    def getting(self, accept: Callable[[T], bool] | None = None) -> "StoreGet[T]":
        """Return `get` as a wait for `first_of`."""
        return StoreGet(self, accept)

    def putting(self, item: T) -> "Deposit[T]":
        """Return `put` as a wait for `first_of`."""
        return Deposit(self, item)

    def state(self) -> dict[str, Any]:
        """Return the content of the store. It is JSON if the items are."""
        return {**super().state(), "items": [item for _, item in self._items]}

    def serve(self) -> None:
        """Add the items of actors that wait to put, as long as there is room."""
        if self._full() or self._putters.head() is None:
            return
        with self._kernel.one_event():
            while not self._full() and (place := self._putters.head()) is not None:
                self._kernel.wake(place[2], None, place[5])
                self._putters.pop()
                place[5].give()

    def _full(self) -> bool:
        return len(self._items) + self._reserved >= self.capacity

    def take_in(self, item: T) -> int:
        """Number an item, and give it to the first actor that waits for such an item, or keep it. Return the number."""
        self._puts += 1
        self._served += 1
        number = self._puts
        if not self._hand_over(number, item):
            self._items.append((number, item))
        return number

    def reserve(self, places: int) -> None:
        """Keep room for items (a positive number), or no longer (a negative one)."""
        self._reserved += places

    def has(self, number: int) -> bool:
        """Return whether the item with this number is in the store."""
        return any(number == other for other, _ in self._items)

    def put_back(self, number: int, item: T) -> None:
        """Take back an item that was handed over.

        The first actor that waits for such an item gets it; otherwise it returns to its old position.
        """
        self._served -= 1
        if not self._hand_over(number, item):
            index = next((i for i, (other, _) in enumerate(self._items) if other > number), len(self._items))
            self._items.insert(index, (number, item))

    def withdraw(self, number: int) -> None:
        """Remove the item of an actor that was cancelled while it put."""
        index = next(index for index, (other, _) in enumerate(self._items) if other == number)
        del self._items[index]
        self._served -= 1
        self.serve()

    def find(self, accept: Callable[[T], bool] | None, *, keeps: bool = False) -> tuple[int, T] | None:
        """Remove and return the first accepted item. The free space goes to the first actor that waits to put.

        Args:
            accept: whether an item is wanted; None: any item.
            keeps: whether the place of the item is kept.
        """
        for index, entry in enumerate(self._items):
            if accept is None or accept(entry[1]):
                if self._kernel.current is None:
                    self._kernel.acting()  # it refuses a call from outside before anything changes
                del self._items[index]
                self._served += 1
                self._reserved += keeps
                self.serve()
                return entry
        return None

    def _hand_over(self, number: int, item: T) -> bool:
        self._getters.head()  # removes stale registrations at the front
        for _, _, actor, token, wait, _ in list(self._getters.places):
            if actor.token != token:
                continue
            try:
                accepted = wait.accepts(item)
            except Exception as error:  # an error of the getter's filter must not reach the actor that puts
                self._kernel.throw(actor, error)
                continue
            if accepted:
                self._kernel.wake(actor, item, wait)
                wait.number = number
                self._reserved += wait.reserves
                self._served += 1
                return True
        return False


class StoreGet(Generic[T]):
    """A wait for an item. Its value is the item.

    If its actor is cancelled before it runs, the item goes back, unless others have filled the store already.

    Args:
        store: where to take the item.
        accept: whether an item is wanted; None: any item.
        reserves: whether the place of the item is kept until its actor has the value, so that it can always go back.
    """

    __slots__ = ("_accept", "_store", "number", "reserves")

    def __init__(self, store: Store[T], accept: Callable[[T], bool] | None, *, reserves: bool = False) -> None:
        self._store = store
        self._accept = accept
        self.number = 0  # the number of the item that was handed over
        self.reserves = reserves

    def accepts(self, item: T) -> bool:
        """Return whether the filter accepts the item."""
        return self._accept is None or self._accept(item)

    def take(self) -> Any:
        """Take the first accepted item, if there is one. No waiting actor accepts any of the items."""
        entry = self._store.find(self._accept, keeps=self.reserves)
        if entry is None:
            self._store._check_open()
            return NOTHING
        self.number, item = entry
        return item

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Join the queue."""
        self._store._waited += 1
        self._store._getters.add(actor, self, self)

    def final(self) -> bool:
        """Return whether others have filled the store, so that there is no place for the item."""
        return not self.reserves and self._store._full()

    def undo(self, value: T) -> None:
        """Put the item back."""
        if self.reserves:
            self._store.reserve(-1)
        self._store.put_back(self.number, value)

    def leave(self) -> None:
        """No-op: each waiter wants one item, so it blocks no other waiter."""

    def reserving(self) -> Self:
        """Return the same wait, which keeps the place of the item until its actor has the value."""
        return type(self)(self._store, self._accept, reserves=True)

    def received(self, value: T) -> None:
        """Keep no more place for the item."""
        if self.reserves:
            self._store.reserve(-1)
            self._store.serve()


class Deposit(Generic[T]):
    """A wait for room. If its actor is cancelled, the item is removed, unless another actor has it already.

    Args:
        store: where to put the item.
        item: the item.
        reserves: whether the wait only keeps room, and puts the item when its actor has the value.
    """

    __slots__ = ("_item", "_number", "_reserves", "_store")

    def __init__(self, store: Store[T], item: T, *, reserves: bool = False) -> None:
        self._store = store
        self._item = item
        self._reserves = reserves
        self._number = 0  # the number of the item, once it was put

    def take(self) -> Any:
        """Add the item if there is room and no actor waits to put."""
        store = self._store
        store._check_open()
        if store._full() or store._putters.head():
            return NOTHING
        if store._kernel.current is None:
            store._kernel.acting()  # it refuses a call from outside before anything changes
        self.give()
        return None

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Join the queue."""
        self._store._waited += 1
        self._store._putters.add(actor, self._item, self)

    def give(self) -> None:
        """Put the item, or keep room for it."""
        if self._reserves:
            self._store.reserve(1)
        else:
            self._number = self._store.take_in(self._item)

    def final(self) -> bool:
        """Return whether another actor has the item already."""
        return not self._reserves and not self._store.has(self._number)

    def undo(self, value: object) -> None:
        """Remove the item, or keep no more room for it."""
        if self._reserves:
            self._store.reserve(-1)
            self._store.serve()
        else:
            self._store.withdraw(self._number)

    def leave(self) -> None:
        """No-op: each waiter puts one item, so it blocks no other waiter."""

    def reserving(self) -> Self:
        """Return the same wait, which only keeps room until its actor has the value."""
        return type(self)(self._store, self._item, reserves=True)

    def received(self, value: object) -> None:
        """Put the item for which room was kept."""
        if self._reserves:
            self._store.reserve(-1)
            self._number = self._store.take_in(self._item)
