"""`Container`: a pool that holds an amount of something divisible, for example fuel or water."""

import math
from collections.abc import Generator
from typing import Any, Self

from sim.base.errors import LimitError, UsageError
from sim.kernel import Actor, Kernel
from sim.kernel.coroutines import coroutine
from sim.kernel.waits import NOTHING, taken
from sim.resources.amounts import Amount, exact, minus, plus, shown
from sim.resources.pool import Line, Pool, check_number


class Container(Pool):
    """An amount between 0 and a capacity. It has a queue for `get` and a queue for `put`, each in order of arrival.

    Amounts are added exactly, as decimal numbers: after ten times 0.1 it holds 1.

    Args:
        kernel: the kernel of its users.
        capacity: the maximum amount.
        level: the initial amount.

    Raises:
        UsageError: unless 0 <= level <= capacity, with a finite level and a capacity above 0.
    """

    def __init__(self, kernel: Kernel, capacity: float = math.inf, level: float = 0) -> None:
        check_number(capacity, "the capacity of a container")
        check_number(level, "the level of a container")
        if not 0 <= level <= capacity or not capacity > 0 or level == math.inf:
            raise UsageError(f"a container needs 0 <= level <= capacity, not {level} in {capacity}")
        self._getters = Line()
        self._putters = Line()
        self._level = exact(level)
        self._reserved: Amount = 0  # room that is kept for puts of `all_of`, and for gets that it may give back
        self._most: Amount | float = capacity if capacity == math.inf else exact(capacity)
        super().__init__(kernel, capacity, self._getters, self._putters)

    @property
    def level(self) -> float:
        """The present amount."""
        return shown(self._level)

    @coroutine
    def get(self, amount: float) -> Generator[Any, Any, float]:
        """Wait until `amount` is available, take it and return it.

        Raises:
            LimitError: if it exceeds the capacity.
            ClosedError: if the container is closed and holds less, also while waiting.
        """
        return (yield from taken(self.getting(amount)))  # type: ignore[no-any-return]

    @coroutine
    def put(self, amount: float) -> Generator[Any, Any, None]:
        """Wait until `amount` fits, and add it.

        Raises:
            LimitError: if it exceeds the capacity.
            ClosedError: if the container is closed, also while waiting.
        """
        yield from taken(self.putting(amount))

    def getting(self, amount: float) -> "ContainerGet":
        """Return `get` as a wait for `first_of`."""
        return ContainerGet(self, self._checked(amount))

    def putting(self, amount: float) -> "ContainerPut":
        """Return `put` as a wait for `first_of`."""
        return ContainerPut(self, self._checked(amount))

    def serve(self) -> None:
        """Serve both queues, each up to the first actor whose amount is not available or does not fit."""
        if self._getters.head() is None and self._putters.head() is None:
            return
        with self._kernel.one_event():
            while self._serve_one():
                self._served += 1

    def _serve_one(self) -> bool:
        getter, putter = self._getters.head(), self._putters.head()
        if getter and getter[4] <= self._level:
            self._kernel.wake(getter[2], getter[5].amount, getter[5])
            self._getters.pop()
            getter[5].draw()
            return True
        if putter and self._fits(putter[4]):
            self._kernel.wake(putter[2], None, putter[5])
            self._putters.pop()
            putter[5].give()
            return True
        return False

    def _fits(self, amount: Amount) -> bool:
        return plus(plus(self._level, self._reserved), amount) <= self._most

    def _checked(self, amount: float) -> float:
        if amount.__class__ not in (int, float):
            check_number(amount, "an amount")
        if not 0 < amount < math.inf:
            raise UsageError(f"an amount must be above 0 and finite, not {amount}")
        if amount > self.capacity:
            raise LimitError("amount", amount, self.capacity, "container", hint="split it, or make it larger")
        return amount


