"""The order of what runs at one (time, delta), and the error when that never ends."""

from collections.abc import Callable, Iterator
from itertools import count, repeat
from typing import Any, Final

from sim.errors import KernelError, LivelockError
from sim.kernel.future_events import Entry, sort_entries

_MANY = 32


class WakeBatch:
    """The target of one entry that stands for many: the actors that one event wakes, in order of arrival.

    They run one after the other, as if each had an entry of its own: one source causes them all, with consecutive
    counters, so nothing can come between them.

    Attributes:
        waiting: who runs, each followed by the token under which it waited.
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

    def lose_one(self) -> None:
        """One of them waits no longer: they are looked for when they are many, unless each has its counter already."""
        self.lost += 1
        if self.lost > _MANY and 4 * self.lost > len(self.waiting) and not self.fired:
            self.purge()

    def thin_out(self) -> int:
        """Forget, of those who have not run, who does not wait any longer, and return how many are left.

        The others keep their places, and so their counters.
        """
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


def spread(batch: list[Entry]) -> list[Entry]:
    """Return the same entries with one for each actor of a crowd."""
    spread = list[Entry]()
    for entry in batch:
        crowd = entry[4]
        if crowd.__class__ is WakeBatch:
            time, priority, ordinal, first = entry[:4]
            keys = repeat(time), repeat(priority), repeat(ordinal), count(first)
            spread.extend(zip(*keys, crowd.waiting[::2], crowd.waiting[1::2]))  # noqa: B905 - the keys have no end
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
