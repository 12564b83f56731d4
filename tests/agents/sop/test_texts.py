"""What employees and their jobs post, word for word as the seed has it, and when."""

from pathlib import Path

import pytest

import sim
from sim.actors import Agent
from sim.kinds.sop import texts
from sim.world.world import World
from tests.agents.sop.company import JOBS, PEOPLE, company, inside

ONE = "sop: {procedures: {call: {title: call, steps: [{name: call, post: {text: called}}], trigger: {event: rung}}}}\n"


def test_the_heartbeat_is_that_of_the_seed(tmp_path: Path) -> None:
    """It has the active tasks, the new triggers, the action and the next run, on three lines."""
    text = f"until: 6m\n{ONE}events: [{{at: 0s, topic: rung}}]\n"
    people = PEOPLE.replace("Clerk Agent", "Lead Response Agent")
    assert company(tmp_path, text + people).posts("#ops-log")[-1][1] == (
        "Lead Response Agent: Loop completed.\n"
        "  Active tasks: 1 | New triggers: 0 | Action taken: Advanced Task #1 to step 1\n"
        "  Next run: 5 minutes"
    )


@pytest.mark.slow
def test_a_missing_heartbeat_is_told_after_twice_the_interval(tmp_path: Path) -> None:
    """The warning comes once, at twice the interval, also for an agent that has stopped."""
    people = PEOPLE.replace("Clerk Agent", "Marketing Agent").replace("5m", "15m")
    people += "  - {name: boss, start: 16m, rules: [{do: {publish: {topic: noted}}}, {do: stop}]}\n"
    ran = company(tmp_path, f"until: 2h\n{ONE}" + people + STOPPER, kinds={"stopper": Stopper})
    assert ran.posts("#escalations") == [
        (45 * 60, f"WARNING: Marketing Agent has not posted a heartbeat in 30 minutes\n{EXPECTED}"),
    ]


def test_the_daily_summary_repeats_the_warning(tmp_path: Path) -> None:
    """At the time of the daily summary, each silent employee is named, with the time since its last heartbeat."""
    people = PEOPLE.replace("Clerk Agent", "Marketing Agent").replace("5m", "15m") + JOBS.replace(
        "summarise: null", 'summarise: null, summary: "02:00"'
    )
    ran = company(tmp_path, f"until: 3h\n{ONE}" + people + STOPPER, kinds={"stopper": Stopper})
    assert [at for at, _ in ran.posts("#escalations")] == [45 * 60, pytest.approx(2 * 3600, abs=1)]
    assert ran.posts("#escalations")[1][1].startswith("WARNING: Marketing Agent has not posted a heartbeat in ")
    summary = ran.posts("#ops-log")[-1][1]
    assert summary.startswith("Daily summary of day 1: 2 loops, 0 tasks created")
    assert "Missing heartbeats: Marketing Agent\n" in summary


@pytest.mark.slow
def test_maintenance_posts_its_numbers(tmp_path: Path) -> None:
    """The statistics of the maintenance of memories are posted at its time, as in the seed."""
    text = f"until: 3d\ncalendar: {{start: 2026-03-07T00:00, zone: America/Chicago}}\nmemory: {{}}\n{ONE}"
    ran = company(tmp_path, text + PEOPLE + JOBS)
    posts = [(at / 3600, said) for at, said in ran.posts("#ops-log") if said.startswith("Memory")]
    sentence = "Memory maintenance: pruned 0 memories, created 0 summaries"
    assert posts == [(2, sentence), (26, sentence), (49, sentence)]  # on the 8th, 02:00 does not exist: it is 03:00


EXPECTED = "  (expected every 15 min). Check worker health."
STOPPER = "  - {name: stopper, kind: stopper, start: 16m}\n"


class Stopper(sim.Agent):
    """Stops the clerk."""

    async def decide_action(self) -> sim.Action:
        clerk = self.world.agents["clerk"]
        assert isinstance(clerk, Agent)
        clerk.shutdown()
        return sim.Action("stop")


MINUTE = 60 * 10**9


def test_the_texts_of_the_seed_word_for_word() -> None:
    """The heartbeat and the warning of the seed, with its own numbers."""
    advanced = "Advanced Task #412 to step 3"
    assert texts.heartbeat("Lead Response Agent", 3, 0, advanced, 5 * MINUTE) == (
        "Lead Response Agent: Loop completed.\n"
        "  Active tasks: 3 | New triggers: 0 | Action taken: Advanced Task #412 to step 3\n"
        "  Next run: 5 minutes"
    )
    assert texts.alert("Marketing Agent", 45 * MINUTE, 15 * MINUTE) == (
        "WARNING: Marketing Agent has not posted a heartbeat in 45 minutes\n"
        "  (expected every 15 min). Check worker health."
    )


