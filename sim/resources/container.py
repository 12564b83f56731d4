"""`Container`: a pool that holds an amount of something divisible, for example fuel or water."""

import math
import types
from collections.abc import Generator
from typing import Any

from sim.errors import Cancelled, LimitError, UsageError
from sim.kernel import Actor, Kernel
from sim.kernel.waits import NOTHING
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
        self._most: Amount | float = capacity if capacity == math.inf else exact(capacity)
        super().__init__(kernel, capacity, self._getters, self._putters)

    @property
    def level(self) -> float:
        """The present amount."""
        return shown(self._level)

    @types.coroutine
    def get(self, amount: float) -> Generator[Any, Any, float]:
        """Wait until `amount` is available, take it and return it.

        Raises:
            LimitError: if it exceeds the capacity.
            ClosedError: if the container is closed and holds less, also while waiting.
        """
        return (yield from _done(self.getting(amount)))  # type: ignore[no-any-return]

    @types.coroutine
    def put(self, amount: float) -> Generator[Any, Any, None]:
        """Wait until `amount` fits, and add it.

        Raises:
            LimitError: if it exceeds the capacity.
            ClosedError: if the container is closed, also while waiting.
        """
        yield from _done(self.putting(amount))

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
            self._level = minus(self._level, getter[4])
            return True
        if putter and (level := plus(self._level, putter[4])) <= self._most:
            self._kernel.wake(putter[2], None, putter[5])
            self._putters.pop()
            self._level = level
            return True
        return False

    def _checked(self, amount: float) -> float:
        if amount.__class__ not in (int, float):
            check_number(amount, "an amount")
        if not 0 < amount < math.inf:
            raise UsageError(f"an amount must be above 0 and finite, not {amount}")
        if amount > self.capacity:
            raise LimitError("amount", amount, self.capacity, "container", hint="split it, or make it larger")
        return amount

    def _change(self, level: Amount) -> None:
        self._level = level
        self._served += 1
        self.serve()


class ContainerGet:
    """A wait for an amount. Its value is the amount."""

    __slots__ = ("_container", "_exact", "amount")

    def __init__(self, container: Container, amount: float) -> None:
        self._container = container
        self.amount = amount
        self._exact = exact(amount)

    def take(self) -> Any:
        """Take the amount if it is available and no other actor waits for an amount."""
        pool, amount = self._container, self._exact
        if amount > pool._level or pool._getters.head():
            pool._check_open()
            return NOTHING
        pool._change(minus(pool._level, amount))
        return self.amount

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Join the queue."""
        self._container._waited += 1
        self._container._getters.add(actor, self._exact, self)

    def undo(self, value: float) -> None:
        """Put the amount back. The level may exceed the capacity if the room was filled in the meantime."""
        self._container._served -= 2
        self._container._change(plus(self._container._level, self._exact))

    def leave(self) -> None:
        """Serve the actors behind this one, which no longer waits."""
        self._container.serve()


class ContainerPut:
    """A wait for room. If its actor is cancelled, the amount is removed, provided that the level allows it."""

    __slots__ = ("_container", "_exact", "amount")

    def __init__(self, container: Container, amount: float) -> None:
        self._container = container
        self.amount = amount
        self._exact = exact(amount)

    def take(self) -> Any:
        """Add the amount if it fits and no actor waits to put."""
        pool, amount = self._container, self._exact
        pool._check_open()
        level = plus(pool._level, amount)
        if level > pool._most or pool._putters.head():
            return NOTHING
        pool._change(level)
        return None

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Join the queue."""
        self._container._waited += 1
        self._container._putters.add(actor, self._exact, self)

    def undo(self, value: object) -> None:
        """Remove the amount, if the level allows it."""
        pool = self._container
        if pool._level >= self._exact:
            pool._served -= 1
            pool._change(minus(pool._level, self._exact))
            self._container.serve()

    def leave(self) -> None:
        """Serve the actors behind this one, which no longer waits."""
        self._container.serve()


def _done(wait: ContainerGet | ContainerPut) -> Generator[Any, Any, Any]:
    value = wait.take()
    if value is NOTHING:
        try:
            value = yield wait
        except (Exception, Cancelled):
            wait.leave()
            raise
    return value
