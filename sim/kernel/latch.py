"""`Latch`, an event that happens once and stays set, and `join`, the wait for the end of an actor."""

from collections.abc import Callable, Generator
from typing import Any

from sim.base.errors import ActorError, UsageError
from sim.kernel.actor import Actor, Exit
from sim.kernel.coroutines import coroutine, warn_unawaited
from sim.kernel.kernel import Kernel, crash_of
from sim.kernel.waits import NOTHING, Waiters


class Latch:
    """An event that is set once. Setting it wakes the waiting actors; actors that come later do not wait.

    A latch is a wait: pass it to `first_of`, `all_of` or `World.run(until=...)`.

    Args:
        kernel: the kernel of the actors that wait.

    Attributes:
        is_set: whether the event has happened.
        value: the value that it was set with; None before.
    """

    __slots__ = ("_error", "_kernel", "_waiters", "is_set", "value")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._waiters: Waiters | None = None
        self._error: Exception | None = None
        self.is_set = False
        self.value: Any = None

    @coroutine
    def wait(self) -> Generator[Any, Any, Any]:
        """Wait until the latch is set, and return its value. If it is set already, return immediately.

        Raises:
            Exception: the error that was passed to `fail`.
        """
        value = self.take()
        return (yield self) if value is NOTHING else value

    def set(self, value: Any = None) -> int:
        """Set the latch and wake the waiting actors, in their order. Return their number.

        Raises:
            UsageError: if it is set already.
        """
        self._happen()
        self.value = value
        woken = 0
        with self._kernel.one_event():
            while self._waiters is not None and (actor := self._waiters.pop()) is not None:
                self._kernel.wake(actor, value, self)
                woken += 1
        return woken

    def fail(self, error: Exception) -> None:
        """Set the latch to failed: `error` is raised in all actors that wait for it, now and later.

        Raises:
            UsageError: if it is set already, or `error` is not an exception.
        """
        unchecked: object = error
        if not isinstance(unchecked, Exception):
            raise UsageError(
                f"a latch fails with an exception, not {unchecked!r:.60}", hint="write latch.fail(ValueError(text))"
            )
        self._happen()
        self._error = error
        with self._kernel.one_event():
            while self._waiters is not None and (actor := self._waiters.pop()) is not None:
                self._kernel.throw(actor, error)

    def clear(self) -> None:
        """Reset the latch: actors that wait from now on wait until it is set again."""
        self._kernel.acting()
        self.is_set = False
        self.value = self._error = None

    def _happen(self) -> None:
        self._kernel.acting()  # first: it refuses a call from outside before anything changes
        if self.is_set:
            raise UsageError(
                f"this latch is set already, with the value {self.value!r}", hint="call clear() first, or use a Signal"
            )
        self.is_set = True

    def take(self) -> Any:
        """Return the value if the latch is set, raise its error if it failed, else return `NOTHING`."""
        if self._error is not None:
            raise self._error
        return self.value if self.is_set else NOTHING

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Register the actor."""
        if self._waiters is None:
            self._waiters = Waiters()
        self._waiters.add(actor)

    def undo(self, value: Any) -> None:
        """No-op: nothing was taken."""

    def leave(self) -> None:
        """No-op: waiting here blocks no other actor."""


class Join:
    """The wait for the end of an actor. See `join`."""

    __slots__ = ("_used", "actor")

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self._used = False

    def __del__(self) -> None:
        if not self._used:
            warn_unawaited("join", self)

    def __await__(self) -> Generator[Any, Any, Any]:
        value = self.take()
        return (yield self) if value is NOTHING else value

    def take(self) -> Any:
        """Return the result of the actor if it has ended, or raise its error; else return `NOTHING`."""
        self._used = True
        end = self.actor.exit
        return NOTHING if end is None else _result(self.actor, end)

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Register the actor that waits."""
        if actor is self.actor:
            raise UsageError(f"{actor.name} cannot wait for its own end")
        hook = self.actor.on_exit
        if not isinstance(hook, _Ends):
            hook = self.actor.on_exit = _Ends(kernel, hook)
        hook.waiting.append((actor, actor.token, self))

    def undo(self, value: Any) -> None:
        """No-op: nothing was taken."""

    def leave(self) -> None:
        """No-op: waiting here blocks no other actor."""


def join(actor: Actor) -> Join:
    """Return the wait for the end of `actor`. Use `await join(actor)`, or pass it to `first_of` or `all_of`.

    The value of the wait is the return value of the actor. If the actor has ended already, the wait ends immediately.
    If the actor crashed, its error is raised in the actors that wait for it, and does not end the run.

    Raises:
        ActorError: while waiting, if the actor was cancelled and therefore has no result.
        UsageError: while waiting, if an actor waits for its own end.
    """
    return Join(actor)


class _Ends:
    """An `on_exit` callback that wakes the actors that joined an actor, and then calls the earlier callback."""

    __slots__ = ("before", "kernel", "waiting")

    def __init__(self, kernel: Kernel, before: Callable[[Actor, Exit], object] | None) -> None:
        self.kernel = kernel
        self.before = before
        self.waiting: list[tuple[Actor, int, Join]] = []

    def __call__(self, actor: Actor, end: Exit) -> None:
        live = [(waiter, wait) for waiter, token, wait in self.waiting if waiter.token == token]
        self.waiting.clear()
        for waiter, wait in live:
            if end.kind == "returned":
                self.kernel.wake(waiter, end.value, wait)
            else:
                self.kernel.throw(waiter, _failure(actor, end))
        if self.before is not None:
            self.before(actor, end)
        elif end.kind == "crashed" and not live:
            raise crash_of(actor, end)


def _result(actor: Actor, end: Exit) -> Any:
    if end.kind == "returned":
        return end.value
    raise _failure(actor, end)


def _failure(actor: Actor, end: Exit) -> Exception:
    """Return the error for the actors that wait for the result of an actor that has none."""
    if end.kind == "crashed":
        return crash_of(actor, end)
    return ActorError(f"{actor.name} was cancelled, so it has no result")
