"""Office hours: a simulated person works at some times of the week only."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import attrs
import pytest

from sim.base.errors import UsageError
from sim.kernel import NS
from sim.kernel.duration import MAX_NS
from sim.tools.approvals import SimulatedPerson
from sim.tools.office_hours import OfficeHours
from tests.tools.test_approvals import Office, simulated

HOUR = 3600 * NS


class Days:
    """A calendar that begins at a civil time."""

    def __init__(self, start: str, zone: str = "UTC") -> None:
        self._zone = ZoneInfo(zone)
        self._start = datetime.fromisoformat(start).replace(tzinfo=self._zone).astimezone(UTC)

    def at(self, time_ns: int) -> datetime:
        return (self._start + timedelta(microseconds=time_ns // 1000)).astimezone(self._zone)

    def time_of(self, civil: datetime) -> int:
        return (civil.replace(tzinfo=self._zone).astimezone(UTC) - self._start) // timedelta(microseconds=1) * 1000


@pytest.mark.parametrize(
    ("start", "work", "done"),
    [
        ("2026-03-06T10:00", 1, "2026-03-06T11:00"),  # a Friday, at work
        ("2026-03-06T07:00", 1, "2026-03-06T10:00"),  # before work
        ("2026-03-06T16:30", 1, "2026-03-09T09:30"),  # the rest is done after the weekend
        ("2026-03-06T16:00", 1, "2026-03-06T17:00"),  # just in time
        ("2026-03-06T17:00", 1, "2026-03-09T10:00"),  # after work
        ("2026-03-07T12:00", 1, "2026-03-09T10:00"),  # at the weekend
        ("2026-03-06T16:00", 10, "2026-03-10T10:00"),  # more than a day of work
        ("2026-03-06T23:59", 0, "2026-03-09T09:00"),  # what takes no time is done when work begins
    ],
)
def test_only_office_hours_count(start, work, done):
    """Work stands still at night and over the weekend."""
    calendar = Days(start)
    found = OfficeHours().after_work(calendar, 0, work * HOUR, MAX_NS // 2)
    assert calendar.at(found).replace(tzinfo=None) == datetime.fromisoformat(done)


def test_daylight_saving_moves_the_hours():
    """Office hours are civil time: over a change of the clocks, the weekend is an hour shorter."""
    calendar = Days("2026-03-06T17:00", "America/Chicago")  # the clocks change on Sunday, 8 March
    assert OfficeHours().after_work(calendar, 0, 0, MAX_NS // 2) == 63 * HOUR
    night = OfficeHours(("sun",), "00:00", "24:00")
    assert night.after_work(Days("2026-03-08T00:00", "America/Chicago"), 0, 23 * HOUR, MAX_NS // 2) == 23 * HOUR


def test_work_that_takes_too_long_ends_at_the_limit():
    """Nobody looks for a time after the limit."""
    assert OfficeHours().after_work(Days("2026-03-06T17:00"), 0, HOUR, 5 * HOUR) == 5 * HOUR


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"days": ()}, "at least one day"),
        ({"start": "9:00"}, "'9:00' is not a time of day"),
        ({"start": "17:00", "end": "09:00"}, "must end later on the day"),
        ({"end": "24:01"}, "is not a time of day"),
    ],
    ids=["no day", "form", "order", "too late"],
)
def test_impossible_hours_are_refused(options, why):
    """Hours that are none are refused with the reason."""
    with pytest.raises(UsageError, match=why):
        OfficeHours(**options)


def test_a_person_decides_after_the_weekend():
    """A question on Friday evening is answered on Monday morning; one that would expire before, is not."""
    chosen = simulated(latency=HOUR, hours=OfficeHours())
    office = Office(chosen)
    office.world.calendar = Days("2026-03-06T16:30")  # type: ignore[assignment]  # as a scenario with a calendar has
    office.agent()
    office.run(100 * 3600)
    gate = office.approvals.gates["gate-1"]
    assert (gate.status, gate.decided_ns) == ("used", 65 * HOUR)

    office = Office(attrs.evolve(chosen, expires=60 * HOUR))
    office.world.calendar = Days("2026-03-06T16:30")  # type: ignore[assignment]  # as above
    office.agent()
    office.run(100 * 3600)
    assert office.approvals.gates["gate-1"].status == "expired"


def test_office_hours_need_a_calendar():
    """Without a calendar, nobody knows what time it is: the call is refused with this reason."""
    office = Office(simulated(hours=OfficeHours()))
    agent = office.agent()
    office.run(10)
    assert agent.results[0].error == "the office hours of person need a calendar"
    assert SimulatedPerson().hours is None
