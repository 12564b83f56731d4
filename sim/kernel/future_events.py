"""The future-event list: a calendar of buckets, each sorted when it is opened.

The design follows the calendar queue (Brown, CACM 31, 1988) and the ladder queue (Tang, Goh and Thng, 2005). Both
distribute the entries over buckets, so that only the next few entries have to be sorted. Here a bucket is an unsorted
Python list. It is sorted once, in C, when it is opened. A small heap of bucket numbers gives the next bucket. Compared
with one heap of tuples, the cost is about two thirds with 1,000 entries, and about one third with 1,000,000 entries,
where the heap has a cache miss at each level.

The width of a bucket is 2**shift nanoseconds. It adapts: a bucket with too many different instants makes all buckets
narrower, and a sequence of nearly empty buckets makes them wider. The width changes the cost, but not the order.
"""

from bisect import insort
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import Any

from sim.kernel.actor import Rank
from sim.kernel.compiled import core

Entry = tuple[int, int, int | Rank, int, Any, int]
"""(time_ns, priority, source rank, source counter, target, token). The first four are unique and give the order."""

NEVER = 2**63
"""The due time that an empty list reports."""

Reader: Any = iter if core is None else core.Reader
sort_entries: Callable[[list[Entry]], None] = list.sort if core is None else core.sort_entries

_START_SHIFT = 27  # 0.13 s: about 100 entries per bucket with 1,000 agents that act once per second
_MAX_SHIFT = 60
_IDEAL = 256  # entries per bucket: few enough to sort fast, and enough that the lists in use fit into the CPU cache
_CROWDED = 1024  # entries per bucket above which buckets become narrower
_SAMPLE = 64  # buckets that are opened before the decision that they are nearly empty
_SPARSE = 4  # mean entries per bucket below which buckets become wider


class FutureEvents:
    """Entries in order of their key. An entry can be pushed only if its key is above all keys that were read.

    Attributes:
        open: the sorted entries of the open bucket, including those that were read since the last `relieve`.
        reader: the iterator over `open`. It also returns entries that are inserted after its position.
        buckets: the buckets that are not open yet, by number; always the same dict.
        shift: `time >> shift` is the number of a bucket. Only opening a bucket, or `relieve`, changes it.
    """

    __slots__ = ("_opened", "_queue", "_taken", "_turn", "_unadapted", "buckets", "open", "reader", "shift")

    def __init__(self) -> None:
        self.open: list[Entry] = []
        self.reader: Any = Reader(self.open)
        self.buckets: dict[int, list[Entry]] = {}
        self._queue: list[int] = []  # heap of the numbers in `buckets`
        self._turn = -1  # the number of the open bucket
        self.shift = _START_SHIFT
        self._opened = 0
        self._taken = 0
        self._unadapted = 0  # number of entries to take before the width may change again

    def __len__(self) -> int:
        return int(self.reader.__length_hint__()) + sum(map(len, self.buckets.values()))

    def __iter__(self) -> Iterator[Entry]:
        """Yield the entries that have not been read, in no particular order."""
        return chain(self.unread(), *self.buckets.values())

    def rewind(self) -> None:
        """Move the reader back by one entry."""
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
        """Return the time of the next entry (nanoseconds), or `NEVER` if there is none."""
        left: int = self.reader.__length_hint__()
        if not left:
            self.open = []  # an exhausted iterator stays exhausted, so that a new one is necessary
            self.reader = Reader(self.open)
            while not left:
                if not self._queue:
                    return NEVER
                self._open_next()
                left = self.reader.__length_hint__()
        return self.open[-left][0]

    def insert(self, entries: list[Entry]) -> None:
        """Insert entries at the position of the reader. The caller guarantees that they precede all others."""
        if not self.reader.__length_hint__():
            self.open = entries
            self.reader = Reader(entries)
        else:
            position = len(self.open) - self.reader.__length_hint__()
            self.open[position:position] = entries

    def cut(self, time: int) -> list[Entry]:
        """Remove and return the entries that are due at `time`. No entry may be due earlier."""
        cut = list[Entry]()
        while self.due() == time:
            position = len(self.open) - self.reader.__length_hint__()
            cut.append(self.open.pop(position))
        return cut

    def relieve(self, now: int) -> None:
        """Release the entries that were read. If the open bucket is still too large, make all buckets narrower.

        The buckets are not changed within the instant `now`, because its remaining entries may not be in key order.
        """
        left = self.reader.__length_hint__()
        read = len(self.open) - left
        crowded = left > _CROWDED and self._taken >= self._unadapted and self.open[read][0] != now
        if read >= left or crowded:  # else the same entries would be moved many times
            del self.open[:read]
            self.reader = Reader(self.open)
        if crowded:
            self._adapt()

    def unread(self) -> list[Entry]:
        """Return the entries of the open bucket that have not been read."""
        return self.open[len(self.open) - self.reader.__length_hint__() :]

    def purge(self, alive: Callable[[Entry], bool]) -> int:
        """Remove the unread entries that are not alive. Return the number of entries that are left."""
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
        """Change the width if the open bucket is crowded, or if the latest buckets were nearly empty."""
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