class ContainerGet:
    """A wait for an amount. Its value is the amount.

    If its actor is cancelled before it runs, the amount goes back, unless others have filled its room already.

    Args:
        container: where to take the amount.
        amount: the amount.
        reserves: whether the room of the amount is kept until its actor has the value, so that it can always go back.
    """

    __slots__ = ("_container", "_exact", "_reserves", "amount")

    def __init__(self, container: Container, amount: float, *, reserves: bool = False) -> None:
        self._container = container
        self.amount = amount
        self._exact = exact(amount)
        self._reserves = reserves

    def take(self) -> Any:
        """Take the amount if it is available and no other actor waits for an amount."""
        pool, amount = self._container, self._exact
        if amount > pool._level or pool._getters.head():
            pool._check_open()
            return NOTHING
        if pool._kernel.current is None:
            pool._kernel.acting()  # it refuses a call from outside before anything changes
        pool._served += 1
        self.draw()
        pool.serve()
        return self.amount

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Join the queue."""
        self._container._waited += 1
        self._container._getters.add(actor, self._exact, self)

    def draw(self) -> None:
        """Take the amount, and keep its room if it may go back later."""
        pool = self._container
        pool._level = minus(pool._level, self._exact)
        if self._reserves:
            pool._reserved = plus(pool._reserved, self._exact)

    def final(self) -> bool:
        """Return whether others have filled the room of the amount."""
        return not self._reserves and not self._container._fits(self._exact)

    def undo(self, value: float) -> None:
        """Put the amount back."""
        pool = self._container
        pool._served -= 1
        if self._reserves:
            pool._reserved = minus(pool._reserved, self._exact)
        pool._level = plus(pool._level, self._exact)
        pool.serve()

    def leave(self) -> None:
        """Serve the actors behind this one, which no longer waits."""
        self._container.serve()

    def reserving(self) -> Self:
        """Return the same wait, which keeps the room of the amount until its actor has the value."""
        return type(self)(self._container, self.amount, reserves=True)

    def received(self, value: float) -> None:
        """Keep no more room for the amount."""
        if self._reserves:
            pool = self._container
            pool._reserved = minus(pool._reserved, self._exact)
            pool.serve()


class ContainerPut:
    """A wait for room. If its actor is cancelled, the amount is removed, unless others have taken it already.

    Args:
        container: where to put the amount.
        amount: the amount.
        reserves: whether the wait only keeps room, and adds the amount when its actor has the value.
    """

    __slots__ = ("_container", "_exact", "_reserves", "amount")

    def __init__(self, container: Container, amount: float, *, reserves: bool = False) -> None:
        self._container = container
        self.amount = amount
        self._exact = exact(amount)
        self._reserves = reserves

    def take(self) -> Any:
        """Add the amount if it fits and no actor waits to put."""
        pool = self._container
        pool._check_open()
        if not pool._fits(self._exact) or pool._putters.head():
            return NOTHING
        if pool._kernel.current is None:
            pool._kernel.acting()  # it refuses a call from outside before anything changes
        pool._served += 1
        self.give()
        pool.serve()
        return None

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Join the queue."""
        self._container._waited += 1
        self._container._putters.add(actor, self._exact, self)

    def give(self) -> None:
        """Add the amount, or keep room for it."""
        pool = self._container
        if self._reserves:
            pool._reserved = plus(pool._reserved, self._exact)
        else:
            pool._level = plus(pool._level, self._exact)

    def final(self) -> bool:
        """Return whether others have taken of the amount."""
        return not self._reserves and self._container._level < self._exact

    def undo(self, value: object) -> None:
        """Remove the amount, or keep no more room for it."""
        pool = self._container
        pool._served -= 1
        if self._reserves:
            pool._reserved = minus(pool._reserved, self._exact)
        else:
            pool._level = minus(pool._level, self._exact)
        pool.serve()

    def leave(self) -> None:
        """Serve the actors behind this one, which no longer waits."""
        self._container.serve()

    def reserving(self) -> Self:
        """Return the same wait, which only keeps room until its actor has the value."""
        return type(self)(self._container, self.amount, reserves=True)

    def received(self, value: object) -> None:
        """Add the amount for which room was kept."""
        pool = self._container
        if self._reserves:
            pool._reserved = minus(pool._reserved, self._exact)
            pool._level = plus(pool._level, self._exact)
            pool.serve()
