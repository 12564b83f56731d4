"""Civil time: what simulated time is called in a time zone, and schedules of civil time.

The time of a run stays nanoseconds from its start. A calendar gives these a date and a time of day. Time zones come
from `zones.zip`, which each version of `sim` brings, never from the machine, so that a run is the same everywhere.
`docs/time_zones.py` makes the archive from the package `tzdata`.

A civil time that a change to daylight saving skips stands for the same span after the change: 02:30 becomes 03:30. A
civil time that occurs twice stands for its first occurrence.
"""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from importlib.resources import files
from io import BytesIO
from itertools import count
from typing import Protocol
from zipfile import ZipFile
from zoneinfo import ZoneInfo

import attrs
from cronsim import CronSim, CronSimError

from sim.base.errors import UsageError
from sim.kernel.duration import MAX_NS, NS, to_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")
_FIRST_YEAR, _LAST_YEAR = 1900, 2400  # a run of any length stays within the years that datetime knows


class Calendar:
    """The civil time of a run.

    Args:
        start: the civil time at which simulated time is 0, without a time zone, in whole seconds.
        zone: the name of a time zone, such as `America/Chicago`.

    Raises:
        UsageError: if there is no such zone, or `start` is not a civil time that exists in it.
    """

    def __init__(self, start: datetime, zone: str = "UTC") -> None:
        self.start = start
        self.zone = zone
        self._zone = _zone(zone)
        if start.tzinfo is not None or start.microsecond or not _FIRST_YEAR <= start.year <= _LAST_YEAR:
            raise UsageError(
                f"a calendar cannot start at {start.isoformat()}",
                hint=f"write a date and a time in {_FIRST_YEAR} to {_LAST_YEAR}, such as 2026-03-02T08:00",
            )
        self._start_ns = _since_epoch(start.replace(tzinfo=self._zone))
        if self.at(0).replace(tzinfo=None) != start:
            raise UsageError(
                f"the time {start.isoformat()} does not exist in {zone}: daylight saving begins then",
                hint=f"start at {self.at(0).replace(tzinfo=None).isoformat()}",
            )

    @classmethod
    def parse(cls, start: str, zone: str = "UTC") -> "Calendar":
        """Return the calendar that begins at a text such as `2026-03-02T08:00`.

        Raises:
            UsageError: if the text is not a date with a time of day, or as `Calendar` raises it.
        """
        try:
            civil = datetime.fromisoformat(start)
        except ValueError:
            civil = None
        if civil is None or len(start) < len("2026-03-02T08:00"):
            raise UsageError(
                f"{start[:40]!r} is not a date with a time of day",
                hint="write such as 2026-03-02T08:00, without a zone",
            )
        return cls(civil, zone)

    def at(self, time_ns: int) -> datetime:
        """Return the civil time at a simulated time (nanoseconds), cut to microseconds, with its zone."""
        seconds, rest = divmod(self._start_ns + time_ns, NS)
        return (_EPOCH + timedelta(seconds=seconds, microseconds=rest // 1000)).astimezone(self._zone)

    def time_of(self, civil: datetime) -> int:
        """Return the simulated time (nanoseconds) of a civil time without a zone; negative before the start."""
        return _since_epoch(civil.replace(tzinfo=self._zone, fold=0)) - self._start_ns

    def time_of_aware(self, civil: datetime) -> int:
        """Return the simulated time (nanoseconds) of a civil time with its zone."""
        return _since_epoch(civil) - self._start_ns

    def hour(self, time_ns: int) -> int:
        """Return the hour of the day, 0 to 23, at a simulated time."""
        return self.at(time_ns).hour

    def weekday(self, time_ns: int) -> int:
        """Return the day of the week, 0 (Monday) to 6 (Sunday), at a simulated time."""
        return self.at(time_ns).weekday()

    def date(self, time_ns: int) -> str:
        """Return the date at a simulated time, such as `2026-03-02`."""
        return self.at(time_ns).date().isoformat()


def read_schedule(daily: str | None, cron: str | None) -> "Schedule":
    """Return the schedule of a time of day or of a cron expression; exactly one must be given.

    Raises:
        UsageError: if it is not valid.
    """
    if daily is not None:
        return Daily.parse(daily)
    return Cron(cron or "")


class Schedule(Protocol):
    """Says when something happens that repeats."""

    def after(self, time_ns: int, calendar: Calendar) -> int | None:
        """Return the next simulated time (nanoseconds) later than `time_ns`, or None if there is none."""


@attrs.frozen
class Every:
    """A schedule with a fixed period of simulated time, which daylight saving does not change.

    Args:
        period_ns: nanoseconds from one time to the next, above 0.
        first_ns: the first time.

    Raises:
        UsageError: if a number is out of range.
    """

    period_ns: int
    first_ns: int = 0

    def __attrs_post_init__(self) -> None:
        if self.period_ns <= 0 or self.first_ns < 0:
            raise UsageError(f"a period must be above 0, and begin at 0 or later, not {to_text(self.period_ns)}")

    def after(self, time_ns: int, calendar: Calendar) -> int | None:
        """See `Schedule.after`."""
        if time_ns < self.first_ns:
            return self.first_ns
        return self.first_ns + ((time_ns - self.first_ns) // self.period_ns + 1) * self.period_ns


@attrs.frozen
class Daily:
    """A schedule with one time on each date.

    Args:
        at: the civil time of day, in whole seconds.
    """

    at: time

    @classmethod
    def parse(cls, text: str) -> "Daily":
        """Return the schedule for a text such as `02:00` or `17:45:30`.

        Raises:
            UsageError: if the text is not a time of day.
        """
        match = _TIME.fullmatch(text)
        if match is None:
            raise UsageError(f"{text[:40]!r} is not a time of day", hint="write hours and minutes, such as 02:00")
        return cls(time(int(match[1]), int(match[2]), int(match[3] or 0)))

    def after(self, time_ns: int, calendar: Calendar) -> int | None:
        """See `Schedule.after`."""
        first = calendar.at(time_ns).date() - _DAY  # a time that was skipped may belong to the date before
        return next(moment for day in _dates(first) if (moment := self._on(day, calendar)) > time_ns)

    def _on(self, day: date, calendar: Calendar) -> int:
        return calendar.time_of(datetime.combine(day, self.at))


@attrs.frozen
class Cron:
    """A schedule given by a cron expression, in civil time. Daylight saving is treated as Debian's cron treats it.

    Args:
        expression: five fields (minute, hour, day, month, weekday), or six with seconds first.

    Raises:
        UsageError: if the expression is not valid.
    """

    expression: str = attrs.field()

    @expression.validator
    def _check(self, _: object, expression: str) -> None:
        try:
            CronSim(expression, _EPOCH)
        except CronSimError as error:
            raise UsageError(
                f"{expression[:80]!r} is not a cron expression: {error}",
                hint="write minute, hour, day, month and weekday, such as `0 8 * * MON-FRI`",
            ) from None

    def after(self, time_ns: int, calendar: Calendar) -> int | None:
        """See `Schedule.after`; None also if no date within fifty years matches, such as 30 February."""
        following = next(CronSim(self.expression, calendar.at(time_ns)), None)
        return None if following is None else calendar.time_of_aware(following)


def times(schedule: Schedule, calendar: Calendar, until_ns: int = MAX_NS) -> Iterator[int]:
    """Yield the simulated times of a schedule from 0 on and before `until_ns` (nanoseconds)."""
    due = schedule.after(-1, calendar)
    while due is not None and due < until_ns:
        yield due
        due = schedule.after(due, calendar)


def _dates(first: date) -> Iterator[date]:
    return (first + timedelta(days=number) for number in count())


def _since_epoch(civil: datetime) -> int:
    span = civil.astimezone(UTC) - _EPOCH
    return (span.days * 86_400 + span.seconds) * NS + span.microseconds * 1000


@cache
def _zone(name: str) -> ZoneInfo:
    with files("sim.kernel").joinpath("zones.zip").open("rb") as file, ZipFile(file) as archive:
        names = archive.namelist()
        if name not in names:
            near = [zone for zone in names if zone.rpartition("/")[2].lower() == name.rpartition("/")[2].lower()]
            hint = f"did you mean {near[0]!r}?" if near else "write a name such as Europe/Berlin or America/Chicago"
            raise UsageError(f"there is no time zone {name[:60]!r}", hint=hint)
        return ZoneInfo.from_file(BytesIO(archive.read(name)), key=name)
