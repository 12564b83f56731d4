"""`Resource` and `PriorityResource`: a fixed number of slots that actors take and release."""

from collections.abc import Generator
from types import TracebackType
from typing import Any, final

from sim.base.errors import Cancelled, LimitError, UsageError
from sim.kernel import Actor, Kernel, Source
from sim.kernel.compiled import core
from sim.kernel.coroutines import coroutine
from sim.kernel.kernel import ARMED
from sim.kernel.waits import NOTHING
from sim.resources.pool import Line, Pool, check_priority


class Slots(Pool):
    """The base of `Resource` and `PriorityResource`.

    Each slot belongs to who acquired it: the actor that ran then, or the source on whose behalf other code ran. A slot
    that was handed over belongs to its actor from the step in which the actor receives it. `Source.held` has all slots
    of a source, so that they can be released when it ends.
    """

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

    def held_by(self, holder: Source) -> int:
        """Return the number of slots that an actor holds."""
        held = holder.held
        return held.get(self, 0) if held.__class__ is dict else int(held is self)

    @coroutine
    def acquire(self, *, amount: int = 1, priority: float = 0) -> Generator[Any, Any, None]:
        """Wait until `amount` slots are free, and take them together.

        Args:
            amount: the number of slots.
            priority: for a `PriorityResource`; lower numbers come first.

        Raises:
            LimitError: if the resource has fewer slots.
            ClosedError: if the resource is closed, also while waiting.
            UsageError: if the amount is not above 0, or the priority is not a number or of no use here.
        """
        if not (amount == 1 and priority == 0):
            self._check(amount, priority)
        if self._kernel.current is None:
            self._kernel.acting()  # it refuses a call from outside before anything changes
        must_wait = self._free < amount and not self.closed  # the hot path
        if not must_wait and self.take(amount, priority):
            self.hold(amount)
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
        self.hold(amount)

    def slot(self, *, amount: int = 1, priority: float = 0) -> "SlotHold":
        """Return a context manager that holds slots: `async with resource.slot():`. See `acquire`."""
        if not (amount == 1 and priority == 0):  # a call costs a tenth of a use of a slot
            self._check(amount, priority)
        return SlotHold(self, amount, priority)

    def wait(self, *, amount: int = 1, priority: float = 0) -> "SlotWait":
        """Return `acquire` as a wait for `first_of` and `all_of`."""
        self._check(amount, priority)
        return self._one if amount == 1 and priority == 0 else SlotWait(self, amount, priority)

    def acquire_nowait(self, *, amount: int = 1, priority: float = 0) -> bool:
        """Take slots if they are free and no waiting actor comes first. Return whether they were taken.

        Raises:
            LimitError: if the resource has fewer slots.
            ClosedError: if the resource is closed.
            UsageError: if the amount is not above 0, or the priority is not a number or of no use here.
        """
        self._kernel.acting()  # first: it refuses a call from outside before anything changes
        self._check(amount, priority)
        if not self.take(amount, priority):
            return False
        self.hold(amount)
        return True

    def take(self, amount: int, priority: float) -> bool:
        """Take slots like `acquire_nowait`, on the way to an actor that does not hold them yet."""
        if self.closed:
            self._check_open()
        if amount > self._free or (self._line.places and self._line.comes_first(priority)):
            return False
        if self._kernel.current is None:
            self._kernel.acting()  # it refuses a call from outside before anything changes
        self._free -= amount
        self._served += 1
        return True

    def hold(self, amount: int, holder: Source | None = None) -> None:
        """Note that slots belong to a source, by default to the one that acts now."""
        holder = holder or self._kernel.acting()
        held = holder.held
        if held is None and amount == 1:
            holder.held = self
        else:
            if held.__class__ is not dict:
                held = holder.held = {} if held is None else {held: 1}
            held[self] = held.get(self, 0) + amount

    def release(self, *, amount: int = 1, holder: Source | None = None) -> None:
        """Release slots. The first waiting actors get them.

        Slots of an actor that ends, or of an agent that stops, are released without a call.

        Args:
            amount: the number of slots.
            holder: the actor that holds them; by default the actor that runs.

        Raises:
            UsageError: if the holder has fewer slots.
        """
        source = self._kernel.acting()
        holder = holder or source
        mine = self.held_by(holder)
        if amount.__class__ is not int or not 1 <= amount <= mine:
            raise UsageError(
                f"{holder.name} cannot release {amount!r} slots of a resource, because it holds {mine}",
                hint="release(holder=actor) releases slots of another actor, and `async with resource.slot():` releases"
                " its slots at the end of the block",
            )
        self._forget(holder, amount, mine)
        self.free(amount)

    def hand_to(self, holder: Source, amount: int) -> None:
        """Make slots of who acts now belong to another source. This is for code that acquires on behalf of an agent."""
        source = self._kernel.acting()
        if holder is not source:
            self._forget(source, amount, self.held_by(source))
            self.hold(amount, holder)

    def release_all(self, holder: Source) -> None:
        """Release all slots of a source that has ended."""
        mine = self.held_by(holder)
        if mine:
            self._forget(holder, mine, mine)
            self.free(mine)

    def _forget(self, holder: Source, amount: int, mine: int) -> None:
        held = holder.held
        if held is self:
            holder.held = None
        elif amount < mine:
            held[self] = mine - amount
        else:
            del held[self]
            if not held:
                holder.held = None

    def free(self, amount: int) -> None:
        """Give slots that belong to no one to the waiting actors."""
        places = self._line.places
        if places and not self._free:  # the hot path: the first waiting actor gets exactly these slots
            _, _, actor, token, need, wait = places[0]
            if need == amount and actor.token == token:
                self._line.pop()
                self._served += 1
                self._kernel.wake(actor, need, wait)
                return
        self._free += amount
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

    def _check(self, amount: int, priority: float) -> None:
        self._check_open()
        if amount.__class__ is not int or amount < 1:
            raise UsageError(f"a number of slots must be a whole number above 0, not {amount!r}")
        if amount > self.capacity:
            raise LimitError("slots", amount, self.capacity, "resource", hint="ask for fewer")
        check_priority(priority)
        if priority != 0 and not self._line.ranked:
            raise UsageError(
                f"a Resource serves in order of arrival and knows no priority {priority!r}",
                hint="use a PriorityResource, or a PreemptiveResource",
            )


