"""Plans: what a model writes as the plan of a day, an hour or minutes, and which item of it counts at a time."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from sim.kernel.codec import Record
from sim.kinds.town.routine import PLACES

HOME: Final = "home"
NAMES: Final = (HOME, *PLACES)
"""The places that a plan can name."""

_DAY = 24 * 60
_TIME = r"(\d{1,2})[:.h](\d{2})\s*(?:([ap]\.?m)\b\.?)?"
_LINE = re.compile(
    rf"^\W*(?:\d{{1,2}}[.)]\s+)?{_TIME}(?:\s*(?:-|\u2013|to|until)\s*{_TIME})?\s*[-\u2013:.,)|]*\s*(?=.*[^\W\d_])(\S.*)$",
    re.IGNORECASE,
)
_PLACE = re.compile(rf"\b({'|'.join(NAMES)})\b", re.IGNORECASE)
_MOST = 40  # items of a plan
_LONGEST = 200  # characters of an item


class Item(Record, frozen=True):
    """One item of a plan: its beginning and its end (None: the next item) in minutes of the day, what, and where.

    A `place` of None is the place where the resident usually is.
    """

    start: int
    end: int | None
    what: str
    place: str | None

    def line(self) -> str:
        """Return the item as a line, which `read_plan` reads."""
        until = "" if self.end is None else f"-{shown(self.end)}"
        return f"{shown(self.start)}{until} {self.what}"


def shown(minute: int) -> str:
    """Return a minute of the day as a time such as 17:05."""
    return f"{minute // 60:02}:{minute % 60:02}"


def place_in(text: str) -> str | None:
    """Return the last place that a text names, because what is done comes before where; None if it names none."""
    places = _PLACE.findall(text)
    return places[-1].lower() if places else None


class DayPlan(Record, frozen=True):
    """A plan: its items in the order of their beginnings, and how many lines of its text are not among them.

    Those that are `unreadable` have no readable time or no words; those that are `surplus` come after the 40th item.
    """

    items: list[Item]
    unreadable: int
    surplus: int


def read_plan(text: str) -> DayPlan:
    """Return the plan that a text has.

    Args:
        text: the answer of a model: a line for each item, such as `12:00 has lunch at the cafe` or `17:00-19:00 ...`.
    """
    items: list[Item] = []
    unreadable = surplus = 0
    for line in text.splitlines():
        if not line.strip():
            continue
        match = _LINE.match(line)
        start = None if match is None else _minute(*match.group(1, 2, 3))
        if match is None or start is None:
            unreadable += 1
            continue
        if len(items) == _MOST:
            surplus += 1
            continue
        end = _minute(*match.group(4, 5, 6)) if match[4] else None
        what = " ".join(match[7].split())[:_LONGEST]
        items.append(
            Item(start=start, end=end if end is None or end > start else None, what=what, place=place_in(what))
        )
    return DayPlan(items=sorted(items, key=lambda item: item.start), unreadable=unreadable, surplus=surplus)


def _minute(hour: str, minute: str, half: str | None) -> int | None:
    hours = int(hour)
    if half and 1 <= hours <= 12:
        hours = hours % 12 + (12 if half[0] in "pP" else 0)
    minutes = hours * 60 + int(minute)
    return minutes if int(minute) < 60 and minutes < _DAY else None


def item_at(items: Sequence[Item], minute: int) -> Item | None:
    """Return the item that counts at a minute of the day: the latest with an end, else the latest that has begun."""
    begun = [item for item in items if item.start <= minute]
    within = [item for item in begun if item.end is not None and minute < item.end]
    without = [item for item in begun if item.end is None]
    candidates = within or without
    return candidates[-1] if candidates else None


def lines(items: Iterable[Item]) -> list[str]:
    """Return a plan as lines."""
    return [item.line() for item in items]
