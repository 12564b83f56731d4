"""What all pools share: lines of actors that wait, counts, and closing."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Any

import attrs

from sim.errors import ClosedError
from sim.kernel import Actor, Kernel

_MANY = 32  # registrations before stale ones are looked for

Place = tuple[float, int, Actor, int, Any, Any]
"""(priority, number, actor, token, what it needs, the wait by which it gets it); stale when the token has
changed.
"""


class Line:
    """Actors that wait, in order of arrival; those that no longer wait are skipped, never searched for.

    Attributes:
        places: always the same object.
        pop: remove and return the first place.
    """

    __slots__ = ("_arrivals", "_purge_at", "_put", "_ranked", "places", "pop")

    def __init__(self, ranked: bool = False) -> None:
        places: Any = [] if ranked else deque[Place]()
        self.places: list[Place] | deque[Place] = places
        self.pop: Callable[[], Place] = partial(heappop, places) if ranked else places.popleft
        self._put: Callable[[Place], None] = partial(heappush, places) if ranked else places.append
        self._ranked = ranked
        self._arrivals = 0
        self._purge_at = _MANY

    def add(self, actor: Actor, need: Any, wait: Any, priority: float = 0) -> None:
        """Put the actor last, or last among those of its priority if the line is ranked."""
        if len(self.places) >= self._purge_at:
            self._purge()
        self._arrivals += 1
        self._put((priority, self._arrivals, actor, actor.token, need, wait))

    def head(self) -> Place | None:
        """Return the place of the first that still waits."""
        while self.places:
            place = self.places[0]
            if place[2].token == place[3]:
                return place
            self.pop()
        return None

    def comes_first(self, priority: float) -> bool:
        """Whether someone waits who comes before a newcomer of this priority."""
        head = self.head()
        return head is not None and (not self._ranked or head[0] <= priority)

    def live(self) -> list[Place]:
        """Return the places of all that still wait; in order, unless the line is ranked."""
        return [place for place in list(self.places) if place[2].token == place[3]]  # a copy: observers ask, too

    def __len__(self) -> int:
        return len(self.live())

    def _purge(self) -> None:
        live = self.live()  # of a heap, so perhaps no heap any more
        if self._ranked:
            heapify(live)
        self.places.clear()
        self.places.extend(live)
        self._purge_at = max(_MANY, 2 * len(live))


@attrs.frozen
class PoolStatistics:
    """What a pool holds and did.

    Attributes:
        capacity: what fits.
        level: what is there to be taken.
        queue: how many wait.
        served: requests that were answered.
        waited: requests that had to wait.
    """

    capacity: float
    level: float
    queue: int
    served: int
    waited: int


class Pool(ABC):
    """The base of all pools.

    Attributes:
        capacity: what fits; infinite for no limit.
        closed: whether it was closed.
    """

    __slots__ = ("_kernel", "_lines", "_served", "_waited", "capacity", "closed")

    def __init__(self, kernel: Kernel, capacity: float, *lines: Line) -> None:
        self.capacity = capacity
        self.closed = False
        self._kernel = kernel
        self._lines = lines
        self._served = 0
        self._waited = 0

    @property
    @abstractmethod
    def level(self) -> float:
        """What is there to be taken."""

    @property
    def queue(self) -> int:
        """How many actors wait."""
        return sum(map(len, self._lines))

    def statistics(self) -> PoolStatistics:
        """Return what the pool holds and did so far."""
        return PoolStatistics(self.capacity, self.level, self.queue, self._served, self._waited)

    def state(self) -> dict[str, Any]:
        """Return what the pool holds, JSON-like."""
        return {"closed": self.closed, "level": self.level, "queue": self.queue}

    def close(self) -> None:
        """Take and hand out nothing new, and answer everyone who waits with `ClosedError`.

        What is already held may still be released, and what is left in a container or a store may still be
        taken.
        """
        self.closed = True
        waiting = list(self._waiting())
        if waiting:
            with self._kernel.one_event():
                for place in waiting:
                    self._kernel.throw(place[2], ClosedError("what was waited on has been closed"))

    @abstractmethod
    def serve(self) -> None:
        """Hand out what is free to those who wait."""

    def _waiting(self) -> Iterator[Place]:
        for line in self._lines:
            yield from sorted(line.live(), key=lambda place: place[:2])

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError(f"this {type(self).__name__.lower()} is closed")
