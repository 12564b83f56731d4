"""Office hours: the time of the week in which a simulated person works."""

import re
from typing import Any, Final, Literal, Protocol, get_args

import attrs

from sim.base.errors import UsageError
from sim.kernel.duration import NS

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]

_HOUR = 3600 * NS
_DAYS: Final[tuple[Day, ...]] = get_args(Day)
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)|24:00")


class CivilTime(Protocol):
    """The part of a calendar that office hours need."""

    def at(self, time_ns: int, /) -> Any:
        """Return the civil time at a simulated time (nanoseconds), as a datetime."""

    def time_of(self, civil: Any, /) -> int:
        """Return the simulated time (nanoseconds) of a civil time without a zone."""


@attrs.frozen
class OfficeHours:
    """The hours of the week in which a person decides, in the civil time of the scenario's calendar.

    Args:
        days: the days of the week: mon, tue, wed, thu, fri, sat, sun.
        start: the time of day at which work begins, such as `09:00`.
        end: the time of day at which it ends, such as `17:00`, later on the same day; `24:00` is midnight.
    """

    days: tuple[Day, ...] = _DAYS[:5]
    start: str = "09:00"
    end: str = "17:00"

    def __attrs_post_init__(self) -> None:
        if not self.days:
            raise UsageError("office hours need at least one day of the week")
        if _minutes(self.start) >= _minutes(self.end):
            raise UsageError(f"office hours must end later on the day than they begin, not {self.start} to {self.end}")

    def after_work(self, calendar: CivilTime, since_ns: int, work_ns: int, limit_ns: int) -> int:
        """Return when a piece of work is done that is worked on in office hours only.

        Args:
            calendar: the civil time of the run.
            since_ns: from when on it can be worked on, in simulated nanoseconds.
            work_ns: how long it takes, in nanoseconds.
            limit_ns: the time from which on the answer does not matter; the result is then `limit_ns`.
        """
        left = work_ns
        midnight = calendar.at(since_ns).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
        while (day_ns := calendar.time_of(midnight)) < limit_ns:
            following = calendar.at(day_ns + 26 * _HOUR)  # a day has at most 25 hours, and at least 23
            following = following.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
            if _DAYS[midnight.weekday()] in self.days:
                opens = max(since_ns, _time_on(calendar, midnight, self.start, following))
                closes = _time_on(calendar, midnight, self.end, following)
                if opens < closes and opens + left <= closes:
                    return min(opens + left, limit_ns)
                left -= max(0, closes - opens)
            midnight = following
        return limit_ns


def _minutes(text: str) -> int:
    """Return the minutes from midnight to a time of day.

    Raises:
        UsageError: if the text is not a time of day.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise UsageError(f"{text[:40]!r} is not a time of day", hint="write hours and minutes, such as 09:00")
    return 24 * 60 if match[1] is None else int(match[1]) * 60 + int(match[2])


def _time_on(calendar: CivilTime, midnight: Any, text: str, following: Any) -> int:
    """Return the simulated time of a time of day on the day of `midnight`; `following` is the next midnight."""
    hour, minute = divmod(_minutes(text), 60)
    return calendar.time_of(following if hour == 24 else midnight.replace(hour=hour, minute=minute))
