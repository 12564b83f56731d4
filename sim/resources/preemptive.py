"""`PreemptiveResource`: slots that a request with a lower priority number can take from their user."""

from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any

import attrs

from sim.base.errors import UsageError
from sim.kernel import Actor, Kernel, Source, to_seconds
from sim.kernel.coroutines import coroutine
from sim.kernel.waits import NOTHING, taken
from sim.resources.pool import Line, Pool, check_priority


@attrs.frozen
class Preempted:
    """The cause of the `Interrupt` of a user whose slot was taken.

    Attributes:
        by: the name of the actor that took the slot.
        since: the time at which the user got the slot, in simulated seconds.
        resource: the resource.
    """

    by: str
    since: float
    resource: "PreemptiveResource" = attrs.field(repr=False)

    def __str__(self) -> str:
        return f"preempted by {self.by}, after use since {self.since:g} s"


@attrs.define(eq=False)
class Use:
    """The use of one slot by one actor.

    Attributes:
        actor: the user of the slot, or None if code outside an actor took it.
        priority: the priority of the request.
        since_ns: the time at which the user got it, in simulated nanoseconds.
        number: the number of this use among all uses of the resource, from 1.
        held: whether the slot is still in use; False after it was released or preempted.
        received: whether the user has run since it got the slot.
    """

    actor: Actor | None
    priority: float
    since_ns: int
    number: int
    held: bool = True
    received: bool = False


class PreemptiveResource(Pool):
    """A resource with priorities and preemption.

    Requests get slots by priority: the lowest number first, equal numbers in order of arrival. If no slot is free, a
    request takes the slot of the user with the highest number, provided that it is higher than its own; among equal
    numbers, of the user that got its slot last. That user gets an `Interrupt` whose cause is a `Preempted`.

    Args:
        kernel: the kernel of its users.
        slots: the number of slots.

    Attributes:
        on_preempted: a function that is called instead of the interrupt, with the use that has ended and the name of
            the actor that took the slot.
    """

    def __init__(self, kernel: Kernel, slots: int = 1) -> None:
        self.on_preempted: Callable[[Use, str], None] | None = None
        if slots.__class__ is not int or slots < 1:
            raise UsageError(f"a resource needs a whole number of slots from 1, not {slots!r}")
        self._line = Line(ranked=True)
        self._users: list[Use] = []
        self._uses = 0
        super().__init__(kernel, slots, self._line)

    @property
    def level(self) -> int:
        """The number of free slots."""
        return int(self.capacity) - len(self._users)

    @property
    def users(self) -> list[str]:
        """The names of the users, in the order in which they got their slots."""
        return [use.actor.name for use in self._users if use.actor is not None]

    @coroutine
    def acquire(self, *, priority: float = 0, preempt: bool = True) -> Generator[Any, Any, Use]:
        """Wait for a slot and take it, if necessary from its user.

        Args:
            priority: the priority; lower numbers come first.
            preempt: whether the request may take a slot from a user with a higher number.

        Raises:
            ClosedError: if the resource is closed, also while waiting.
        """
        return (yield from taken(self.wait(priority=priority, preempt=preempt)))  # type: ignore[no-any-return]

    def wait(self, *, priority: float = 0, preempt: bool = True) -> "UseWait":
        """Return `acquire`, for the actor that runs now, as a wait for `first_of` and `all_of`."""
        return UseWait(self, priority, preempt)

    def slot(self, *, priority: float = 0, preempt: bool = True) -> "UsedSlot":
        """Return a context manager: `async with resource.slot() as use:`. A preempted slot is not released again."""
        check_priority(priority)
        return UsedSlot(self, priority, preempt)

    def release(self, use: Use) -> bool:
        """Release a slot. The first waiting actor gets it. Return False if it was released or preempted before.

        Slots of an actor that ends, or of an agent that stops, are released without a call.

        Raises:
            UsageError: if `use` is not what `acquire` of this resource returned.
        """
        value: object = use
        if not isinstance(value, Use) or (use.held and use not in self._users):
            raise UsageError(
                f"{use!r} is not the use of a slot of this resource",
                hint="write `use = await resource.acquire()`, and then `resource.release(use)`",
            )
        if not use.held:
            return False
        self._kernel.acting()
        self._remove(use)
        self.serve()
        return True

    def serve(self) -> None:
        """Give free slots to waiting actors in order."""
        if len(self._users) >= self.capacity or self._line.head() is None:
            return
        with self._kernel.one_event():
            while len(self._users) < self.capacity and (place := self._line.head()) is not None:
                wait: UseWait = place[5]
                self._line.pop()
                self._kernel.wake(place[2], self._hand_out(wait), wait)

    def take(self, wait: "UseWait") -> Use | None:
        """Take a slot if one is free and no waiting actor comes first."""
        self._check_open()
        if len(self._users) >= self.capacity or self._line.comes_first(wait.priority):
            return None
        return self._hand_out(wait)

    def queue_up(self, wait: "UseWait", actor: Actor) -> None:
        """Add an actor to the queue. If it is first and may preempt, give it the slot of a user.

        The user is interrupted before the actor runs.
        """
        first = not self._line.comes_first(wait.priority)
        self._waited += 1
        self._line.add(actor, 1, wait, wait.priority)
        victim = self._victim(wait) if first and wait.preempt else None
        if victim is not None:
            self._remove(victim)
            self._tell(victim, wait)
            self.serve()

    def _victim(self, wait: "UseWait") -> Use | None:
        """Return the use that the request may preempt, or None. An actor never preempts itself."""
        lower = [use for use in self._users if use.priority > wait.priority and use.actor is not wait.actor]
        return max(lower, key=lambda use: (use.priority, use.number), default=None)

    def _tell(self, victim: Use, wait: "UseWait") -> None:
        if victim.actor is None:
            return
        by = wait.actor.name if wait.actor is not None else self._kernel.acting().name
        if self.on_preempted is not None:
            self.on_preempted(victim, by)
        else:
            self._kernel.interrupt(victim.actor, Preempted(by, to_seconds(victim.since_ns), self))

    def _hand_out(self, wait: "UseWait") -> Use:
        self._uses += 1
        self._served += 1
        use = Use(wait.actor, wait.priority, self._kernel.now, self._uses)
        self._users.append(use)
        return use

    def _remove(self, use: Use) -> None:
        use.held = False
        self._users.remove(use)
        if use.received and use.actor is not None:
            self._forget(use.actor)

    def hold(self, use: Use) -> None:
        """Note that the user has received its slot, so that it is released when the user ends."""
        if not use.held or use.actor is None:
            return
        use.received = True
        held = use.actor.held
        if held is None:
            use.actor.held = self
        else:
            if held.__class__ is not dict:
                held = use.actor.held = {held: 1}
            held[self] = held.get(self, 0) + 1

    def hand_to(self, holder: Source, use: Use) -> None:
        """Make a slot belong to another actor. This is for code that acquires on behalf of an agent."""
        if use.actor is not holder and isinstance(holder, Actor) and use.held:
            if use.received and use.actor is not None:
                self._forget(use.actor)
            use.actor = holder
            self.hold(use)

    def _forget(self, holder: Source) -> None:
        held = holder.held
        if held is self:
            holder.held = None
        else:
            held[self] -= 1
            if not held[self]:
                del held[self]
                holder.held = held or None

    def release_all(self, holder: Source) -> None:
        """Release all slots of an actor that has ended."""
        for use in [use for use in self._users if use.actor is holder and use.received]:
            self.release(use)

    def put_back(self, use: Use) -> None:
        """Take back a slot that was handed over but not received."""
        if self.release(use):
            self._served -= 1


