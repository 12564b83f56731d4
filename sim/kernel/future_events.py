"""The future-event list: a calendar of buckets, each sorted when it is opened.

Prior art: Brown's calendar queue (CACM 31, 1988) and the ladder queue (Tang, Goh and Thng, 2005). Both spread
entries over buckets so that only the next few are ever sorted. Here a bucket is a Python list that is
appended to unsorted and sorted once, in C, when its turn comes; which bucket is next is known from a small
heap of bucket numbers. Against one heap of tuples this costs about two thirds at 1,000 entries and about a
third at 1,000,000, where the heap misses the cache at every level.

The width of a bucket is a power of two of nanoseconds and adapts: a bucket that holds too many different
instants makes all buckets narrower, a run of nearly empty ones makes them wider. Any width gives the same
order; only the cost changes.
"""

from bisect import insort
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import Any

from sim._speedups import core

Entry = tuple[int, int, int, int, Any, int]
"""(time_ns, priority, source ordinal, source counter, target, token); the first four are unique and give the
order.
"""

NEVER = 2**63
"""When what is not in the list is due."""

Reader: Any = iter if core is None else core.Reader
sort_entries: Callable[[list[Entry]], None] = list.sort if core is None else core.sort_entries

_START_SHIFT = 27  # 0.13 s: about a hundred entries a bucket for a thousand agents that act each second
_MAX_SHIFT = 60
_IDEAL = 256  # entries in a bucket: few enough to sort, and so many that what is appended finds its list in a cache
_CROWDED = 1024
_SAMPLE = 64  # buckets looked at before deciding that they are nearly empty
_SPARSE = 4


class FutureEvents:
    """Entries in order of their key. Only entries later than those that have been read may be pushed.

    Attributes:
        open: the sorted entries of the bucket whose turn it is.
        reader: the iterator over `open`: it sees what is pushed behind it. What it has read stays until it is let go.
        buckets: the buckets whose turn has not come, by number: always the same object.
        shift: `time >> shift` is the number of a bucket; changes only when a bucket is opened or `relieve` is called.
    """

    __slots__ = ("_opened", "_queue", "_taken", "_turn", "_unadapted", "buckets", "open", "reader", "shift")

    def __init__(self) -> None:
        self.open: list[Entry] = []
        self.reader: Any = Reader(self.open)
        self.buckets: dict[int, list[Entry]] = {}
        self._queue: list[int] = []  # heap of the numbers of the buckets that are not open
        self._turn = -1  # the number of the open bucket
        self.shift = _START_SHIFT
        self._opened = 0
        self._taken = 0
        self._unadapted = 0  # entries to take before the width may change again

    def __len__(self) -> int:
        return int(self.reader.__length_hint__()) + sum(map(len, self.buckets.values()))

    def __iter__(self) -> Iterator[Entry]:
        """Yield the entries that have not been read, in no particular order."""
        return chain(self.unread(), *self.buckets.values())

    def rewind(self) -> None:
        """Give back the entry that was read last: something comes first."""
        self.reader.__setstate__(len(self.open) - self.reader.__length_hint__() - 1)

    def push(self, entry: Entry) -> None:
        """Add an entry."""
        turn = entry[0] >> self.shift
        if turn <= self._turn:
            insort(self.open, entry)
            return
        bucket = self.buckets.get(turn)
        if bucket is None:
            self.buckets[turn] = [entry]
            heappush(self._queue, turn)
        else:
            bucket.append(entry)

    def due(self) -> int:
        """Return when the next entry is due, `NEVER` if there is none."""
        left: int = self.reader.__length_hint__()
        if not left:
            self.open = []  # an iterator that has ended stays so: what comes next needs another one
            self.reader = Reader(self.open)
            while not left:
                if not self._queue:
                    return NEVER
                self._open_next()
                left = self.reader.__length_hint__()
        return self.open[-left][0]

    def insert(self, entries: list[Entry]) -> None:
        """Put entries in front of what is read next, whatever their keys: the caller knows that they come first."""
        if not self.reader.__length_hint__():
            self.open = entries
            self.reader = Reader(entries)
        else:
            position = len(self.open) - self.reader.__length_hint__()
            self.open[position:position] = entries

    def cut(self, time: int) -> list[Entry]:
        """Take out and return what is due at `time`, before which nothing is due."""
        cut = list[Entry]()
        while self.due() == time:
            position = len(self.open) - self.reader.__length_hint__()
            cut.append(self.open.pop(position))
        return cut

    def relieve(self, now: int) -> None:
        """Let go of what has been read; if the open bucket still holds too much, make all buckets narrower.

        Not within the instant `now`: the rest of it stands in an order of its own.
        """
        left = self.reader.__length_hint__()
        read = len(self.open) - left
        crowded = left > _CROWDED and self._taken >= self._unadapted and self.open[read][0] != now
        if read >= left or crowded:  # else it would be moved again and again
            del self.open[:read]
            self.reader = Reader(self.open)
        if crowded:
            self._adapt()

    def unread(self) -> list[Entry]:
        """Return what is left of the open bucket."""
        return self.open[len(self.open) - self.reader.__length_hint__() :]

    def purge(self, alive: Callable[[Entry], bool]) -> int:
        """Drop the entries that are not alive and have not been read, and return how many are left."""
        start = len(self.open) - self.reader.__length_hint__()
        self.open[start:] = [entry for entry in self.open[start:] if alive(entry)]
        for turn, bucket in list(self.buckets.items()):
            bucket[:] = [entry for entry in bucket if alive(entry)]
            if not bucket:
                del self.buckets[turn]
        self._queue = list(self.buckets)
        heapify(self._queue)
        return len(self)

    def _open_next(self) -> None:
        self._turn = heappop(self._queue)
        entries = self.open = self.buckets.pop(self._turn)
        sort_entries(entries)
        self.reader = Reader(entries)
        self._opened += 1
        self._taken += len(entries)
        if self._opened == _SAMPLE or len(entries) > _CROWDED:
            self._adapt()

    def _adapt(self) -> None:
        """Change the width if the open bucket is crowded, or the latest ones were nearly empty."""
        entries = self.open
        span = entries[-1][0] - entries[0][0]
        shift = self.shift
        if self._taken >= self._unadapted:
            if len(entries) > _CROWDED and span > 0:
                shift = min(shift, max(0, (span * _IDEAL // len(entries)).bit_length()))
            elif self._opened == _SAMPLE and self._taken < _SAMPLE * _SPARSE:
                shift = min(shift + 4, _MAX_SHIFT)
        if shift != self.shift:
            self._rebuild(shift)
        elif self._opened >= _SAMPLE:
            self._opened = self._taken = 0

    def _rebuild(self, shift: int) -> None:
        entries = self.open
        for bucket in self.buckets.values():
            entries.extend(bucket)
        self._unadapted = len(entries)
        self.shift = shift
        buckets = self.buckets
        buckets.clear()
        for entry in entries:
            buckets.setdefault(entry[0] >> shift, []).append(entry)
        self._queue = list(buckets)
        heapify(self._queue)
        self._turn = -1
        self.open = []
        self.reader = Reader(self.open)
        self._opened = self._taken = 0
