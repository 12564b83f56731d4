"""The order of the entries of one (time, delta), and the error for a livelock."""

from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from typing import Any, Final

from sim.base.errors import KernelError, LivelockError
from sim.kernel.actor import Rank, compare
from sim.kernel.compiled import core
from sim.kernel.future_events import Entry, sort_entries

Ties = Callable[[int | Rank], int]
"""Maps the rank of a source to the key by which ties are sorted."""

MAX_DELTAS: Final = 10_000
"""The default number of rounds at one instant after which a livelock is reported."""

_FEWEST_ENDED = 32  # minimum number of ended waits before they are removed


class WakeBatch:
    """The target of one entry that wakes several actors: those that one event wakes, in their order.

    They run one after the other, as if each had its own entry with the same key. An event takes one counter of its
    source, independent of the number of actors that it wakes. The keys of later entries of the source therefore do not
    depend on the number of listeners.

    Attributes:
        waiting: the actors, each followed by the token with which it waits; in order of arrival until `sort` is called.
        value: the value that their waits return.
        fired: whether they have been woken.
        place: the number of actors that have run. Only the C loop uses it; in Python, `spread` gives each actor an
            entry.
        lost: an estimate of the number of actors that no longer wait.
        token: the token of its entry, which is never stale.
        throws: the value of `Kernel.throws` when the batch was created. If it has not changed since, all actors still
            wait.
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

    def sort(self, ties: Ties | None = None) -> None:
        """Sort the actors by rank, or by `ties(rank)`."""
        if ties is None and in_order(self.waiting):
            return
        pairs = sorted(self, key=lambda pair: _place(pair[0], ties))
        self.waiting[:] = chain.from_iterable(pairs)

    def lose_one(self) -> None:
        """Count an actor that no longer waits. Remove such actors if there are many and the batch is not yet woken."""
        self.lost += 1
        if self.lost > _FEWEST_ENDED and 4 * self.lost > len(self.waiting) and not self.fired:
            self.purge()

    def thin_out(self) -> int:
        """Drop the references to actors that no longer wait. Return the number of actors that still have to run."""
        left, waiting = 0, self.waiting
        for place in range(2 * self.place, len(waiting), 2):
            if waiting[place] is not None and waiting[place].token == waiting[place + 1]:
                left += 1
            else:
                waiting[place] = None
        return left

    def purge(self) -> None:
        """Remove the actors that no longer wait."""
        self.waiting[:] = [part for pair in self if pair[0].token == pair[1] for part in pair]
        self.lost = 0


def _place(target: Any, ties: Ties | None) -> tuple[int, int | Rank]:
    rank: int | Rank = getattr(target, "actor", target).rank  # a Throw is ordered like its actor
    return (0 if ties is None else ties(rank), rank)


def in_order(waiting: list[Any], /) -> bool:
    """Return whether a list of actors, each followed by a token, is sorted by rank."""
    ranks = [getattr(target, "actor", target).rank for target in waiting[::2]]
    return all(compare(one, other) <= 0 for one, other in pairwise(ranks))


if core is not None:
    in_order = core.in_order


def spread(batch: list[Entry], ties: Ties | None = None) -> list[Entry]:
    """Return the entries with each `WakeBatch` replaced by one entry per actor."""
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


def sort(batch: list[Entry], ties: Ties | None) -> None:
    """Sort entries of one (time, delta) by their keys.

    Args:
        batch: sorted in place.
        ties: a function that maps the rank of a source to its sort key, or None to sort by rank. The counter of the
            source is not mapped, so that entries of one source stay first-in, first-out.

    Raises:
        KernelError: if two entries have the same key.
    """
    try:
        if ties is None:
            sort_entries(batch)
        else:
            places = {rank: ties(rank) for rank in dict.fromkeys(entry[2] for entry in batch)}
            batch.sort(key=lambda entry: (entry[1], places[entry[2]], entry[2], entry[3]))
    except TypeError as error:  # if two keys are equal, the targets are compared, which is not possible
        raise KernelError(f"two wake-ups at {batch[0][0]} ns have the same order key") from error


def livelock(batch: list[Entry], now: int, rounds: int) -> LivelockError:
    """Return the error for simulated time that does not advance, with the names of the actors that cause it."""
    targets = [getattr(entry[4], "actor", entry[4]) for entry in batch]
    names = sorted({getattr(target, "name", "a timer") for target in targets})[:5]
    return LivelockError(
        f"simulated time is stuck at {now / 1e9:g} s: after {rounds} rounds, {', '.join(names)} still cause more",
        hint="let them sleep between two actions (min_loop_delay), or raise execution.max_deltas",
    )
