"""What an entry of the order can aim at besides an actor, a callback or an error for an actor; and why a run pauses.

Each target has a `token` like an actor: an entry is stale when its token is no longer the one of its target.
"""

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING

from sim.kernel.actor import Actor, Source

if TYPE_CHECKING:
    from sim.kernel.scheduler import Kernel


class Pause(enum.Enum):
    """Why `Kernel.run` returned."""

    BUDGET = "the given number of steps has run"
    LIMIT = "what comes next is not before the limit"
    IDLE = "nothing is due, ever"
    BLOCKED = "the outcome of an effect is due and not there yet"
    HALTED = "a step asked for it"


class Timer:
    """A callback at a simulated time; `cancel` makes sure it never runs."""

    __slots__ = ("callback", "kernel", "source", "token")

    def __init__(self, kernel: "Kernel", source: Source, callback: Callable[[], object]) -> None:
        self.kernel = kernel
        self.source = source
        self.callback = callback
        self.token = 0

    def fire(self) -> None:
        """Run the callback: the kernel calls this when the time has come."""
        self.token += 1
        self.kernel.current = self.source
        self.callback()

    def cancel(self) -> None:
        """Make sure the callback never runs; once it has run, this does nothing."""
        if self.token == 0:
            self.token += 1
            self.kernel.drop_timer()


class Ticker(Timer):
    """A callback once every period; `cancel` ends it. One object serves all its calls."""

    __slots__ = ("period",)

    def __init__(self, kernel: "Kernel", source: Source, callback: Callable[[], object], period: int) -> None:
        super().__init__(kernel, source, callback)
        self.period = period

    def fire(self) -> None:
        """Run the callback; its next call has its place in the order before anything that this one causes."""
        kernel, source = self.kernel, self.source
        kernel.current = source
        source.counter = counter = source.counter + 1
        kernel.calendar.push((kernel.now + self.period, 0, source.ordinal, counter, self, 0))
        self.callback()


class Throw:
    """An entry's target: raise an error in an actor where it waits."""

    __slots__ = ("actor", "error", "expected", "kernel", "token")

    def __init__(self, kernel: "Kernel", actor: Actor, error: BaseException) -> None:
        self.kernel = kernel
        self.actor = actor
        self.error = error
        self.token = 0
        self.expected = actor.token

    def fire(self) -> None:
        """Raise the error, unless something else has been decided for the actor since."""
        if self.actor.token == self.expected and self.actor.coro is not None:
            self.kernel.throw_now(self.actor, self.error)


class Interruption(Throw):
    """As `Throw`; then it is the turn of the next interrupt of the same actor."""

    __slots__ = ()

    def fire(self) -> None:
        """Raise the interrupt, unless the actor was cancelled since."""
        super().fire()
        self.kernel.current = self.actor
        self.kernel.interrupt_next(self.actor)