class UseWait:
    """A wait for a slot of a `PreemptiveResource`. Its value is the `Use`.

    Attributes:
        actor: the actor that created the wait, even if another actor (as in `all_of`) waits on its behalf.
        priority, preempt: see `PreemptiveResource.acquire`.
    """

    __slots__ = ("_pool", "actor", "preempt", "priority")

    def __init__(self, pool: PreemptiveResource, priority: float, preempt: bool) -> None:
        check_priority(priority)
        current = pool._kernel.acting()
        self._pool = pool
        self.actor = current if isinstance(current, Actor) else None
        self.priority = priority
        self.preempt = preempt

    def take(self) -> Any:
        """Take a slot if one is free and no waiting actor comes first."""
        use = self._pool.take(self)
        return NOTHING if use is None else use

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Join the queue, or take the slot of a user."""
        self._pool.queue_up(self, actor)

    def undo(self, value: Use) -> None:
        """Give back the slot, unless it was preempted in the meantime."""
        self._pool.put_back(value)

    def leave(self) -> None:
        """No-op: each waiter wants one slot, so it blocks no other waiter."""

    def received(self, value: Use) -> None:
        """Note that the actor has its slot."""
        self._pool.hold(value)


class UsedSlot:
    """A context manager that holds a slot until the end of the block, or until the slot is preempted."""

    __slots__ = ("_pool", "_preempt", "_priority", "_use")

    def __init__(self, pool: PreemptiveResource, priority: float, preempt: bool) -> None:
        self._pool = pool
        self._priority = priority
        self._preempt = preempt

    async def __aenter__(self) -> Use:
        self._use = await self._pool.acquire(priority=self._priority, preempt=self._preempt)
        return self._use

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not GeneratorExit:  # garbage collection of the coroutine must not change the resource
            self._pool.release(self._use)
