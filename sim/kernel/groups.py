"""`first_of`, and what it shares with `all_of`: groups of waits, which can be parts of one another."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable
from functools import partial
from typing import Any, ClassVar, Self

import attrs

from sim.base.errors import UsageError
from sim.kernel.actor import Actor
from sim.kernel.coroutines import warn_unawaited
from sim.kernel.duration import Duration, to_ns
from sim.kernel.kernel import Kernel, Timer
from sim.kernel.latch import Join
from sim.kernel.waits import NOTHING, Wait, receive, reserving, wait_armed


@attrs.frozen
class Fired:
    """The result of `first_of`: the index of the wait that ended first (None for the timeout), and its value."""

    index: int | None
    value: Any = None


def as_waits(name: str, waits: Iterable[Any]) -> tuple[Wait, ...]:
    """Return the arguments of `first_of` or `all_of` as waits. An actor stands for its end.

    Raises:
        UsageError: if one of them is no wait.
    """
    waits = tuple(waits)
    for one in waits:
        if not (hasattr(one, "take") and hasattr(one, "arm")) and not isinstance(one, Actor):
            error = _no_wait(name, one)
            for other in waits:
                if hasattr(other, "send") and hasattr(other, "close"):
                    other.close()  # otherwise Python would warn that it was never awaited
            raise error
    return tuple(Join(one) if isinstance(one, Actor) else one for one in waits)


def _no_wait(name: str, argument: Any) -> UsageError:
    kind = type(argument).__name__
    if hasattr(argument, "send"):
        called = getattr(argument, "__qualname__", kind)
        return UsageError(
            f"{name} takes waits, not the coroutine {called}()",
            hint="pass the wait itself: a latch instead of latch.wait(), store.getting() instead of store.get(),"
            " resource.wait() instead of resource.acquire(), timeout=5 instead of sleep(5)",
        )
    if isinstance(argument, int | float | str):
        return UsageError(f"{name} takes waits, not {argument!r}", hint="write timeout=... for a duration")
    hint = "call it" if callable(argument) else "waits are latches, signals, queues, actors, and waits of pools"
    return UsageError(f"{name} takes waits, not {kind!r}", hint=hint)


class Group(ABC):
    """A wait that consists of others: `first_of` or `all_of`. It can be awaited, and be a part of another group.

    Attributes:
        waits: the parts.
        timeout_ns: the maximum duration, or None.
    """

    __slots__ = ("_used", "kernel", "timeout_ns", "timer", "waits")
    name: ClassVar[str]

    def __init__(self, waits: Iterable[Any], timeout_ns: int | None) -> None:
        self._used = True  # a group that is refused here needs no warning
        if timeout_ns is not None and timeout_ns < 0:
            raise UsageError(f"a timeout must not be negative, but {timeout_ns} ns is")
        self.waits = as_waits(self.name, waits)
        self.timeout_ns = timeout_ns
        self.timer: Timer | None = None
        for wait in self.waits:
            if isinstance(wait, Group):
                wait._used = True
        self._used = False

    def __del__(self) -> None:
        if not self._used:
            warn_unawaited(self.name, self)

    def __await__(self) -> Generator[Any, Any, Any]:
        value = self.take()
        if value is NOTHING:
            value = yield from wait_armed(self)
        self.received(value)
        return value

    @abstractmethod
    def take(self) -> Any:
        """Return the value if it is available, else `NOTHING`."""

    @abstractmethod
    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Register the actor for all parts."""

    @abstractmethod
    def result(self, value: Any) -> Any:
        """Return the value of the group, when its actor runs again with `value`."""

    @abstractmethod
    def part_result(self, via: Any, value: Any) -> Any:
        """Return the value of the group as a part of `first_of`, or `NOTHING` if `via` does not belong to it."""

    @abstractmethod
    def undo(self, value: Any) -> None:
        """Give back what the group took."""

    @abstractmethod
    def leave(self) -> None:
        """End the waits of all parts."""

    @abstractmethod
    def received(self, value: Any) -> None:
        """Tell the parts that the running actor has their values now."""

    def arm_part(self, kernel: Kernel, actor: Actor) -> None:
        """Register the actor, for a group that is a part of `first_of`: its timeout is a wait of its own."""
        limit, self.timeout_ns, token = self.timeout_ns, None, actor.token
        self.arm(kernel, actor)
        self.timeout_ns = limit
        if limit is not None and actor.token == token:
            end = partial(self._time_out, kernel, actor, token)
            self.timer = kernel.call_at(kernel.now + limit, end, actor)

    def _time_out(self, kernel: Kernel, actor: Actor, token: int) -> None:
        self.timer = None
        if actor.token == token:
            kernel.wake(actor, NOTHING, self)

    def stop_timer(self) -> None:
        """Cancel the timer of a group that is a part of `first_of`."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class FirstOf(Group):
    """The wait for the first of several waits. See `first_of`."""

    __slots__ = ("actor",)
    name = "first_of"

    def __init__(self, waits: Iterable[Any], timeout_ns: int | None) -> None:
        super().__init__(waits, timeout_ns)
        if not self.waits and timeout_ns is None:
            self._used = True
            raise UsageError("first_of of nothing would never end", hint="pass a wait, or timeout=...")

    def take(self) -> Any:
        """Return the first available value, in the order of the waits."""
        self._used = True
        for index, wait in enumerate(self.waits):
            try:
                value = wait.take()
            except Exception:
                self._leave_groups(index)
                raise
            if value is not NOTHING:
                self._leave_groups(index)
                return Fired(index, value)
        return NOTHING

    def _leave_groups(self, count: int) -> None:
        """End the first waits, as far as they are groups, which may have taken a part of what they want."""
        for wait in self.waits[:count]:
            if isinstance(wait, Group):
                wait.leave()

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Register the actor for all waits, under one token."""
        self.kernel = kernel
        self.actor = actor
        actor.via = None
        token = actor.token
        for wait in self.waits:
            if isinstance(wait, Group):
                wait.arm_part(kernel, actor)
            else:
                wait.arm(kernel, actor)
            if actor.token != token:  # this wait has ended already; a further registration could end it twice
                return
        if self.timeout_ns is not None:
            kernel.schedule(self.timeout_ns, actor, actor, actor.token)

    def result(self, value: Any) -> Fired:
        """Return which wait has ended, and its value; end the others."""
        fired = self.part_result(self.actor.via, value)
        if fired is NOTHING:  # none of the waits has ended, so the timer of the timeout has woken the actor
            self.leave()
            return Fired(None)
        if self.timeout_ns is not None:
            self.kernel.drop_timer()
        return fired  # type: ignore[no-any-return]

    def part_result(self, via: Any, value: Any) -> Any:
        """Return the `Fired` of the wait `via`, which is one of these or a part of one."""
        if via is self:  # `_time_out` woke the actor
            self.leave()
            return Fired(None)
        for index, wait in enumerate(self.waits):
            result = value if wait is via else NOTHING
            if isinstance(wait, Group):
                result = wait.part_result(via, value)
            if result is not NOTHING:
                self.stop_timer()
                for other in self.waits:
                    if other is not wait:
                        other.leave()
                return Fired(index, result)
        return NOTHING

    def undo(self, value: Any) -> None:
        """Give back the value of the wait that ended."""
        if isinstance(value, Fired) and value.index is not None:
            self.waits[value.index].undo(value.value)

    def leave(self) -> None:
        """End all waits, so that each can serve the waiters that this actor blocked."""
        self.stop_timer()
        for wait in self.waits:
            wait.leave()

    def received(self, value: Fired) -> None:
        """Tell the wait that ended."""
        if value.index is not None:
            receive(self.waits[value.index], value.value)

    def reserving(self) -> Self:
        """Return the same wait for waits that can be undone."""
        return type(self)(map(reserving, self.waits), self.timeout_ns)


def first_of(*waits: Wait | Actor, timeout: Duration | None = None) -> FirstOf:
    """Wait for the first of several waits.

    If several values are available already, the first wait in the order given wins. The other waits take nothing.

    Args:
        waits: signals, latches, queues, waits of pools, actors (their end), and further `first_of` and `all_of`.
        timeout: the maximum duration of the wait in simulated time (seconds, or text such as `5m`).

    Returns:
        A wait. Its value has the index of the wait that ended first and its value; the index is None after the timeout.

    Raises:
        UsageError: if the timeout is not a duration or negative, an argument is no wait, or nothing is to be awaited.
    """
    return FirstOf(waits, None if timeout is None else to_ns(timeout))


def first_of_ns(*waits: Wait | Actor, timeout_ns: int | None = None) -> FirstOf:
    """Like `first_of`, with the timeout in whole nanoseconds."""
    return FirstOf(waits, timeout_ns)
