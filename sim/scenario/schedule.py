"""When an entry of `events` or `interventions` happens: once, or repeatedly."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, PlainValidator, ValidationInfo, WithJsonSchema, model_validator

from sim.base.errors import UsageError
from sim.kernel.calendar import Calendar, Every, Schedule, read_schedule
from sim.scenario import fields as f
from sim.scenario.units import DURATION_SCHEMA, FieldError, PositiveNanoseconds, duration, wrong_as

END: Final = "end"
"""The time `at: end`: once the run has ended, before its final state is sampled."""

_NO_CALENDAR = Calendar.parse("2000-01-01T00:00")  # schedules of simulated time do not read it


def _moment(value: Any) -> int | Literal["end"] | None:
    if value is None or value == END:
        return value  # type: ignore[no-any-return]
    try:
        return duration(value)
    except FieldError as error:
        hint = "or `end`, for the end of the run" if error.hint is None else error.hint
        raise FieldError(str(error), hint) from None


_MOMENT_SCHEMA = {**DURATION_SCHEMA, "anyOf": [*DURATION_SCHEMA["anyOf"], {"const": END}, {"type": "null"}]}


class Scheduled(f.Part):
    """An entry that happens at given times."""

    at: Annotated[
        int | Literal["end"] | None,
        PlainValidator(_moment),
        WithJsonSchema(_MOMENT_SCHEMA),
        Field(description="when, or from when on; end: when the run has ended; required without daily or cron"),
    ] = None
    every: Annotated[
        PositiveNanoseconds | None,
        Field(description="the time from one occurrence to the next; default: it happens once"),
    ] = None
    daily: Annotated[str | None, Field(description="a time of day such as 02:00; needs a calendar")] = None
    cron: Annotated[str | None, Field(description="a cron expression; needs a calendar")] = None
    times: Annotated[int | None, Field(ge=1, description="only if it repeats; default: until the end")] = None

    @model_validator(mode="after")
    def _repeats(self, info: ValidationInfo) -> "Scheduled":
        repetitions = [name for name in ("every", "daily", "cron") if getattr(self, name) is not None]
        if len(repetitions) > 1:
            raise FieldError(f"expected one of every, daily and cron, found {' and '.join(repetitions)}")
        if self.at == END and repetitions:
            raise FieldError(f"at: end happens once, so it has no {repetitions[0]}")
        if self.at is None and repetitions in ([], ["every"]):
            raise FieldError("expected at: the time at which it happens")
        if self.times is not None and not repetitions:
            raise FieldError("times needs every, daily or cron")
        if self.daily is not None or self.cron is not None:
            try:
                read_schedule(self.daily, self.cron)
            except UsageError as error:
                raise wrong_as(error, (repetitions[0],)) from None
            context = f.context_of(info)
            if context is not None and not context.symbols.calendar:
                raise FieldError(f"{repetitions[0]} needs civil time", "add `calendar:` to the file", (repetitions[0],))
        return self

    @property
    def _first_ns(self) -> int:
        return self.at if isinstance(self.at, int) else 0

    @property
    def schedule(self) -> Schedule | None:
        """When it happens again; None: once, at `at`."""
        if self.every is not None:
            return Every(self.every, self._first_ns)
        return None if self.daily is None and self.cron is None else read_schedule(self.daily, self.cron)

    def after(self, time_ns: int, calendar: Calendar | None) -> int | None:
        """Return when it happens next after a simulated time (nanoseconds); None if never, or at the end."""
        if self.at == END:
            return None
        first, schedule = self._first_ns, self.schedule
        if schedule is None:
            return first if first > time_ns else None
        return schedule.after(max(time_ns, first - 1), calendar or _NO_CALENDAR)

    def count_until(self, time_ns: int, calendar: Calendar | None) -> int:
        """Return how often it has happened up to a simulated time (nanoseconds), without regard to `times`."""
        if self.every is not None:
            first = self._first_ns
            return 0 if self.at is None or first > time_ns else (time_ns - first) // self.every + 1
        count, time = 0, self.after(-1, calendar)
        while time is not None and time <= time_ns:
            count, time = count + 1, self.after(time, calendar)
        return count