@pytest.mark.parametrize(
    ("time_ns", "spelled", "short"),
    [
        (MINUTE, "1 minute", "1 min"),
        (90 * MINUTE, "90 minutes", "90 min"),
        (90 * 10**9, "90 seconds", "1m30s"),
        (5 * MINUTE - 1, "5 minutes", "4m59.999999999s"),
        (25 * 60 * MINUTE, "25 hours", "1500 min"),
        (0, "0 seconds", "0s"),
    ],
)
def test_times_are_said_in_whole_units(time_ns: int, spelled: str, short: str) -> None:
    """What is left to the next run is rounded to whole units, as in the seed; an interval is said as it was given."""
    assert (texts.spelled(time_ns), texts.short(time_ns)) == (spelled, short)


def test_a_paused_employee_is_told_and_told_again_after_it_went_on(tmp_path: Path) -> None:
    """The warning comes exactly at twice the interval, once for each silence, and never to one that is heard."""

    def pause(world: World) -> None:
        clerk = world.agents["clerk"]
        assert isinstance(clerk, Agent)
        loop, kernel, hour = clerk.loop, world.kernel, 3600 * 10**9
        loop.pause()
        kernel.call_at(hour, loop.resume, kernel.supervisor)
        kernel.call_at(hour + 16 * MINUTE, loop.pause, kernel.supervisor)
        kernel.call_at(2 * hour, loop.resume, kernel.supervisor)

    people = PEOPLE.replace("5m", "15m")
    ran = inside(tmp_path, f"until: 3h\n{ONE}" + people, pause)
    # heard at 0, 60, 75 and then from 120 minutes on
    assert [at / 60 for at, _, *_ in ran.cycles()] == [0, 60, 75, 120, 135, 150, 165]
    assert [(at / 60, text.split(" in ")[1].split("\n")[0]) for at, text in ran.posts("#escalations")] == [
        (30, "30 minutes"), (105, "30 minutes"),
    ]  # fmt: skip


def test_an_employee_that_fails_is_told(tmp_path: Path) -> None:
    """An employee that crashes is silent like any other: the warning needs nothing of the employee itself."""

    def crash(world: World) -> None:
        clerk = world.agents["clerk"]
        assert isinstance(clerk, Agent)
        clerk.terminate("test")

    ran = inside(tmp_path, f"until: 1h\n{ONE}" + PEOPLE, crash)
    assert [(at, text.splitlines()[0]) for at, text in ran.posts("#escalations")] == [
        (600, "WARNING: Clerk Agent has not posted a heartbeat in 10 minutes")
    ]


def test_an_employee_that_only_reacts_has_no_clock(tmp_path: Path) -> None:
    """In the event-driven design, a heartbeat says so, and silence is no reason for a warning."""
    design = ONE.replace("sop: {", "sop: {design: event_driven, ")
    ran = company(tmp_path, f"until: 2h\n{design}events: [{{at: 1m, topic: rung}}]\n" + PEOPLE + JOBS)
    assert [text.splitlines()[1:] for _, text in ran.posts("#ops-log")] == [
        [f"  Active tasks: 1 | New triggers: {new} | Action taken: {did}", "  Next run: at the next trigger"]
        for new, did in ((1, "Created Task #1"), (0, "Advanced Task #1 to step 1"))
    ]
    assert ran.posts("#escalations") == []


def test_what_happened_is_posted_in_the_channel_of_the_employee(tmp_path: Path) -> None:
    """New tasks and the major action are posted there; a cycle without any of them posts its heartbeat only."""
    sop = f"{ONE.rstrip()[:-1]}, watchers: {{w: {{agent: clerk, sop: call, event: lead}}}}}}\n"
    text = f"until: 16m\n{sop}events: [{{at: 1m, topic: lead}}, {{at: 1m, topic: lead}}]\n"
    ran = company(tmp_path, text + PEOPLE)
    assert [(at, text) for at, text in ran.posts("#desk") if text != "called"] == [
        (300, "New: #1 call\nNew: #2 call\nAdvanced Task #1 to step 1"), (600, "Advanced Task #2 to step 1"),
    ]  # fmt: skip
