"""What employees and their jobs post, word for word as the seed has it, and when."""

from pathlib import Path

import pytest

import sim
from sim.actors import Agent
from tests.agents.sop.company import JOBS, PEOPLE, company

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
    assert summary.endswith("Missing heartbeats: Marketing Agent")


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