class SlotWait:
    """A wait for slots. Its value is the number of slots."""

    __slots__ = ("_amount", "_pool", "_priority")

    def __init__(self, pool: Slots, amount: int, priority: float) -> None:
        self._pool = pool
        self._amount = amount
        self._priority = priority

    def take(self) -> Any:
        """Take the slots if they are free and no waiting actor comes first."""
        return self._amount if self._pool.take(self._amount, self._priority) else NOTHING

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Join the queue."""
        self._pool._waited += 1
        self._pool._line.add(actor, self._amount, self, self._priority)

    def undo(self, value: int) -> None:
        """Give the slots back, which no actor has received."""
        self._pool._served -= 1
        self._pool.free(value)

    def leave(self) -> None:
        """Serve the actors behind this one, which no longer waits."""
        self._pool.serve()

    def received(self, value: int) -> None:
        """Note that the slots belong to the running actor."""
        self._pool.hold(value)


class SlotHold:
    """A context manager that holds slots until the end of the block."""

    __slots__ = ("_amount", "_pool", "_priority")

    def __init__(self, pool: Slots, amount: int, priority: float) -> None:
        self._pool = pool
        self._amount = amount
        self._priority = priority

    async def __aenter__(self) -> None:
        if self._amount == 1 and self._priority == 0:
            await self._pool.acquire()  # the common case: a call without keywords is faster
        else:
            await self._pool.acquire(amount=self._amount, priority=self._priority)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is GeneratorExit:  # garbage collection of the coroutine must not change the resource
            return
        if self._amount == 1:
            self._pool.release()  # without keywords, as above
        else:
            self._pool.release(amount=self._amount)


@final
class Resource(Slots):
    """A resource whose slots are given to waiting actors in order of arrival.

    Args:
        kernel: the kernel of its users.
        slots: the number of slots.
    """

    __slots__ = ()

    def __init__(self, kernel: Kernel, slots: int) -> None:
        super().__init__(kernel, slots, ranked=False)


@final
class PriorityResource(Slots):
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
        Slots,
        (Resource, PriorityResource),
        {name.lstrip("_"): getattr(Slots, name) for name in _POOL},
        Line,
        {name.lstrip("_"): getattr(Line, name) for name in _LINE},
    )
