"""`all_of`, the wait until several waits have ended. A separate actor waits for each wait that has not ended yet."""

import types
from collections.abc import Awaitable, Generator
from typing import Any

from sim.errors import Cancelled
from sim.kernel.actor import Actor, Exit
from sim.kernel.duration import Duration, to_ns
from sim.kernel.kernel import Kernel
from sim.kernel.waits import NOTHING, Wait


def all_of(*waits: Wait, timeout: Duration | None = None) -> Awaitable[list[Any] | None]:
    """Wait until all of several waits have ended.

    Each wait takes its value as soon as the value is available. The result is all or nothing: if the timeout comes
    first, one wait fails, or the actor is cancelled or interrupted, all values that were taken are given back.

    Args:
        waits: signals, latches, queues, waits of pools, joins.
        timeout: the maximum duration of the wait in simulated time (seconds, or text such as `5m`).

    Returns:
        The values in the order of `waits`, or None if the timeout came first.

    Raises:
        UsageError: if the timeout is not a duration, or negative.
        Exception: the error of the wait that failed.
    """
    return _all_of(waits, None if timeout is None else to_ns(timeout))


@types.coroutine
def _all_of(waits: tuple[Wait, ...], timeout_ns: int | None) -> Generator[Any, Any, list[Any] | None]:
    group = _AllOf(waits, timeout_ns)
    try:
        group.take()
        if group.missing:
            yield group
    except (Exception, Cancelled):  # not GeneratorExit: garbage collection must not give values back
        group.give_back()
        raise
    if group.missing:
        group.give_back()
        return None
    return group.values


class _AllOf:
    """A wait for several waits, with a count of those that have not ended.

    Attributes:
        values: the value of each wait, or NOTHING if it has not ended.
        missing: the number of waits that have not ended.
    """

    __slots__ = ("actor", "kernel", "missing", "parts", "timeout_ns", "token", "values", "waits")

    def __init__(self, waits: tuple[Wait, ...], timeout_ns: int | None) -> None:
        self.waits = waits
        self.timeout_ns = timeout_ns
        self.values: list[Any] = [NOTHING] * len(waits)
        self.missing = len(waits)
        self.parts: list[Actor] = []

    def take(self) -> None:
        """Take the values that are available already."""
        for index, wait in enumerate(self.waits):
            value = wait.take()
            if value is not NOTHING:
                self.values[index] = value
                self.missing -= 1

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Create an actor for each wait that has not ended."""
        self.kernel, self.actor, self.token = kernel, actor, actor.token
        for index, wait in enumerate(self.waits):
            if self.values[index] is NOTHING:
                part = kernel.adopt(f"{actor.name}/{index}")
                part.on_exit = lambda _, end, index=index: self._ended(index, end)
                self.parts.append(part)
                kernel.begin_now(part, armed(wait))
        if self.timeout_ns is not None:
            kernel.schedule(self.timeout_ns, actor, actor, actor.token)

    def _ended(self, index: int, end: Exit) -> None:
        waits = self.actor.token == self.token
        if end.kind == "returned":
            self.values[index] = end.value
            self.missing -= 1
            if not self.missing and waits:
                self.kernel.wake(self.actor, None, self)
                if self.timeout_ns is not None:
                    self.kernel.drop_timer()
        elif end.kind == "crashed" and end.error is not None and waits:
            self.kernel.throw(self.actor, end.error)

    def give_back(self) -> None:
        """Stop waiting, and give back the values in reverse order, so that items return to their old positions."""
        for part in self.parts:
            self.kernel.cancel(part)
        for wait, value in zip(reversed(self.waits), reversed(self.values), strict=True):
            if value is not NOTHING:
                wait.undo(value)

    def undo(self, value: None) -> None:
        """No-op: `_all_of` gives the values back when it is cancelled or interrupted."""


async def armed(wait: Wait) -> Any:
    """Wait for a wait whose `take` has just returned `NOTHING`."""
    return await _armed(wait)


@types.coroutine
def _armed(wait: Wait) -> Generator[Any, Any, Any]:
    try:
        return (yield wait)
    except (Exception, Cancelled):
        wait.leave()
        raise
