"""Rolling windows: the consumption of the recent past, and the times at which capacity returns.

A unit that is consumed at time t counts until t + span (exclusive). Units of one instant are merged into one entry, and
expired entries are removed at the next access. A window therefore has at most one entry per instant. The implementation
is a sliding log. A leaky bucket or two fixed windows, as in aiolimiter and most gateways, are only approximations: with
a sliding log no actor is admitted too early, and none waits too long.
"""

from collections import deque
from typing import TYPE_CHECKING

import attrs

from sim.base.errors import UsageError

if TYPE_CHECKING:
    from sim.resources.capacity import Capacity, CapacityWatch

QUEUE_PURGE = 32  # minimum number of registrations before stale ones are removed
_HOLES = 32  # minimum number of entries that were given back before they are removed


def _require_amount(instance: object, attribute: "attrs.Attribute[int]", value: int) -> None:
    check_amount(value)


def _require_span(instance: object, attribute: "attrs.Attribute[int]", value: int) -> None:
    if value.__class__ is not int or value <= 0:
        raise UsageError(f"a window must be a whole number of nanoseconds above 0, not {value!r}")


def check_amount(amount: int) -> None:
    """Check that an amount is a whole number from 0.

    Raises:
        UsageError: if it is not.
    """
    if amount.__class__ is not int or amount < 0:
        raise UsageError(f"an amount must be a whole number from 0, not {amount!r}")


@attrs.frozen
class Rate:
    """At most `amount` units within any `window_ns` nanoseconds."""

    amount: int = attrs.field(validator=_require_amount)
    window_ns: int = attrs.field(validator=_require_span)


Entry = list[int]
"""[time_ns, amount]: the units that were consumed at one instant. The amount is 0 after it has expired.

By far the most frequent entry is a single unit that cannot be given back. A window stores only its time (an int),
because a list takes four times the memory, is tracked by the garbage collector, and is out of the CPU cache when it
expires.
"""


