"""`Resource` and `PriorityResource`: a number of equal slots that are held and released."""

import types
from collections.abc import Generator
from types import TracebackType
from typing import Any, final

from sim._speedups import core
from sim.errors import Cancelled, LimitError, UsageError
from sim.kernel import Actor, Kernel
from sim.kernel.kernel import ARMED
from sim.kernel.waits import NOTHING
from sim.resources.pool import Line, Pool


class _Slots(Pool):
    """What both have in common."""

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
        """How many slots are free."""
        return self._free

    @types.coroutine
    def acquire(self, amount: int = 1, priority: float = 0) -> Generator[Any, Any, None]:
        """Wait for `amount` slots at once and take them.

        Raises:
            LimitError: at once, if there are fewer slots in all.
            ClosedError: if the resource is closed, also while waiting.
        """
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
            self.serve()  # who was behind may go on
            raise

    def slot(self, amount: int = 1, priority: float = 0) -> "SlotHold":
        """Return what holds slots in `async with resource.slot():`."""
        return SlotHold(self, amount, priority)

    def wait(self, amount: int = 1, priority: float = 0) -> "SlotWait":
        """Return `acquire` as a wait for `first_of`."""
        return self._one if amount == 1 and priority == 0 else SlotWait(self, amount, priority)

    def acquire_nowait(self, amount: int = 1, priority: float = 0) -> bool:
        """Take slots if they are free and nobody waits who comes first; return whether they were taken.

        Raises:
            LimitError: if there are fewer slots in all.
            ClosedError: if the resource is closed.
        """
        if self.closed or not 0 < amount <= self.capacity:
            self._refuse(amount)
        if amount > self._free or (self._line.places and self._line.comes_first(priority)):
            return False
        self._free -= amount
        self._served += 1
        return True

    def release(self, amount: int = 1) -> None:
        """Give back slots; those who wait first get them at once.

        Raises:
            UsageError: if more are given back than are held.
        """
        free = self._free + amount
        if amount < 1 or free > self.capacity:
            held = self.capacity - self._free
            raise UsageError(f"{amount} slots were released, but {held} are held")
        places = self._line.places
        if places and not self._free:  # the hot path: who waits first gets just these
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
        """Hand out free slots in order, up to the first that needs more than are free."""
        place = self._line.head()
        if place is None or place[4] > self._free:
            return
        with self._kernel.one_event():  # refuses while the run is paused, before anything has changed
            while place is not None and 0 < place[4] <= self._free:
                _, _, actor, _, amount, wait = place
                self._line.pop()
                self._free -= amount
                self._served += 1
                self._kernel.wake(actor, amount, wait)  # last: with what it had before anything may die, and serve
                place = self._line.head()

    def _refuse(self, amount: int) -> None:
        self._check_open()
        if amount > self.capacity:
            raise LimitError("slots", amount, self.capacity, "resource", hint="ask for fewer")
        raise UsageError(f"a number of slots must be above 0, not {amount}")


class SlotWait:
    """A wait for slots. Its value is how many were taken."""

    __slots__ = ("_amount", "_pool", "_priority")

    def __init__(self, pool: _Slots, amount: int, priority: float) -> None:
        if priority != priority:
            raise UsageError("a priority must be a number that has an order, not NaN")
        self._pool = pool
        self._amount = amount
        self._priority = priority

    def take(self) -> Any:
        """Take the slots if they are free and nobody waits."""
        return self._amount if self._pool.acquire_nowait(self._amount, self._priority) else NOTHING

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Join the line."""
        self._pool._waited += 1
        self._pool._line.add(actor, self._amount, self, self._priority)

    def undo(self, value: int) -> None:
        """Give back what was handed over."""
        self._pool._served -= 1
        self._pool.release(value)

    def leave(self) -> None:
        """Wait no longer: those behind may go on."""
        self._pool.serve()


class SlotHold:
    """Slots that are held for as long as an `async with` lasts."""

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
        if kind is not GeneratorExit:  # else the coroutine is thrown away together with its run
            self._pool.release(self._amount)


@final
class Resource(_Slots):
    """Equal slots, handed out in order of arrival; priorities have no meaning here.

    Args:
        kernel: whose actors use it.
        slots: how many there are.
    """

    __slots__ = ()

    def __init__(self, kernel: Kernel, slots: int) -> None:
        super().__init__(kernel, slots, ranked=False)


@final
class PriorityResource(_Slots):
    """Equal slots, handed out by priority: the lowest number first, in order of arrival among equal ones.

    Args:
        kernel: whose actors use it.
        slots: how many there are.
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
