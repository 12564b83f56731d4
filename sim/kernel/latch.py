"""`Latch`: an event that happens once and is remembered; and `join`, the wait for the end of an actor."""

import types
from collections.abc import Callable, Generator
from typing import Any

from sim.errors import ActorError, UsageError
from sim.kernel.actor import Actor, Exit
from sim.kernel.kernel import Kernel, crash_of
from sim.kernel.waits import NOTHING, Waiters


class Latch:
    """An event that is set once. Actors that wait when it is set wake; actors that come later do not wait at all.

    It is a wait by itself: give it to `first_of`, `all_of` or `World.run(until=...)`.

    Args:
        kernel: the kernel of the actors that wait.

    Attributes:
        is_set: whether it has happened.
        value: what it was set with; None before.
    """

    __slots__ = ("_error", "_kernel", "_waiters", "is_set", "value")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._waiters: Waiters | None = None
        self._error: Exception | None = None
        self.is_set = False
        self.value: Any = None

    @types.coroutine
    def wait(self) -> Generator[Any, Any, Any]:
        """Wait until the latch is set, and return its value; at once if it is set already.

        Raises:
            Exception: the error that it was failed with.
        """
        value = self.take()
        return (yield self) if value is NOTHING else value

    def set(self, value: Any = None) -> int:
        """Let the event happen, and return how many actors it woke, in order of their ordinals.

        Raises:
            UsageError: if it has happened already.
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
        """Let the event fail: `error` is raised in all actors that wait for it, now and later.

        Raises:
            UsageError: if it has happened already.
        """
        self._happen()
        self._error = error
        with self._kernel.one_event():
            while self._waiters is not None and (actor := self._waiters.pop()) is not None:
                self._kernel.throw(actor, error)

    def clear(self) -> None:
        """Forget that it has happened: who waits from now on waits for the next time."""
        self._kernel.acting()
        self.is_set = False
        self.value = self._error = None

    def _happen(self) -> None:
        self._kernel.acting()  # refuses a call from outside before anything has changed
        if self.is_set:
            raise UsageError(
                f"this latch is set already, with the value {self.value!r}", hint="call clear() first, or use a Signal"
            )
        self.is_set = True

    def take(self) -> Any:
        """Return the value if it has happened."""
        if self._error is not None:
            raise self._error
        return self.value if self.is_set else NOTHING

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Register the actor."""
        if self._waiters is None:
            self._waiters = Waiters()
        self._waiters.add(actor)

    def undo(self, value: Any) -> None:
        """Nothing was taken."""

    def leave(self) -> None:
        """No-op: waiting here blocks no other actor."""


class Join:
    """The wait for the end of an actor; see `join`."""

    __slots__ = ("actor",)

    def __init__(self, actor: Actor) -> None:
        self.actor = actor

    def __await__(self) -> Generator[Any, Any, Any]:
        value = self.take()
        return (yield self) if value is NOTHING else value

    def take(self) -> Any:
        """Return the result if the actor has ended, or raise what it ended with."""
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
        """Nothing was taken."""

    def leave(self) -> None:
        """No-op: waiting here blocks no other actor."""


def join(actor: Actor) -> Join:
    """Return the wait for the end of `actor`: `await join(actor)`, or a part of `first_of` and `all_of`.

    Its value is what the actor returned; at once if the actor has ended already. An error that ended the actor is
    raised in the actors that wait for it, and then does not end the run.

    Raises:
        ActorError: while waiting, if the actor was cancelled, so that it has no result.
        UsageError: while waiting, if an actor waits for its own end.
    """
    return Join(actor)


class _Ends:
    """Called when an actor has ended: tells those that joined it, and who watched it before."""

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
    """Return the error for those that wait for the result of an actor that has none."""
    if end.kind == "crashed":
        return crash_of(actor, end)
    return ActorError(f"{actor.name} was cancelled, so it has no result")
