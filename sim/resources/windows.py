"""Rolling windows: how much was consumed lately, and when how much of it will be free again.

What is consumed at time t counts until exactly t + span: at t + span it is free. Amounts of one instant are
merged, what has left the window is dropped when somebody looks, so a window holds at most one entry for each
instant at which something was consumed that still counts. A sliding log was chosen over a leaky bucket or two
fixed windows (what aiolimiter and most gateways do) because only the log is exact: nobody is let through
early, nobody waits too long.
"""

from collections import deque
from typing import TYPE_CHECKING

import attrs

from sim.errors import UsageError

if TYPE_CHECKING:
    from sim.resources.capacity import Capacity, Watch

QUEUE_PURGE = 32  # registrations before stale ones are looked for
_HOLES = 32  # entries that were given back before they are looked for


def _is_amount(instance: object, attribute: "attrs.Attribute[int]", value: int) -> None:
    check_amount(value)


def _is_span(instance: object, attribute: "attrs.Attribute[int]", value: int) -> None:
    if value.__class__ is not int or value <= 0:
        raise UsageError(f"a window must be a whole number of nanoseconds above 0, not {value!r}")


def check_amount(amount: int) -> None:
    """Refuse an amount that is no whole number from 0.

    Raises:
        UsageError: if it is not.
    """
    if amount.__class__ is not int or amount < 0:
        raise UsageError(f"an amount must be a whole number from 0, not {amount!r}")


@attrs.frozen
class Rate:
    """At most `amount` units within any `window_ns` nanoseconds."""

    amount: int = attrs.field(validator=_is_amount)
    window_ns: int = attrs.field(validator=_is_span)


Entry = list[int]
"""[time_ns, amount]: what was consumed at one instant; the amount is 0 once it no longer counts.

In a window, a single unit that nobody can give back is only its time: it is by far the most frequent, and a list takes
four times as much memory, which by the time that it leaves the window is in no cache, and is known to the collector.
"""


class Window:
    """The rolling window of one scope (an agent, a group, or all) and one resource.

    Attributes:
        resource: its name.
        limit: units that fit.
        span: nanoseconds that they count.
        used: units that counted when somebody last looked: never less than what counts now.
        queue: who waits for room here, in order of arrival, with the amount needed; None while nobody does.
        purge_at: the length of the queue at which those who left are removed.
        largest: the largest amount needed by anyone in the queue since it was empty.
        watches: who is told about a level, by arrival.
        due: when the first who is blocked here will fit, or None if nobody is blocked.
    """

    __slots__ = ("due", "entries", "largest", "limit", "purge_at", "queue", "resource", "span", "used", "watches")

    def __init__(self, rate: Rate, resource: str = "") -> None:
        self.resource = resource
        self.limit = rate.amount
        self.span = rate.window_ns
        self.used = 0
        self.entries: deque[Entry | int] | None = None  # made when first needed: an empty deque takes 760 bytes
        self.queue: deque[tuple[Capacity, int]] | None = None
        self.largest = 0
        self.purge_at = QUEUE_PURGE
        self.watches: dict[int, Watch] | None = None
        self.due: int | None = None

    def set_rate(self, rate: Rate | None) -> None:
        """Set the limit; None keeps the window as it is: should there be a limit again, the past still counts."""
        if rate is not None:
            self.limit, self.span = rate.amount, rate.window_ns

    def room(self, now: int) -> int:
        """Return how many units fit now; negative after an overspend."""
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
        """Return how many units count now. Changes nothing, so that any thread may ask while a run is under way."""
        used, edge = self.used, now - self.span
        for entry in list(self.entries or ()):
            time, amount = _parts(entry)
            if time > edge:
                break
            used -= amount
        return max(0, used)

    def add(self, amount: int, now: int) -> Entry:
        """Consume `amount` now and return the entry that it is part of."""
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
        """Consume one unit now, for good: the hot path of `add`."""
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
        """Undo a part of what was consumed; what no longer counts cannot come back a second time."""
        self.room(now)
        if entry[1] < amount or self.entries is None:
            return
        entry[1] -= amount
        self.used -= amount
        if len(self.entries) > 2 * self.used + _HOLES:
            self.entries = deque(entry for entry in self.entries if _parts(entry)[1])

    def clear(self) -> None:
        """Let nothing that was consumed count any more."""
        for entry in self.entries or ():
            if not isinstance(entry, int):
                entry[1] = 0
        self.entries = None
        self.used = 0

    def when(self, amount: int, now: int) -> int | None:
        """Return in how many nanoseconds `amount` fits if nothing else happens: 0 for now, None for never."""
        lacking = amount - self.room(now)
        if lacking <= 0:
            return 0
        if amount > self.limit or not self.entries:
            return None
        for time, count in map(_parts, self.entries):
            lacking -= count
            if lacking <= 0:
                return time + self.span - now
        raise AssertionError("what was used is the sum of the entries")

    def idle(self, now: int) -> bool:
        """Whether nothing counts and nobody waits, so that the window may be dropped."""
        return self.room(now) == self.limit and not self.queue and not self.watches


def _parts(entry: Entry | int) -> Entry:
    return [entry, 1] if isinstance(entry, int) else entry


Need = tuple[Window, int]
"""A window, and how many units must fit into it."""


def time_until(needs: tuple[Need, ...], now: int) -> int | None:
    """Return in how many nanoseconds all needs fit if nothing else happens: 0 for now, None for never."""
    longest = 0
    for window, need in needs:
        span = window.when(need, now)
        if span is None:
            return None
        longest = max(longest, span)
    return longest


class Reservation:
    """Units that were taken and may still be settled or released, once.

    Attributes:
        agent_id: who took them.
        costs: units by resource.
        open: whether it may still be settled or released.
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
        """Close the reservation, keep `keep` units, and return the windows that have more room now."""
        self.open = False
        for window, entry, amount in self.parts:
            if amount > keep:
                window.give_back(entry, amount - keep, now)
        return [window for window, _, _ in self.parts]
