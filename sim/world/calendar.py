"""The section `calendar` of a scenario: the civil time at which a run begins."""

from collections.abc import Callable, Mapping

import attrs

from sim.expressions import ExpressionError
from sim.kernel import to_ns
from sim.kernel.calendar import Calendar
from sim.world.section import define_section
from sim.world.world import World


@attrs.frozen
class CalendarSettings:
    """The civil time of a run.

    Args:
        start: the date and time of day at which simulated time is 0, such as `2026-03-02T08:00`.
        zone: the name of the time zone, such as `America/Chicago`.
    """

    start: str
    zone: str = "UTC"
    calendar: Calendar = attrs.field(init=False, eq=False)

    @calendar.default
    def _calendar(self) -> Calendar:
        return Calendar.parse(self.start, self.zone)


def calendar_functions(world: World) -> Mapping[str, Callable[..., object]]:
    """Return the functions of expressions over the civil time of a world: `hour`, `weekday` and `date`.

    Each takes a simulated time in seconds; without one, it is about the present.
    """

    def now(time: float | None) -> tuple[Calendar, int]:
        if world.calendar is None:
            raise ExpressionError("the run has no civil time", hint="add `calendar:` to the scenario")
        return world.calendar, world.kernel.now if time is None else to_ns(time)

    def hour(time: float | None = None) -> int:
        calendar, at = now(time)
        return calendar.hour(at)

    def weekday(time: float | None = None) -> int:
        calendar, at = now(time)
        return calendar.weekday(at)

    def date(time: float | None = None) -> str:
        calendar, at = now(time)
        return calendar.date(at)

    return {"hour": hour, "weekday": weekday, "date": date}


def _make(world: World, settings: CalendarSettings) -> None:
    world.calendar = settings.calendar


CALENDAR = define_section("calendar", CalendarSettings, _make)
