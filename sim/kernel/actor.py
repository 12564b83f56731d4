"""Sources, which cause wake-ups and events, and actors, which are woken."""

from collections.abc import Callable, Coroutine
from typing import Any, Literal

import attrs

HOST, SCENARIO, SUPERVISOR, STOP_CONDITION = 0, 1, 2, 4
"""The reserved ordinals. Actors that are declared before the run count from `FIRST_ACTOR`, in order of declaration."""

TICK, MONITOR = 2**31, 2**31 + 1
"""The reserved ordinals of actors that run after all declared ones: the ticks, and the health monitor."""

_ENTRIES = -(2**20)  # the entries of the lists of a scenario have the ordinals from here on
_OWNED = -(2**20) - 1  # sources of one owner have ordinals below, by hash

FIRST_ACTOR = 16
FIRST_DERIVED = 2**40  # ordinals that are derived by hash are above all declared ones


class Source:
    """The cause of wake-ups and events. It has an ordinal, and counts the wake-ups and events that it causes."""

    __slots__ = ("counter", "name", "ordinal")

    def __init__(self, name: str, ordinal: int) -> None:
        self.name = name
        self.ordinal = ordinal
        self.counter = 0


def entry_source(name: str, kind: int, place: int) -> Source:
    """Return the source of an entry in a list of the scenario.

    Each entry has its own, so that its counter tells nothing about others. At one instant they run in the order of the
    list, before all actors.

    Args:
        name: the name of the source.
        kind: which list: 0 to 3.
        place: the place in the list, from 0.
    """
    return Source(name, _ENTRIES + 4 * place + kind)


def owned_ordinal(hash: int) -> int:
    """Return the ordinal of a source that acts for one owner, from a hash of its label (64 bits)."""
    return _OWNED - (hash >> 16)


@attrs.frozen
class Exit:
    """How an actor ended.

    Attributes:
        kind: `returned`, `crashed`, `cancelled`, or `abandoned` (it kept swallowing its cancellation).
        value: the return value, if it returned.
        error: the error that ended it, if it did not return.
    """

    kind: Literal["returned", "crashed", "cancelled", "abandoned"]
    value: Any = None
    error: BaseException | None = None


class Actor(Source):
    """A coroutine that the kernel runs.

    Attributes:
        coro: the coroutine, or None before the actor starts and after it ends.
        token: a number that increases each time the actor is woken or resumed. Entries and registrations that hold
            an earlier token are stale; they need not be removed. It is odd if the actor is woken but not yet resumed.
        value: the value that its wait returns; after its end, its `Exit`.
        via: the wait that woke it, which can take the value back. While it waits for a signal: its `WakeBatch`.
        cancelling: whether it is being cancelled.
        on_exit: a function that is called with (actor, exit) after its end. Without it, a crash ends the run.
    """

    __slots__ = ("cancelling", "coro", "on_exit", "token", "value", "via")

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.coro: Coroutine[Any, Any, Any] | None = None
        self.token = 0
        self.value: Any = None
        self.via: Any = None
        self.cancelling = False
        self.on_exit: Callable[[Actor, Exit], object] | None = None

    @property
    def exit(self) -> Exit | None:
        """How it ended, or None before its end."""
        return self.value if self.coro is None and self.value.__class__ is Exit else None

    @property
    def woken(self) -> bool:
        """Whether its wait has ended, so that it is about to run."""
        return bool(self.token & 1) or getattr(self.via, "fired", False)

    def __repr__(self) -> str:
        state = self.exit.kind if self.exit else "woken" if self.woken else "waiting"
        return f"<Actor {self.name} #{self.ordinal} {state}>"
