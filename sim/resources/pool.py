"""The base of all pools: queues of waiting actors, counts, and closing."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Any

import attrs

from sim.base.errors import ClosedError, UsageError
from sim.kernel import Actor, Kernel
from sim.kernel.codec import Json

_FEWEST_STALE = 32  # minimum number of registrations before stale ones are removed

Place = tuple[float, int, Actor, int, Any, Any]
"""(priority, arrival number, actor, token, need, wait). It is stale if the token of the actor has changed."""


def check_number(value: object, what: str) -> None:
    """Check that a value is a number, and not NaN, which has no order.

    Raises:
        UsageError: if it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        text = f"{what} must be an int or a float, not {type(value).__name__} {value!r:.60}"
        hint = "write float(...): a float counts as the decimal number that it is written as, so 0.1 is a tenth"
        raise UsageError(text, hint=hint if isinstance(value, Decimal | Fraction) else None)
    if value != value:
        raise UsageError(f"{what} must be a number, not {value!r}")


def check_priority(priority: float) -> None:
    """Raise `UsageError` unless a priority is a number, because anything else has no place in the order."""
    value: object = priority
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise UsageError(f"a priority must be a number, not {priority!r}", hint="lower numbers come first")


class Line:
    """A queue of waiting actors, in order of arrival or by priority. Stale registrations are skipped.

    Args:
        ranked: whether the order is by priority (lowest number first).

    Attributes:
        places: the registrations; always the same object.
        pop: a function that removes and returns the first registration.
        ranked: whether the order is by priority.
    """

    __slots__ = ("_arrivals", "_purge_at", "_put", "places", "pop", "ranked")

    def __init__(self, ranked: bool = False) -> None:
        places: Any = [] if ranked else deque[Place]()
        self.places: list[Place] | deque[Place] = places
        self.pop: Callable[[], Place] = partial(heappop, places) if ranked else places.popleft
        self._put: Callable[[Place], None] = partial(heappush, places) if ranked else places.append
        self.ranked = ranked
        self._arrivals = 0
        self._purge_at = _FEWEST_STALE

    def add(self, actor: Actor, need: Any, wait: Any, priority: float = 0) -> None:
        """Add the actor at the end, or at the end of its priority if the queue is ranked."""
        if len(self.places) >= self._purge_at:
            self._purge()
        self._arrivals += 1
        self._put((priority, self._arrivals, actor, actor.token, need, wait))

    def head(self) -> Place | None:
        """Return the registration of the first actor that still waits, or None."""
        while self.places:
            place = self.places[0]
            if place[2].token == place[3]:
                return place
            self.pop()
        return None

    def comes_first(self, priority: float) -> bool:
        """Return whether a waiting actor precedes a new request of this priority."""
        head = self.head()
        return head is not None and (not self.ranked or head[0] <= priority)

    def live(self) -> list[Place]:
        """Return the registrations of all actors that still wait; in order, unless the queue is ranked."""
        return [place for place in list(self.places) if place[2].token == place[3]]  # a copy: observers call this too

    def __len__(self) -> int:
        return len(self.live())

    def _purge(self) -> None:
        live = self.live()  # a part of a heap may not be a heap
        if self.ranked:
            heapify(live)
        self.places.clear()
        self.places.extend(live)
        self._purge_at = max(_FEWEST_STALE, 2 * len(live))


@attrs.frozen
class PoolStatistics:
    """The state and the counts of a pool.

    Attributes:
        capacity: the maximum amount, or the number of slots or items.
        level: the amount, or the number of slots or items, that is available.
        queue: the number of waiting actors.
        served: the number of requests that were served.
        waited: the number of requests that had to wait.
    """

    capacity: float
    level: float
    queue: int
    served: int
    waited: int


class Pool(ABC):
    """The base of all pools.

    Attributes:
        capacity: the maximum amount, or the number of slots or items; infinite for no limit.
        closed: whether the pool was closed.
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
        """The amount, or the number of slots or items, that is available."""

    @property
    def queue(self) -> int:
        """The number of waiting actors."""
        return sum(map(len, self._lines))

    def statistics(self) -> PoolStatistics:
        """Return the present state and the counts since the start."""
        return PoolStatistics(self.capacity, self.level, self.queue, self._served, self._waited)

    def state(self) -> dict[str, Json]:
        """Return the present state as JSON."""
        return {"closed": self.closed, "level": self.level, "queue": self.queue}

    def close(self) -> None:
        """Close the pool: raise `ClosedError` in all waiting actors and for new requests.

        Slots can still be released, and the content of a container or store can still be taken.
        """
        self._kernel.acting()  # first: it refuses a call from outside before anything changes
        self.closed = True
        waiting = list(self._waiting())
        if waiting:
            with self._kernel.one_event():
                for place in waiting:
                    self._kernel.throw(place[2], ClosedError("what was waited on has been closed"))

    @abstractmethod
    def serve(self) -> None:
        """Serve the waiting actors as far as possible."""

    def _waiting(self) -> Iterator[Place]:
        for line in self._lines:
            yield from sorted(line.live(), key=lambda place: place[:2])

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError(f"this {type(self).__name__.lower()} is closed")
