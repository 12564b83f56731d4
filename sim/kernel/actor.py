"""Sources and actors: who causes wake-ups, and who is woken."""

from collections.abc import Callable, Coroutine
from typing import Any, Literal

import attrs

HOST, SCENARIO, SUPERVISOR = 0, 1, 2
"""The reserved ordinals. Actors declared before the run follow from `FIRST_ACTOR`, in the order of
declaration.
"""

FIRST_ACTOR = 16
FIRST_DERIVED = 2**40  # ordinals derived by hash lie above all declared ones


class Source:
    """Whatever causes wake-ups and events: it has a place in the order and counts what it causes."""

    __slots__ = ("counter", "name", "ordinal")

    def __init__(self, name: str, ordinal: int) -> None:
        self.name = name
        self.ordinal = ordinal
        self.counter = 0


@attrs.frozen
class Exit:
    """How an actor ended.

    Attributes:
        kind: `returned`, `crashed`, `cancelled`, or `abandoned` (it kept swallowing its cancellation).
        value: what it returned, if it returned.
        error: what it raised, if it crashed.
    """

    kind: Literal["returned", "crashed", "cancelled", "abandoned"]
    value: Any = None
    error: BaseException | None = None


class Actor(Source):
    """A coroutine driven by the kernel.

    Attributes:
        token: changes each time the actor is woken or resumed, so that whatever still points at an earlier
            wait is stale without being removed. Odd: woken but not yet resumed.
        value: what the wait that woke it gives it; once it has ended, how.
        via: the wait that woke it, which can take the value back; while it waits for a signal, the crowd it is in.
        on_exit: called with (actor, exit) when it has ended; without it a crash ends the run.
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
        """How it ended, or None while it has not."""
        return self.value if self.coro is None and self.value.__class__ is Exit else None

    @property
    def woken(self) -> bool:
        """Whether its wait is decided: it is about to run."""
        return bool(self.token & 1) or getattr(self.via, "fired", False)

    def __repr__(self) -> str:
        state = self.exit.kind if self.exit else "woken" if self.woken else "waiting"
        return f"<Actor {self.name} #{self.ordinal} {state}>"