class Window:
    """The rolling window of one scope (an agent, a group, or all) and one resource.

    Attributes:
        resource: the name of the resource.
        limit: the number of units that fit.
        span: the length of the window in nanoseconds.
        used: the number of units that counted at the last access. At least the number that counts now.
        entries: the consumption, in order of time; None if it is empty.
        queue: the waits for room, in order of arrival, with the amount needed; None if there are none.
        purge_at: the length of the queue at which inactive waits are removed.
        largest: the largest amount needed since the queue was last empty.
        watches: the watches of this window, by arrival.
        due: the time (nanoseconds) at which the first blocked wait will fit, or None if no wait is blocked.
    """

    __slots__ = ("due", "entries", "largest", "limit", "purge_at", "queue", "resource", "span", "used", "watches")

    def __init__(self, rate: Rate, resource: str = "") -> None:
        self.resource = resource
        self.limit = rate.amount
        self.span = rate.window_ns
        self.used = 0
        self.entries: deque[Entry | int] | None = None  # created on first use: an empty deque takes 760 bytes
        self.queue: deque[tuple[Capacity, int]] | None = None
        self.largest = 0
        self.purge_at = QUEUE_PURGE
        self.watches: dict[int, CapacityWatch] | None = None
        self.due: int | None = None

    def set_rate(self, rate: Rate | None) -> None:
        """Set the limit. None changes nothing, so that earlier consumption counts if there is a limit again later."""
        if rate is not None:
            self.limit, self.span = rate.amount, rate.window_ns

    def room(self, now: int) -> int:
        """Return the number of units that fit now; negative after an overspend."""
        entries = self.entries
        if entries:
            edge = now - self.span
            while entries:
                entry = entries[0]
                if isinstance(entry, int):
                    if entry > edge:
                        break
                    self.used -= 1
                else:
                    if entry[0] > edge:
                        break
                    self.used -= entry[1]
                    entry[1] = 0
                entries.popleft()
        return self.limit - self.used

    def count(self, now: int) -> int:
        """Return the number of units that count now. This changes nothing, so that any thread can call it in a run."""
        used, edge = self.used, now - self.span
        for entry in list(self.entries or ()):
            time, amount = _parts(entry)
            if time > edge:
                break
            used -= amount
        return max(0, used)

    def add(self, amount: int, now: int) -> Entry:
        """Consume `amount` now. Return the entry that contains it."""
        self.used += amount
        if self.entries is None:
            self.entries = deque()
        entry = [now, 0]
        if self.entries and _parts(self.entries[-1])[0] == now:
            entry = _parts(self.entries.pop())
        entry[1] += amount
        self.entries.append(entry)
        return entry

    def take_one(self, now: int) -> None:
        """Consume one unit that cannot be given back: the hot path of `add`."""
        entries = self.entries
        if entries is None:
            entries = self.entries = deque()
        elif entries:
            last = entries[-1]
            if (last if isinstance(last, int) else last[0]) == now:
                self.add(1, now)
                return
        self.used += 1
        entries.append(now)

    def give_back(self, entry: Entry, amount: int, now: int) -> None:
        """Give back a part of an entry. No-op if the entry has expired, because its units are free already."""
        self.room(now)
        if entry[1] < amount or self.entries is None:
            return
        entry[1] -= amount
        self.used -= amount
        if len(self.entries) > 2 * self.used + _HOLES:
            self.entries = deque(entry for entry in self.entries if _parts(entry)[1])

    def clear(self) -> None:
        """Remove all entries, so that no earlier consumption counts."""
        for entry in self.entries or ():
            if not isinstance(entry, int):
                entry[1] = 0
        self.entries = None
        self.used = 0

    def delay(self, amount: int, now: int) -> int | None:
        """Return the delay in nanoseconds until `amount` fits if nothing else is consumed. 0: now, None: never."""
        lacking = amount - self.room(now)
        if lacking <= 0:
            return 0
        if amount > self.limit or not self.entries:
            return None
        for time, count in map(_parts, self.entries):
            lacking -= count
            if lacking <= 0:
                return time + self.span - now
        raise AssertionError("`used` is not the sum of the entries")

    def idle(self, now: int) -> bool:
        """Return whether no unit counts and no actor waits, so that the window can be removed."""
        return self.room(now) == self.limit and not self.queue and not self.watches


def _parts(entry: Entry | int) -> Entry:
    return [entry, 1] if isinstance(entry, int) else entry


Need = tuple[Window, int]
"""A window, and the number of units that must fit into it."""


def time_until(needs: tuple[Need, ...], now: int) -> int | None:
    """Return the time in nanoseconds until all needs fit if nothing else is consumed. 0: now, None: never."""
    longest = 0
    for window, need in needs:
        delay = window.delay(need, now)
        if delay is None:
            return None
        longest = max(longest, delay)
    return longest


class Reservation:
    """Consumed units that can be settled or released once.

    Attributes:
        agent_id: the agent that consumed them.
        costs: the units by resource.
        open: whether it can still be settled or released.
        parts: the affected windows, each with the entry and the number of units.
    """

    __slots__ = ("agent_id", "costs", "open", "parts")

    def __init__(self, agent_id: str, costs: dict[str, int], needs: tuple[Need, ...], now: int) -> None:
        self.agent_id = agent_id
        self.costs = costs
        self.open = True
        self.parts = [(window, window.add(amount, now), amount) for window, amount in needs if amount]

    def __repr__(self) -> str:
        return f"<Reservation {self.agent_id} {self.costs} {'open' if self.open else 'closed'}>"

    def give_back(self, now: int, keep: int = 0) -> list[Window]:
        """Close the reservation, keep `keep` units and give back the others. Return the affected windows."""
        self.open = False
        for window, entry, amount in self.parts:
            if amount > keep:
                window.give_back(entry, amount - keep, now)
        return [window for window, _, _ in self.parts]
