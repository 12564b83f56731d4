"""Sources, which cause wake-ups and events, and actors, which are woken."""

from collections.abc import Callable, Coroutine
from typing import Any, Literal, Protocol

import attrs

HOST, SCENARIO, SUPERVISOR, PLACES, STOP_CONDITION = 0, 1, 2, 3, 4
"""The reserved ordinals. Actors that are declared before the run count from `FIRST_ACTOR`, in order of declaration."""

TICK, MONITOR = 2**31, 2**31 + 1
"""The reserved ordinals of actors that run after all declared ones: the ticks, and the health monitor."""

_ENTRIES = -(2**20)  # the entries of the lists of a scenario have the ordinals from here on
_OWNED = -(2**20) - 1  # sources of one owner have ordinals below, by hash

FIRST_ACTOR = 16
FIRST_DERIVED = 2**40  # ordinals that are derived by hash are above all declared ones
MAX_RANK = 2**63  # above all ordinals


class Rank:
    """The place in the order of an actor that was made during a run: the key of the step that made it.

    Such actors come after all that were declared before the run, and among each other in the order in which they were
    made. The key says this without a number that all of them would have to share: it is the same wherever the step
    runs, and at whatever real time. `index` orders the actors that one step made.

    Attributes:
        ordinal: the ordinal of the actor, which is its identity in the record.
        time, delta, priority, source, counter: the key of the step.
        actor: the rank of the actor that ran, because one event can wake several.
    """

    __slots__ = ("actor", "counter", "delta", "index", "ordinal", "priority", "source", "time")

    def __init__(self, ordinal: int, step: tuple[int, int, int, "int | Rank", int], actor: "int | Rank", index: int):
        self.ordinal = ordinal
        self.time, self.delta, self.priority, self.source, self.counter = step
        self.actor = actor
        self.index = index

    def __lt__(self, other: "int | Rank") -> bool:
        return compare(self, other) < 0

    def __gt__(self, other: "int | Rank") -> bool:
        return compare(self, other) > 0

    def __repr__(self) -> str:
        return f"#{self.ordinal}"


def compare(one: int | Rank, other: int | Rank) -> int:
    """Return a number below, equal to or above 0, if a rank is below, equal to or above another.

    It follows the two lines of ancestors back to the first difference, in a loop, because they can be long.
    """
    while one is not other:
        if isinstance(one, int) or isinstance(other, int):
            first, second = (rank if isinstance(rank, int) else MAX_RANK for rank in (one, other))
            return first - second
        key, key_of_other = (one.time, one.delta, one.priority), (other.time, other.delta, other.priority)
        if key != key_of_other:
            return -1 if key < key_of_other else 1
        if one.source != other.source:
            one, other = one.source, other.source
        elif one.counter != other.counter:
            return one.counter - other.counter
        elif one.actor != other.actor:
            one, other = one.actor, other.actor
        else:
            return one.index - other.index
    return 0


def identity(rank: int | Rank) -> int:
    """Return the ordinal of a source from its rank."""
    return rank if isinstance(rank, int) else rank.ordinal


class Source:
    """The cause of wake-ups and events. It has an ordinal, and counts the wake-ups and events that it causes.

    Attributes:
        ordinal: its identity in the record.
        rank: its place in the order: its ordinal, or for an actor that was made during a run a `Rank`.
        held: what it holds slots of: None, a pool of which it holds one, or a dict with the number for each pool.
    """

    __slots__ = ("counter", "held", "name", "ordinal", "rank")

    def __init__(self, name: str, ordinal: int) -> None:
        self.name = name
        self.ordinal = ordinal
        self.rank: int | Rank = ordinal
        self.counter = 0
        self.held: Any = None


def entry_source(name: str, kind: int, place: int) -> Source:
    """Return the source of an entry in a list of the scenario.

    Each entry has its own, so that its counter does not depend on others. At one instant they run in the order of the
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


class Listener(Protocol):
    """What stands behind an actor and knows whether it can be interrupted now: the loop of an agent."""

    def on_interrupt(self) -> bool | None:
        """Return None to let the interrupt be raised. Otherwise it is not: True: it was heeded in another way."""

    def missed(self, interrupt: BaseException, /) -> None:
        """Take note of an interrupt that was accepted, but can no longer be raised when its turn comes."""


class Actor(Source):
    """A coroutine that the kernel runs.

    Attributes:
        coro: the coroutine, or None before the actor starts and after it ends.
        token: a number that increases each time the actor is woken or resumed. Entries and registrations that hold
            an earlier token are stale; they need not be removed. It is odd if the actor is woken but not yet resumed.
        value: the value that its wait returns; after its end, its `Exit`.
        via: the wait that woke it, which can take the value back. While it waits for a signal: its `WakeBatch`.
        cancelling: whether it is being cancelled.
        listener: asked each time before an interrupt is raised; None: it is always raised.
        on_exit: a function that is called with (actor, exit) after its end. Without it, a crash ends the run.
    """

    __slots__ = ("cancelling", "coro", "listener", "on_exit", "token", "value", "via")

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.coro: Coroutine[Any, Any, Any] | None = None
        self.token = 0
        self.value: Any = None
        self.via: Any = None
        self.cancelling = False
        self.listener: Listener | None = None
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
