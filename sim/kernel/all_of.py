"""`all_of`, the wait until several waits have ended. A separate actor waits for each wait that has not ended yet."""

from collections.abc import Iterable
from typing import Any, Self

from sim.kernel.actor import Actor, Exit
from sim.kernel.coroutines import coroutine
from sim.kernel.duration import Duration, to_ns
from sim.kernel.groups import Group
from sim.kernel.kernel import Kernel
from sim.kernel.waits import NOTHING, Wait, receive, reserving, wait_armed


def all_of(*waits: Wait | Actor, timeout: Duration | None = None) -> "AllOf":
    """Wait until all of several waits have ended.

    Each wait takes its value as soon as the value is available. What a wait puts somewhere is put when all have ended;
    until then, room is kept for it. The result is all or nothing: if the timeout comes first, one wait fails, or the
    actor is cancelled or interrupted, all values that were taken are given back.

    Args:
        waits: signals, latches, queues, waits of pools, actors (their end), and further `first_of` and `all_of`.
        timeout: the maximum duration of the wait in simulated time (seconds, or text such as `5m`).

    Returns:
        A wait. Its value is the list of the values in the order of `waits`, or None if the timeout came first.

    Raises:
        UsageError: if the timeout is not a duration or negative, or an argument is no wait.
        Exception: while waiting, the error of the wait that failed.
    """
    return AllOf(waits, None if timeout is None else to_ns(timeout))


class AllOf(Group):
    """The wait for all of several waits. See `all_of`.

    Attributes:
        values: the value of each wait, or NOTHING if it has not ended.
        missing: the number of waits that have not ended.
    """

    __slots__ = ("actor", "missing", "parts", "token", "values")
    name = "all_of"

    def __init__(self, waits: Iterable[Any], timeout_ns: int | None) -> None:
        super().__init__(waits, timeout_ns)
        self.waits = tuple(map(reserving, self.waits))
        self._restart()

    def _restart(self) -> None:
        self.values: list[Any] = [NOTHING] * len(self.waits)
        self.missing = len(self.waits)
        self.parts: list[Actor] = []

    def take(self) -> Any:
        """Take the values that are available already. Return them if these are all; otherwise `arm` or `leave` follows.

        Raises:
            Exception: the error of a wait that has failed; nothing is taken then.
        """
        self._used = True
        self._restart()
        try:
            for index, wait in enumerate(self.waits):
                value = wait.take()
                if value is not NOTHING:
                    self.values[index] = value
                    self.missing -= 1
        except Exception:
            self.leave()
            raise
        return NOTHING if self.missing else self.values

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Create an actor for each wait that has not ended."""
        self.kernel, self.actor, self.token = kernel, actor, actor.token
        actor.via = None
        for index, wait in enumerate(self.waits):
            if self.values[index] is NOTHING:
                part = kernel.adopt(f"{actor.name}/{index}")
                part.on_exit = lambda _, end, index=index: self._ended(index, end)
                self.parts.append(part)
                kernel.begin_now(part, _armed(wait))
        if self.timeout_ns is not None:
            kernel.schedule(self.timeout_ns, actor, actor, actor.token)

    def _ended(self, index: int, end: Exit) -> None:
        waits = self.actor.token == self.token
        if end.kind == "returned":
            self.values[index] = end.value
            self.missing -= 1
            if not self.missing and waits:
                self.kernel.wake(self.actor, self.values, self)
                if self.timeout_ns is not None:
                    self.kernel.drop_timer()
        elif end.kind == "crashed" and end.error is not None and waits:
            self.kernel.throw(self.actor, end.error)

    def result(self, value: Any) -> list[Any] | None:
        """Return the values, or None after the timeout; then all is given back."""
        self.stop_timer()
        if self.missing:
            self.leave()
            return None
        return self.values

    def part_result(self, via: Any, value: Any) -> Any:
        """Return the values if this group, as a part of another, has ended."""
        return self.result(value) if via is self else NOTHING

    def leave(self) -> None:
        """Stop to wait, and give back the values in reverse order, so that items return to their old positions."""
        self.stop_timer()
        parts, self.parts = self.parts, []
        values, self.values = self.values, [NOTHING] * len(self.waits)
        for part in parts:
            self.kernel.cancel(part)
        for wait, value in zip(reversed(self.waits), reversed(values), strict=True):
            if value is not NOTHING:
                wait.undo(value)
            elif isinstance(wait, Group):  # it may have taken a part of what it wants
                wait.leave()

    def undo(self, value: Any) -> None:
        """Give back the values."""
        self.leave()

    def received(self, value: list[Any] | None) -> None:
        """Tell all waits that the running actor has their values now."""
        for wait, one in zip(self.waits, value or (), strict=bool(value)):
            receive(wait, one)

    def reserving(self) -> Self:
        """Return the wait itself: it can be undone until its values were received."""
        return self


@coroutine
def _armed(wait: Wait) -> Any:
    return (yield from wait_armed(wait))
