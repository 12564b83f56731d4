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

from bisect import bisect_left, insort
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

Entry = tuple[int, int, int, int, Any, int]
"""(time_ns, priority, source ordinal, source counter, target, token); the first four are unique and give the
order.
"""

NEVER = 2**63
"""When what is not in the list is due."""

_START_SHIFT = 27  # 0.13 s: about a hundred entries a bucket for a thousand agents that act each second
_MAX_SHIFT = 60
_IDEAL = 64  # entries in a bucket
_CROWDED = 1024
_SAMPLE = 64  # buckets looked at before deciding that they are nearly empty
_SPARSE = 4


class FutureEvents:
    """Entries in order of their key. Only entries later than those that are running may be pushed.

    Attributes:
        open: the sorted entries of the bucket whose turn it is. Its reader iterates over it while entries are pushed: a
            list's iterator sees what is inserted behind it. What has been read stays until it is cut off.
    """

    __slots__ = ("_buckets", "_opened", "_queue", "_shift", "_taken", "_turn", "_unadapted", "open")

    def __init__(self) -> None:
        self.open: list[Entry] = []
        self._buckets: dict[int, list[Entry]] = {}
        self._queue: list[int] = []  # heap of the numbers of the buckets that are not open
        self._turn = -1  # the number of the open bucket
        self._shift = _START_SHIFT
        self._opened = 0
        self._taken = 0
        self._unadapted = 0  # entries to take before the width may change again

    def __len__(self) -> int:
        return len(self.open) + sum(map(len, self._buckets.values()))

    def push(self, entry: Entry) -> None:
        """Add an entry."""
        turn = entry[0] >> self._shift
        if turn <= self._turn:
            insort(self.open, entry)
            return
        bucket = self._buckets.get(turn)
        if bucket is None:
            self._buckets[turn] = [entry]
            heappush(self._queue, turn)
        else:
            bucket.append(entry)

    def cut(self, time: int) -> int:
        """Let go of all entries up to `time` and return when the next one is due, `NEVER` if there is none."""
        entries = self.open
        if entries and entries[0][0] <= time:
            del entries[: bisect_left(entries, (time + 1,))]
        while not self.open:
            if not self._queue:
                return NEVER
            self._open_next()
        return self.open[0][0]

    def relieve(self, key: tuple[int, int, int, int]) -> None:
        """Let go of all entries before `key`; if the open bucket holds too many, make all buckets narrower."""
        del self.open[: bisect_left(self.open, key)]
        if len(self.open) > _CROWDED:
            self._adapt()

    def purge(self, time: int, alive: Callable[[Entry], bool]) -> int:
        """Drop the entries after `time` that are not alive and return how many are left.

        The open bucket is being read up to `time`, and is changed behind that only.
        """
        start = bisect_left(self.open, (time + 1,))
        self.open[start:] = [entry for entry in self.open[start:] if alive(entry)]
        filtered = {turn: [entry for entry in bucket if alive(entry)] for turn, bucket in self._buckets.items()}
        self._buckets = {turn: bucket for turn, bucket in filtered.items() if bucket}
        self._queue = list(self._buckets)
        heapify(self._queue)
        return len(self)

    def _open_next(self) -> None:
        self._turn = heappop(self._queue)
        entries = self.open = self._buckets.pop(self._turn)
        entries.sort()
        self._opened += 1
        self._taken += len(entries)
        if self._opened == _SAMPLE or len(entries) > _CROWDED:
            self._adapt()

    def _adapt(self) -> None:
        """Change the width if the open bucket is crowded, or the latest ones were nearly empty."""
        entries = self.open
        span = entries[-1][0] - entries[0][0]
        shift = self._shift
        if self._taken >= self._unadapted:
            if len(entries) > _CROWDED and span > 0:
                shift = min(shift, max(0, (span * _IDEAL // len(entries)).bit_length()))
            elif self._opened == _SAMPLE and self._taken < _SAMPLE * _SPARSE:
                shift = min(shift + 4, _MAX_SHIFT)
        if shift != self._shift:
            self._rebuild(shift)
        elif self._opened >= _SAMPLE:
            self._opened = self._taken = 0

    def _rebuild(self, shift: int) -> None:
        entries = self.open
        for bucket in self._buckets.values():
            entries.extend(bucket)
        self._unadapted = len(entries)
        self._shift = shift
        buckets: dict[int, list[Entry]] = {}
        self._buckets = buckets
        for entry in entries:
            buckets.setdefault(entry[0] >> shift, []).append(entry)
        self._queue = list(buckets)
        heapify(self._queue)
        self.open, self._turn = [], -1
        self._opened = self._taken = 0
