"""Time frames: which span of simulated time words such as `last_week` mean."""

import re
from collections.abc import Callable
from typing import Any, Final, Protocol

from sim.base.errors import UsageError
from sim.memory.settings import DAY_NS

TimeFrame = tuple[int, int]
"""Simulated nanoseconds: from the first, before the second."""

ReadTimeFrame = Callable[[str, int], TimeFrame]
"""Returns the time frame that words mean at a simulated time (nanoseconds).

It must know `today`, `last_week` and `last_month`, and can know dates. It raises `UsageError` for other words.
"""


class CivilTime(Protocol):
    """The part of a calendar that time frames need. Its civil times are `datetime` objects."""

    def at(self, time_ns: int, /) -> Any:
        """Return the civil time at a simulated time (nanoseconds)."""

    def time_of(self, civil: Any, /) -> int:
        """Return the simulated time (nanoseconds) of a civil time without a zone."""


WEEK_NS: Final = 7 * DAY_NS
MONTH_NS: Final = 30 * DAY_NS

_DATES = re.compile(r"(\d{4}-\d\d-\d\d)(?:\.\.(\d{4}-\d\d-\d\d))?", re.ASCII)


def simulated_time_frame(words: str, now_ns: int) -> TimeFrame:
    """Return a time frame for a world without a calendar, where a day begins every 24 hours from the start of the run.

    `today` is the present day so far, `last_week` the seven days and `last_month` the thirty days up to now.

    Raises:
        UsageError: if it is another word, or a date.
    """
    begins = {"today": now_ns // DAY_NS * DAY_NS, "last_week": now_ns - WEEK_NS, "last_month": now_ns - MONTH_NS}
    if words not in begins:
        raise UsageError(
            f"{words!r:.60} is not a time frame of this world",
            hint=f"use one of {', '.join(begins)}, or, in a world with a calendar, a date such as 2026-03-02",
        )
    return max(begins[words], 0), now_ns + 1


def civil_time_frame(calendar: CivilTime) -> ReadTimeFrame:
    """Return what reads time frames in a world with a calendar.

    `today` begins at midnight; `last_week` and `last_month` are as in `simulated_time_frame`. A date such as
    `2026-03-02` is that day, and `2026-03-02..2026-03-06` is both days and what is between them.

    Args:
        calendar: the calendar of the world.
    """

    def read(words: str, now_ns: int) -> TimeFrame:
        now = calendar.at(now_ns)
        if words == "today":
            return calendar.time_of(now.fromordinal(now.toordinal())), now_ns + 1
        dates = _DATES.fullmatch(words)
        if dates is None:
            return simulated_time_frame(words, now_ns)
        try:
            first, last = (now.fromisoformat(text) for text in (dates[1], dates[2] or dates[1]))
            begin, end = calendar.time_of(first), calendar.time_of(now.fromordinal(last.toordinal() + 1))
        except (ValueError, OverflowError):
            raise UsageError(f"{words!r:.60} is not a date", hint="write year, month and day: 2026-03-02") from None
        if end <= begin:
            raise UsageError(f"the time frame {words!r:.60} ends before it begins", hint="write the earlier date first")
        return begin, end

    return read
