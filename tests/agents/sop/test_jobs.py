"""The recurring jobs: the maintenance of memories, the daily summary, and when they run."""

from pathlib import Path

import pytest

from sim.memory.service import Memories
from sim.world.world import World
from tests.agents.sop.company import JOBS, PEOPLE, Company, company, inside

DAY = 86_400 * 10**9
ONE = "sop: {procedures: {call: {title: call, steps: [{name: call, post: {text: called}}], trigger: {event: rung}}}}\n"
NO_TRIGGER = ONE.replace(", trigger: {event: rung}", "")
SLOW = PEOPLE.replace("5m", "1d")
SUMMARIZED = JOBS.replace(", settings: {summarise: null}", "")
THREE = SLOW.replace("name: clerk", "name: clerk\n    count: 3")


def said(ran: Company, beginning: str) -> list[tuple[float, str]]:
    """Return the hours and the texts of the posts of `#ops-log` that begin with some words."""
    return [(at / 3600, text) for at, text in ran.posts("#ops-log") if text.startswith(beginning)]


def test_the_statistics_are_those_of_the_seed(tmp_path: Path) -> None:
    """44 old minor memories of three employees and 3 expired ones: pruned 47 memories, created 3 summaries."""

    def remember(world: World) -> None:
        memories = Memories.of(world)
        for number in range(44):
            memories.add(f"clerk-{1 + number % 3}", f"minor {number}", importance=1 + number % 4)
        for number in (1, 2, 3):
            memories.add(f"clerk-{number}", "important", importance=8)
            memories.add(f"clerk-{number}", "middling", importance=5)
            memories.add(f"clerk-{number}", "short-lived", importance=7, expires_ns=7 * DAY)

    text = f"until: 8d\nmemory: {{}}\nmodels: {{rules: [{{use: summarize, say: all was well}}]}}\n{NO_TRIGGER}"
    ran = inside(tmp_path, text + THREE + SUMMARIZED, remember)
    sentences = [sentence for _, sentence in said(ran, "Memory")]
    assert sentences[:7] == ["Memory maintenance: pruned 0 memories, created 0 summaries"] * 7
    assert sentences[7:] == ["Memory maintenance: pruned 47 memories, created 3 summaries"]
    for number in (1, 2, 3):
        held = [(note.content, note.kind) for note in ran.memories.all(f"clerk-{number}")]
        assert held == [("important", "observation"), ("middling", "observation"), ("all was well", "context")]


def test_the_cap_keeps_the_hundred_most_important(tmp_path: Path) -> None:
    """Of 130 memories the 30 least important go, of equals the oldest; important ones among them are told."""

    def remember(world: World) -> None:
        for number in range(130):
            Memories.of(world).add("clerk", str(number), importance=9 if number < 105 else 7)

    ran = inside(tmp_path, f"until: 1d\nmemory: {{}}\n{ONE}" + SLOW + JOBS, remember)
    held = [note.content for note in ran.memories.all("clerk")]
    assert held == [str(number) for number in range(5, 105)]
    [(_, sentence)] = said(ran, "Memory")
    assert sentence == (
        "Memory maintenance: pruned 30 memories, created 0 summaries; 5 of the deleted ones were important"
    )


@pytest.mark.parametrize(
    ("start", "time", "hours"),
    [
        ("2026-10-31T00:00", "02:00", [2, 27, 51]),  # on 1 November, 01:00 to 02:00 comes twice
        ("2026-10-31T00:00", "01:30", [1.5, 25.5, 50.5]),  # and so 01:30 does, of which the first counts
        ("2026-03-07T00:00", "02:30", [2.5, 26.5, 49.5]),  # on 8 March, 02:30 is 03:30
        ("2026-03-07T00:00", "18:00", [18, 41, 65]),
    ],
)
def test_jobs_follow_the_clock_on_the_wall(tmp_path: Path, start: str, time: str, hours: list[float]) -> None:
    """A job runs once a day at its civil time, also on the days on which daylight saving begins and ends."""
    jobs = JOBS.replace("summarise: null", f'summarise: null, maintenance: "{time}", summary: "{time}"')
    text = f"until: 70h\ncalendar: {{start: {start}, zone: America/Chicago}}\nmemory: {{}}\n{ONE}"
    ran = company(tmp_path, text + SLOW + jobs)
    assert [at for at, _ in said(ran, "Memory")] == hours
    assert [at for at, _ in said(ran, "Daily summary")] == pytest.approx(hours, abs=1e-4)  # one after the other


def test_without_a_calendar_days_begin_with_the_run(tmp_path: Path) -> None:
    """The maintenance is at 02:00 and the summary at 18:00 of each simulated day."""
    ran = company(tmp_path, f"until: 48h\nmemory: {{}}\n{ONE}" + SLOW + JOBS)
    assert [at for at, _ in said(ran, "Memory")] == [2, 26]
    assert [(at, text.partition(":")[0]) for at, text in said(ran, "Daily")] == [
        (18, "Daily summary of day 1"), (42, "Daily summary of day 2"),
    ]  # fmt: skip


def test_the_daily_summary_has_the_numbers_since_the_last(tmp_path: Path) -> None:
    """Loops, tasks and steps are those since the last summary; overdue tasks are those at present."""
    sop = ONE.replace("title: call,", "title: call, due: 1m,")
    text = f"until: 45h\ncalendar: {{start: 2026-03-02T00:00}}\n{sop}"
    ran = company(tmp_path, text + "events: [{at: 9h, topic: rung}, {at: 43h, topic: rung}]\n" + SLOW + JOBS)
    assert [text for _, text in said(ran, "Daily")] == [
        f"Daily summary of 2026-03-{day}: {loops} loops, {created} tasks created, {steps} steps done, {steps} tasks"
        f" completed, 0 tasks failed, {overdue} tasks overdue.\n  Missing heartbeats: none"
        "\n  Dead letters: 0 | Lost events: 0 | Failed assessments: 0\n  Failing at present: none"
        for day, loops, created, steps, overdue in (("02", 2, 1, 0, 1), ("03", 1, 0, 1, 0))
    ]


def test_employees_without_memories_have_no_maintenance(tmp_path: Path) -> None:
    """Without `memory:`, and in the stateless design, nothing is pruned and nothing is posted."""
    assert said(company(tmp_path, f"until: 3h\n{ONE}" + SLOW + JOBS), "Memory") == []
    stateless = ONE.replace("sop: {", "sop: {design: stateless, ")
    assert said(company(tmp_path, f"until: 3h\nmemory: {{}}\n{stateless}" + SLOW + JOBS), "Memory") == []


def test_a_watcher_alone_works_while_its_employee_does_not(tmp_path: Path) -> None:
    """What looks alone makes tasks by its own interval, also if the employee has a slow cycle."""
    watcher = "}, watchers: {w: {agent: clerk, sop: call, event: lead, interval: 2m, alone: true}}}\n"
    text = f"until: 31m\n{NO_TRIGGER.rstrip()[:-2]}{watcher}"
    events = "events: [{at: 3m, topic: lead}, {at: 3m, topic: lead}, {at: 11m, topic: lead}]\n"
    ran = company(tmp_path, text + events + SLOW + JOBS)
    assert [task.created_ns / 60e9 for task in ran.world.tasks.all()] == [4, 4, 12]
    assert len(ran.cycles()) == 1
