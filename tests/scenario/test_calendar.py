"""Civil time in a scenario: events, sleeps and functions, over changes to daylight saving, the same everywhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sim
from sim.base.errors import ScenarioError
from sim.scenario import loads

# Daylight saving begins on 8 March 2026 in Chicago and on 29 March in Berlin, and ends on 1 November and 25 October.
CLERK = """name: civil
until: 4d
calendar: {start: START, zone: ZONE}
agents:
  - name: clerk
    state: {seen: []}
    loop: {min_loop_delay: 1s}
    rules:
      - when: iteration > 1
        set: {seen: "=seen + [date() + ' ' + str(hour())]"}
        do: {sleep: {SLEEP}}
      - do: {sleep: {SLEEP}}
events: [{EVENT, topic: bell.rang}]
metrics: {every: 1h, values: {bells: "published('bell.*')"}}
"""


def run(
    start: str, zone: str, sleep: str = 'daily: "02:30"', event: str = 'daily: "02:30"', **options: object
) -> object:
    """Run the clerk; the result."""
    text = CLERK.replace("START", start).replace("ZONE", zone).replace("{SLEEP}", f"{{{sleep}}}")
    return sim.run(loads(text.replace("EVENT", event)), **options)  # type: ignore[arg-type]  # options of sim.run


@pytest.mark.parametrize(
    ("start", "zone"),
    [
        ("2026-03-06T08:00", "America/Chicago"), ("2026-10-30T08:00", "America/Chicago"),
        ("2026-03-27T08:00", "Europe/Berlin"), ("2026-10-23T08:00", "Europe/Berlin"),
        ("2026-10-02T08:00", "Australia/Lord_Howe"), ("2028-02-27T08:00", "UTC"),
    ],
)  # fmt: skip
def test_a_daily_time_comes_once_on_each_date(start: str, zone: str) -> None:
    """Over both changes to daylight saving, and a leap day: four nights, four bells."""
    result = run(start, zone)
    assert result.metrics["bells"][-1] == 4  # type: ignore[attr-defined]  # a RunResult


def test_a_cron_expression_counts_working_hours() -> None:
    """From Friday 08:00 to Tuesday 08:00, working hours are Friday's and Monday's."""
    result = run("2026-03-06T08:00", "America/Chicago", event='cron: "0 9-16 * * MON-FRI"')
    assert result.metrics["bells"][-1] == 16  # type: ignore[attr-defined]  # a RunResult


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_backends_agree(mode: str) -> None:
    """asyncio and trio give the same hash, in both modes."""
    hashes = {
        run("2026-03-06T08:00", "America/Chicago", mode=mode, backend=backend).hash  # type: ignore[attr-defined]
        for backend in ("asyncio", "trio")
    }
    assert len(hashes) == 1


@pytest.mark.proof
def test_the_zone_of_the_machine_has_no_influence(tmp_path: Path) -> None:
    """Two processes with other zones, and other hash seeds, give the same hash."""
    path = tmp_path / "civil.yaml"
    path.write_text(
        CLERK.replace("START", "2026-03-06T08:00").replace("ZONE", "America/Chicago")
        .replace("{SLEEP}", '{daily: "02:30"}').replace("EVENT", 'cron: "0 9 * * *"')
    )  # fmt: skip
    found = set()
    for zone, seed in (("Asia/Tokyo", "1"), ("America/New_York", "2")):
        done = subprocess.run(
            [sys.executable, "-m", "sim", "run", str(path), "--no-record", "--json"], capture_output=True, text=True,
            check=True, env={**os.environ, "TZ": zone, "PYTHONHASHSEED": seed, "PYTHONTZPATH": ""}, timeout=60,
        )  # fmt: skip
        found.add(json.loads(done.stdout)["hash"])
    assert len(found) == 1


def test_a_sleep_until_a_time_of_day_ends_then() -> None:
    """The clerk wakes at each 02:30; on the day on which this time does not exist, at 03:30."""
    text = CLERK.replace("START", "2026-03-06T08:00").replace("ZONE", "America/Chicago")
    text = text.replace("{SLEEP}", '{daily: "02:30"}').replace("EVENT", "at: 1h")
    text += "stop: {when: now > 331000}\n"
    from sim.runner import RunController
    from sim.scenario.assembly.build import build

    simulation = build(loads(text))
    runner = RunController(simulation, until_ns=simulation.scenario.end_ns, mode="autonomous")
    __import__("anyio").run(runner.run)
    seen = simulation.world.agents["clerk"].state["seen"]
    assert seen == ["2026-03-07 2", "2026-03-08 3", "2026-03-09 2", "2026-03-10 2"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("calendar: {start: START, zone: ZONE}\n", ""), "needs civil time"),
        (("START", "2026-03-08T02:30"), "does not exist in America/Chicago"),
        (("START", "2026-03-08"), "is not a date with a time of day"),
        (("ZONE", "Amerika/Chicago"), "did you mean 'America/Chicago'"),
        (("EVENT", 'daily: "25:00"'), "is not a time of day"),
        (("EVENT", 'cron: "0 8 * *"'), "is not a cron expression"),
        (("EVENT", 'daily: "08:00", every: 1h'), "expected one of every, daily and cron"),
        (("EVENT", "data: 1"), "expected at"),
    ],
)
def test_what_is_wrong_is_named(change: tuple[str, str], why: str) -> None:
    """A wrong date, zone or schedule is refused with its line, as is civil time without a calendar."""
    text = CLERK.replace(*change).replace("START", "2026-03-06T08:00").replace("ZONE", "America/Chicago")
    text = text.replace("{SLEEP}", '{daily: "02:30"}').replace("EVENT", "at: 1h")
    with pytest.raises(ScenarioError) as caught:
        loads(text)
    assert why in " ".join(f"{problem.message} {problem.hint}" for problem in caught.value.problems)
