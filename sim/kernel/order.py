"""The order of what runs at one (time, delta), and the error when that never ends."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Final

from sim._speedups import core
from sim.errors import KernelError, LivelockError
from sim.kernel.future_events import Entry, sort_entries

_MANY = 32


class WakeBatch:
    """The target of one entry that stands for many: the actors that one event wakes, in order of their ordinals.

    They run one after the other, as if each had an entry of its own with the same key. An event takes one counter of
    its source, however many it wakes: so what the source causes later has the same keys, whoever listens.

    Attributes:
        waiting: who runs, each followed by the token under which it waited; in order of arrival until `sort` is called.
        value: what they get.
        fired: whether they have been woken.
        place: how many of them have run; only the loop in C knows, for in Python each has an entry in the end.
        token: that of its entry, which is never stale.
        throws: how many errors had been raised in actors before the first of them waited: as long as none has been
            raised since, all of them still wait.
    """

    __slots__ = ("fired", "lost", "place", "throws", "value", "waiting")

    token: Final = 0

    def __init__(self, throws: int) -> None:
        self.place = 0
        self.waiting: list[Any] = []
        self.value: object = None
        self.fired = False
        self.throws = throws
        self.lost = 0

    def __iter__(self) -> Iterator[tuple[Any, int]]:
        return zip(self.waiting[::2], self.waiting[1::2], strict=True)

    def sort(self, ties: Callable[[int], int] | None = None) -> None:
        """Put them in order of their ordinals, or of what `ties` gives for these."""
        if ties is None and in_order(self.waiting):
            return
        pairs = sorted(self, key=lambda pair: _ordinal(pair[0], ties))
        self.waiting[:] = chain.from_iterable(pairs)

    def lose_one(self) -> None:
        """One of them waits no longer: they are looked for when they are many, unless each has its counter already."""
        self.lost += 1
        if self.lost > _MANY and 4 * self.lost > len(self.waiting) and not self.fired:
            self.purge()

    def thin_out(self) -> int:
        """Forget, of those who have not run, who does not wait any longer, and return how many are left."""
        left, waiting = 0, self.waiting
        for place in range(2 * self.place, len(waiting), 2):
            if waiting[place] is not None and waiting[place].token == waiting[place + 1]:
                left += 1
            else:
                waiting[place] = None
        return left

    def purge(self) -> None:
        """Drop those who wait no longer."""
        self.waiting[:] = [part for pair in self if pair[0].token == pair[1] for part in pair]
        self.lost = 0


def _ordinal(target: Any, ties: Callable[[int], int] | None) -> tuple[int, int]:
    ordinal: int = getattr(target, "actor", target).ordinal  # an error that is raised in an actor has its place
    return (ordinal if ties is None else ties(ordinal), ordinal)


def in_order(waiting: list[Any], /) -> bool:
    """Whether actors, each followed by a token, stand in order of their ordinals."""
    ordinals = [getattr(target, "actor", target).ordinal for target in waiting[::2]]
    return ordinals == sorted(ordinals)


if core is not None:
    in_order = core.in_order


def spread(batch: list[Entry], ties: Callable[[int], int] | None = None) -> list[Entry]:
    """Return the same entries with one for each actor of a `WakeBatch`."""
    spread = list[Entry]()
    for entry in batch:
        wakes = entry[4]
        if wakes.__class__ is WakeBatch:
            if ties is not None:
                wakes.sort(ties)
            spread.extend((*entry[:4], target, token) for target, token in wakes)
        else:
            spread.append(entry)
    return spread


def sort(batch: list[Entry], ties: Callable[[int], int] | None) -> None:
    """Sort entries of one (time, delta) by their keys.

    Args:
        batch: sorted in place.
        ties: gives each source ordinal its place instead of the ordinal itself, or None. Never the counter, so that
            what one source causes stays first in, first out.

    Raises:
        KernelError: if two entries have one key.
    """
    try:
        if ties is None:
            sort_entries(batch)
        else:
            places = {ordinal: ties(ordinal) for ordinal in dict.fromkeys(entry[2] for entry in batch)}
            batch.sort(key=lambda entry: (entry[1], places[entry[2]], entry[2], entry[3]))
    except TypeError as error:  # two equal keys make the comparison reach the targets
        raise KernelError(f"two wake-ups at {batch[0][0]} ns have one order key") from error


def livelock(batch: list[Entry], now: int, rounds: int) -> LivelockError:
    """Return the error for time that stands still, naming who keeps it so."""
    targets = [getattr(entry[4], "actor", entry[4]) for entry in batch]
    names = sorted({getattr(target, "name", "a timer") for target in targets})[:5]
    return LivelockError(
        f"time stands still at {now / 1e9:g} s: after {rounds} rounds {', '.join(names)} still cause more",
        hint="let them sleep between two actions (min_loop_delay), or raise execution.max_deltas",
    )
