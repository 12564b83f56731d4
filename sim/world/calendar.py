"""The section `calendar` of a scenario: the civil time at which a run begins."""

from collections.abc import Callable, Mapping

import attrs

from sim.base.expressions import ExpressionError, rule_function
from sim.kernel import to_ns
from sim.kernel.calendar import Calendar
from sim.world.section import define_section, draws_nothing
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


class CalendarFunctions:
    """The functions of expressions over the civil time of a world.

    Each takes a simulated time in seconds; without one, it is about the present.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    def _at(self, time: float | None) -> tuple[Calendar, int]:
        world = self._world
        if world.calendar is None:
            raise ExpressionError("the run has no civil time", hint="add `calendar:` to the scenario")
        return world.calendar, world.kernel.now if time is None else to_ns(time)

    @rule_function(place=("agent", "start", "world"), senses="nothing", needs=("calendar",))
    def hour(self, time: float | None = None) -> int:
        """Return the hour of civil time, 0 to 23, at a simulated time in seconds, by default now."""
        calendar, at = self._at(time)
        return calendar.hour(at)

    @rule_function(place=("agent", "start", "world"), senses="nothing", needs=("calendar",))
    def weekday(self, time: float | None = None) -> int:
        """Return the day of the week, 0 for Monday, at a simulated time in seconds, by default now."""
        calendar, at = self._at(time)
        return calendar.weekday(at)

    @rule_function(place=("agent", "start", "world"), senses="nothing", needs=("calendar",))
    def date(self, time: float | None = None) -> str:
        """Return the date as `2026-03-02`, at a simulated time in seconds, by default now."""
        calendar, at = self._at(time)
        return calendar.date(at)


def calendar_functions(world: World) -> Mapping[str, Callable[..., object]]:
    """Return the functions of expressions over the civil time of a world: `hour`, `weekday` and `date`."""
    functions = CalendarFunctions(world)
    return {"hour": functions.hour, "weekday": functions.weekday, "date": functions.date}


def _make(world: World, settings: CalendarSettings) -> None:
    world.calendar = settings.calendar


CALENDAR = define_section("calendar", CalendarSettings, _make, draws=draws_nothing)
