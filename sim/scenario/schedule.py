"""When an entry of `events` or `interventions` happens: once, or again and again."""

from typing import Annotated

from pydantic import Field, ValidationInfo, model_validator

from sim.errors import UsageError
from sim.kernel.calendar import Calendar, Every, Schedule, read_schedule
from sim.scenario import fields as f
from sim.scenario.units import FieldError, Nanoseconds, PositiveNanoseconds, wrong_as

_NO_CALENDAR = Calendar.parse("2000-01-01T00:00")  # schedules of simulated time do not read it


class Scheduled(f.Part):
    """An entry that happens at given times."""

    at: Annotated[Nanoseconds | None, Field(description="when, or from when on; required without daily or cron")] = None
    every: Annotated[
        PositiveNanoseconds | None,
        Field(description="the time from one occurrence to the next; default: it happens once"),
    ] = None
    daily: Annotated[str | None, Field(description="a time of day such as 02:00; needs a calendar")] = None
    cron: Annotated[str | None, Field(description="a cron expression; needs a calendar")] = None
    times: Annotated[int | None, Field(ge=1, description="only if it repeats; default: until the end")] = None

    @model_validator(mode="after")
    def _repeats(self, info: ValidationInfo) -> "Scheduled":
        given = [name for name in ("every", "daily", "cron") if getattr(self, name) is not None]
        if len(given) > 1:
            raise FieldError(f"expected one of every, daily and cron, found {' and '.join(given)}")
        if self.at is None and given in ([], ["every"]):
            raise FieldError("expected at: the time at which it happens")
        if self.times is not None and not given:
            raise FieldError("times needs every, daily or cron")
        if self.daily is not None or self.cron is not None:
            try:
                read_schedule(self.daily, self.cron)
            except UsageError as error:
                raise wrong_as(error, (given[0],)) from None
            context = f.context_of(info)
            if context is not None and not context.known.calendar:
                raise FieldError(f"{given[0]} needs civil time", "add `calendar:` to the file", (given[0],))
        return self

    @property
    def schedule(self) -> Schedule | None:
        """When it happens again; None: once, at `at`."""
        if self.every is not None:
            return Every(self.every, self.at or 0)
        return None if self.daily is None and self.cron is None else read_schedule(self.daily, self.cron)

    def after(self, time_ns: int, calendar: Calendar | None) -> int | None:
        """Return when it happens next after a simulated time (nanoseconds); None if never."""
        first, schedule = self.at or 0, self.schedule
        if schedule is None:
            return first if first > time_ns else None
        return schedule.after(max(time_ns, first - 1), calendar or _NO_CALENDAR)

    def count_until(self, time_ns: int, calendar: Calendar | None) -> int:
        """Return how often it has happened up to a simulated time (nanoseconds), without regard to `times`."""
        if self.every is not None:
            return 0 if self.at is None or self.at > time_ns else (time_ns - self.at) // self.every + 1
        count, time = 0, self.after(-1, calendar)
        while time is not None and time <= time_ns:
            count, time = count + 1, self.after(time, calendar)
        return count
