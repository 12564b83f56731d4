"""`Resource` and `PriorityResource`: a fixed number of slots that actors take and release."""

import types
from collections.abc import Generator
from types import TracebackType
from typing import Any, final

from sim._speedups import core
from sim.errors import Cancelled, LimitError, UsageError
from sim.kernel import Actor, Kernel
from sim.kernel.kernel import ARMED
from sim.kernel.waits import NOTHING
from sim.resources.pool import Line, Pool, check_number


class _Slots(Pool):
    """The base of `Resource` and `PriorityResource`."""

    __slots__ = ("__weakref__", "_free", "_line", "_one")

    def __init__(self, kernel: Kernel, slots: int, ranked: bool) -> None:
        if slots.__class__ is not int or slots < 1:
            raise UsageError(f"a resource needs a whole number of slots from 1, not {slots!r}")
        self._line = Line(ranked)
        self._free = slots
        self._one = SlotWait(self, 1, 0)
        super().__init__(kernel, slots, self._line)

    @property
    def level(self) -> int:
        """The number of free slots."""
        return self._free

    @types.coroutine
    def acquire(self, amount: int = 1, priority: float = 0) -> Generator[Any, Any, None]:
        """Wait until `amount` slots are free, and take them together.

        Raises:
            LimitError: if the resource has fewer slots.
            ClosedError: if the resource is closed, also while waiting.
        """
        if amount.__class__ is not int or priority.__class__ is not int:
            _check_request(amount, priority)
        must_wait = self._free < amount <= self.capacity and not self.closed  # the hot path
        if not must_wait and self.acquire_nowait(amount, priority):
            return
        wait = self._one if amount == 1 and priority == 0 else SlotWait(self, amount, priority)
        actor = self._kernel.current
        try:
            if actor.__class__ is not Actor or actor.cancelling:
                yield wait
            else:
                self._waited += 1
                self._line.add(actor, amount, wait, priority)
                yield ARMED
        except (Exception, Cancelled):
            self.serve()  # this actor may have blocked the actors behind it
            raise

    def slot(self, amount: int = 1, priority: float = 0) -> "SlotHold":
        """Return a context manager that holds slots: `async with resource.slot():`."""
        return SlotHold(self, amount, priority)

    def wait(self, amount: int = 1, priority: float = 0) -> "SlotWait":
        """Return `acquire` as a wait for `first_of`."""
        return self._one if amount == 1 and priority == 0 else SlotWait(self, amount, priority)

    def acquire_nowait(self, amount: int = 1, priority: float = 0) -> bool:
        """Take slots if they are free and no waiting actor comes first. Return whether they were taken.

        Raises:
            LimitError: if the resource has fewer slots.
            ClosedError: if the resource is closed.
            UsageError: if the amount is not above 0.
        """
        if amount.__class__ is not int or priority.__class__ is not int:
            _check_request(amount, priority)
        if self.closed or not 0 < amount <= self.capacity:
            self._refuse(amount)
        if amount > self._free or (self._line.places and self._line.comes_first(priority)):
            return False
        self._free -= amount
        self._served += 1
        return True

    def release(self, amount: int = 1) -> None:
        """Release slots. The first waiting actors get them.

        Raises:
            UsageError: if more slots are released than are in use.
        """
        free = self._free + amount
        if amount < 1 or free > self.capacity:
            held = self.capacity - self._free
            raise UsageError(f"{amount} slots were released, but {held} are held")
        places = self._line.places
        if places and not self._free:  # the hot path: the first waiting actor gets exactly these slots
            _, _, actor, token, need, wait = places[0]
            if need == amount and actor.token == token and self._kernel.current is not None:
                self._line.pop()
                self._served += 1
                self._kernel.wake(actor, need, wait)
                return
        self._free = free
        if places:
            self.serve()

    def serve(self) -> None:
        """Give free slots to waiting actors in order, up to the first that needs more than are free."""
        place = self._line.head()
        if place is None or place[4] > self._free:
            return
        with self._kernel.one_event():  # first: it refuses a call while the run is paused, before anything changes
            while place is not None and 0 < place[4] <= self._free:
                _, _, actor, _, amount, wait = place
                self._line.pop()
                self._free -= amount
                self._served += 1
                self._kernel.wake(actor, amount, wait)  # last: it may free an old value, whose finalizer may call serve
                place = self._line.head()

    def _refuse(self, amount: int) -> None:
        self._check_open()
        if amount > self.capacity:
            raise LimitError("slots", amount, self.capacity, "resource", hint="ask for fewer")
        raise UsageError(f"a number of slots must be above 0, not {amount}")


def _check_request(amount: object, priority: object) -> None:
    """Check the kinds of numbers in a request.

    Raises:
        UsageError: if the amount is not a whole number, or the priority not a number.
    """
    if amount.__class__ is not int:
        raise UsageError(f"a number of slots must be whole, not {amount!r:.60}")
    check_number(priority, "a priority")


class SlotWait:
    """A wait for slots. Its value is the number of slots."""

    __slots__ = ("_amount", "_pool", "_priority")

    def __init__(self, pool: _Slots, amount: int, priority: float) -> None:
        _check_request(amount, priority)
        self._pool = pool
        self._amount = amount
        self._priority = priority

    def take(self) -> Any:
        """Take the slots if they are free and no waiting actor comes first."""
        return self._amount if self._pool.acquire_nowait(self._amount, self._priority) else NOTHING

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Join the queue."""
        self._pool._waited += 1
        self._pool._line.add(actor, self._amount, self, self._priority)

    def undo(self, value: int) -> None:
        """Give the slots back."""
        self._pool._served -= 1
        self._pool.release(value)

    def leave(self) -> None:
        """Serve the actors behind this one, which no longer waits."""
        self._pool.serve()


class SlotHold:
    """A context manager that holds slots until the end of the block."""

    __slots__ = ("_amount", "_pool", "_priority")

    def __init__(self, pool: _Slots, amount: int, priority: float) -> None:
        self._pool = pool
        self._amount = amount
        self._priority = priority

    async def __aenter__(self) -> None:
        await self._pool.acquire(self._amount, self._priority)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not GeneratorExit:  # garbage collection of the coroutine must not change the resource
            self._pool.release(self._amount)


@final
class Resource(_Slots):
    """A resource whose slots are given to waiting actors in order of arrival. Priorities are ignored.

    Args:
        kernel: the kernel of its users.
        slots: the number of slots.
    """

    __slots__ = ()

    def __init__(self, kernel: Kernel, slots: int) -> None:
        super().__init__(kernel, slots, ranked=False)


@final
class PriorityResource(_Slots):
    """A resource whose slots are given by priority: the lowest number first, equal numbers in order of arrival.

    Args:
        kernel: the kernel of its users.
        slots: the number of slots.
    """

    __slots__ = ()

    def __init__(self, kernel: Kernel, slots: int) -> None:
        super().__init__(kernel, slots, ranked=True)


if core is not None:
    _POOL = ("closed", "_free", "_kernel", "_line", "_one", "_served", "_waited")
    _LINE = ("_arrivals", "places", "pop", "_purge_at", "_put")
    core.take_over_slots(
        _Slots,
        (Resource, PriorityResource),
        {name.lstrip("_"): getattr(_Slots, name) for name in _POOL},
        Line,
        {name.lstrip("_"): getattr(Line, name) for name in _LINE},
    )
