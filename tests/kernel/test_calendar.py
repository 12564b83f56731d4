"""Civil time and its schedules: equal on every machine, and each civil time once, also when the clocks change."""

import os
import subprocess
import sys
from datetime import datetime, time, timedelta
from itertools import pairwise
from zipfile import ZipFile

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from docs import time_zones
from sim.base.errors import UsageError
from sim.kernel import NS
from sim.kernel.calendar import Calendar, Cron, Daily, Every, times

DAY = 86_400 * NS
ZONES = ["UTC", "America/Chicago", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia"]


def civil(calendar: Calendar, *when: int) -> list[str]:
    """Return civil times as short text."""
    return [calendar.at(time_ns).strftime("%m-%d %H:%M %z") for time_ns in when]


@given(st.sampled_from(ZONES), st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)), st.integers(0, 10**18))
def test_time_and_civil_time_agree(zone, start, time_ns):
    """A simulated time has one civil time, and with its offset that civil time leads back to it."""
    try:
        calendar = Calendar(start.replace(microsecond=0), zone)
    except UsageError as error:
        assert "does not exist" in str(error)  # noqa: PT017 - most starts exist
        return
    assert calendar.time_of_aware(calendar.at(time_ns)) == time_ns // 1000 * 1000
    assert calendar.at(0).replace(tzinfo=None) == start.replace(microsecond=0)


@pytest.mark.parametrize(
    ("zone", "start", "around"),
    [
        ("America/Chicago", datetime(2026, 3, 7), ["03-07 02:30 -0600", "03-08 03:30 -0500", "03-09 02:30 -0500"]),
        ("America/Chicago", datetime(2026, 10, 31), ["10-31 02:30 -0500", "11-01 02:30 -0600", "11-02 02:30 -0600"]),
        ("Europe/Berlin", datetime(2026, 3, 28), ["03-28 02:30 +0100", "03-29 03:30 +0200", "03-30 02:30 +0200"]),
        ("Europe/Berlin", datetime(2026, 10, 24), ["10-24 02:30 +0200", "10-25 02:30 +0200", "10-26 02:30 +0100"]),
    ],
)
def test_a_daily_time_is_met_once_when_the_clocks_change(zone, start, around):
    """A skipped 02:30 becomes 03:30; one that comes twice is taken at its first occurrence."""
    calendar = Calendar(start, zone)
    assert civil(calendar, *times(Daily.parse("02:30"), calendar, 3 * DAY)) == around


@given(st.sampled_from(ZONES[:-1]), st.dates(datetime(2020, 1, 1).date(), datetime(2030, 1, 1).date()), st.times())
def test_every_date_has_its_time_once(zone, first, at):
    """In three weeks from any date, a daily time comes once on each date, in order."""
    calendar = Calendar(datetime.combine(first, time(12)), zone)
    schedule = Daily(at.replace(microsecond=0))
    found = list(times(schedule, calendar, 21 * DAY))
    assert all(a < b for a, b in pairwise(found))
    dates = [calendar.at(due).date() for due in found]
    assert dates == [dates[0] + timedelta(days=n) for n in range(len(dates))]
    assert len(dates) in (20, 21, 22)


def test_a_date_that_a_zone_skips_is_no_second_time():
    """Samoa had no 30 December 2011: what was due then falls together with the day after, and happens once."""
    calendar = Calendar(datetime(2011, 12, 29), "Pacific/Apia")
    found = [calendar.at(due).strftime("%m-%d %H:%M") for due in times(Daily.parse("09:00"), calendar, 3 * DAY)]
    assert found == ["12-29 09:00", "12-31 09:00", "01-01 09:00"]


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES[:3])
@pytest.mark.parametrize(
    "expression", ["*/15 * * * *", "30 2 * * *", "0 8 * * MON-FRI", "0 0 1 * *", "5 4 * * SUN", "15 30 */6 * * *"]
)
@pytest.mark.parametrize("start", [datetime(2026, 3, 1), datetime(2026, 10, 12, 7, 30)])
def test_four_weeks_of_cron_are_those_of_cronsim(zone, expression, start):
    """The times of a run are the wall dates that cronsim gives from the same start, over the change of the clocks."""
    calendar = Calendar(start, zone)
    walls = CronSim(expression, calendar.at(0) - timedelta(seconds=1))
    end = calendar.at(28 * DAY)
    wanted = []
    while (wall := next(walls)) < end:
        wanted.append(wall)
    found = [calendar.at(due) for due in times(Cron(expression), calendar, 28 * DAY)]
    assert [dt.isoformat() for dt in found] == [dt.isoformat() for dt in wanted]


def test_a_period_is_one_of_simulated_time():
    """`every` counts nanoseconds, whatever the clocks on the wall do."""
    calendar = Calendar(datetime(2026, 3, 7), "America/Chicago")
    assert civil(calendar, *times(Every(DAY, 3600 * NS), calendar, 3 * DAY)) == [
        "03-07 01:00 -0600", "03-08 01:00 -0600", "03-09 02:00 -0500",
    ]  # fmt: skip


def test_a_leap_day_is_waited_for():
    """The next 29 February is two years off."""
    calendar = Calendar(datetime(2026, 3, 1))
    assert calendar.date(next(times(Cron("0 0 29 2 *"), calendar))) == "2028-02-29"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Calendar(datetime(2026, 1, 1), "Europe/Berlim"), "there is no time zone 'Europe/Berlim'"),
        (lambda: Calendar(datetime(2026, 1, 1), "../../etc/passwd"), "there is no time zone"),
        (lambda: Calendar(datetime(2026, 3, 8, 2, 30), "America/Chicago"), "does not exist in America/Chicago"),
        (lambda: Calendar(datetime(1, 1, 1)), "cannot start at 0001"),
        (lambda: Daily.parse("25:00"), "'25:00' is not a time of day"),
        (lambda: Daily.parse("2:00"), "'2:00' is not a time of day"),
        (lambda: Cron("every day"), "is not a cron expression"),
        (lambda: Cron("0 0 30 2 *"), "is not a cron expression: Bad day-of-month"),
        (lambda: Every(0), "a period must be above 0"),
    ],
)
def test_what_is_wrong_is_refused(make, message):
    """Zones, starts and schedules that mean nothing are refused in one sentence."""
    with pytest.raises(UsageError, match=message):
        make()


@pytest.mark.slow
def test_the_machine_has_no_say():
    """Neither the time zone of the machine nor its zone files change a calendar."""
    code = (
        "from datetime import datetime\nfrom sim.kernel.calendar import Calendar, Daily, times\n"
        "c = Calendar(datetime(2026, 3, 7), 'America/Chicago')\n"
        "print([c.at(t).isoformat() for t in times(Daily.parse('02:30'), c, 4 * 86400 * 10**9)])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **more}, capture_output=True, text=True, check=True
        ).stdout
        for more in (
            {"TZ": "Asia/Tokyo"},
            {"TZ": "America/Lima", "PYTHONTZPATH": "/nonexistent"},
            {"PYTHONHASHSEED": "7"},
        )
    }
    assert len(said) == 1


def test_zones_are_those_of_the_package():
    """The archive has each zone of the package `tzdata` of the development environment, byte for byte."""
    with ZipFile(time_zones.ARCHIVE) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == time_zones.zones()
