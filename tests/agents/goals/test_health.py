"""The health monitor: every threshold is reached, and nothing happens before it."""

from pathlib import Path
from typing import Any

import pytest

from tests.agents.goals.house import GOAL, MAKE, TASK, House, house, write

MESSAGE = {"goals.send_message": {"text": "ok"}}
MAKE_TASK = {
    "text": "Research please",
    "call": {"goals.create_task": {"title": "Hotels", "instructions": "Find hotels"}},
}
TASK_SAYS = {"system": "*You do one task*", "say": "Done."}


LONG = {"timeout": "90h", "deadline": "90h"}
BACKGROUND = {"name": "background", "kind": "agent_task", "template": True, "settings": {"use": "background"}}


def slow(seconds: float) -> dict[str, Any]:
    """Return models whose calls take so long."""
    return {"provider": "simulated", "simulated": {"first_token": seconds, "per_token": 0}, "retry": LONG}


HANGING_TASKS: dict[str, Any] = {
    "provider": "simulated", "simulated": {"first_token": 1, "per_token": 0}, "retry": LONG,
    "tiers": {"usual": "quick", "other": "snail"}, "default": "usual", "uses": {"background": "other"},
    "faults": [{"kind": "hang", "models": ["snail"]}],
}  # fmt: skip
"""Models with which the calls of tasks never end."""


def with_hanging_tasks(folder: Path, until: str, **options: Any) -> House:
    """Run a goal whose only task hangs in its first call."""
    rules = [MAKE_TASK, {"call": MESSAGE}]
    steps = [MAKE, write(60, "Research please")]
    return house(folder, rules, steps, models=HANGING_TASKS, until=until, task={"use": "background"}, **options)


def test_it_checks_every_five_minutes(tmp_path: Path) -> None:
    """Checks are made at the start and every five minutes."""
    ran = house(tmp_path, [{"call": MESSAGE}], [MAKE], until="16m")
    assert ran.rows("SELECT time FROM actions WHERE kind = 'check_health'") == [0, 300, 600, 900]


def test_a_run_that_is_stuck_is_cancelled(tmp_path: Path) -> None:
    """A run of more than 30 minutes is cancelled by the next check, its lock is released, and the thread says so."""
    ran = house(tmp_path, [{"call": MESSAGE}], [MAKE, write(60, "hello")], models=slow(3 * 3600), until="3h")
    # 30 minutes after 60 s are at 1860 s, and the next check is at 2100 s; then the message is tried twice more
    assert ran.found() == [(at, GOAL, "stuck") for at in (2100.0, 4200.0, 6300.0)]
    assert ran.runs() == [("message", "stuck")] * 3
    said = "Cancelled: the run was stuck for more than 30 minutes. "
    assert [content.removeprefix(said) for source, _, content in ran.thread() if source == "error"] == [
        "It is done again.", "It is done again.", "It is not done again; write to have another try.",
    ]  # fmt: skip
    record = ran.goals.get(GOAL)
    assert record.runtime_state["orchestrator_running"] is False
    assert record.status == "waiting"
    assert record.pending == []


def test_a_cancelled_agent_works_again(tmp_path: Path) -> None:
    """After a run was cancelled, the next run answers what it left, and later messages too."""
    models = slow(1) | {"faults": [{"kind": "hang", "start": 0, "end": "5m"}]}
    ran = house(tmp_path, [{"call": MESSAGE}], [MAKE, write(60, "one"), write(3000, "two")], models=models, until="2h")
    assert [ending for _, ending in ran.runs()] == ["stuck", "stop_tool", "stop_tool"]
    assert [source for source, _, _ in ran.thread()] == ["user", "error", "agent", "user", "agent"]


def test_a_run_of_less_than_half_an_hour_goes_on(tmp_path: Path) -> None:
    """A run of 25 minutes is slow, not stuck."""
    long = {"limits": {"time": "10h"}}
    ran = house(tmp_path, [{"call": MESSAGE}], [MAKE, write(60, "hello")], models=slow(1500), until="2h", goals=long)
    assert ran.found() == []
    assert ran.runs() == [("message", "stop_tool")]


def test_a_stale_task_is_completed(tmp_path: Path) -> None:
    """A task without any change for more than two hours is marked as completed, and its goal is told."""
    ran = with_hanging_tasks(tmp_path, "4h")
    *stuck, stale = (found for found in ran.found() if found[1] == TASK)
    assert stuck == [(at, TASK, "stuck") for at in (2100.0, 4200.0, 6300.0)]
    assert stale == (13_800.0, TASK, "stale_task")  # the first check after 2 h without a change, which began at 6300 s
    assert ran.statuses(TASK)[-1] == (13_800.0, "completed")
    assert any("no change for too long" in content for _, _, content in ran.history())


def test_a_stale_goal_waits(tmp_path: Path) -> None:
    """A goal that works, because a task of it goes on, without any change for six hours is marked as waiting."""
    ran = with_hanging_tasks(tmp_path, "8h", goals={"health": {"stuck": "100h", "stale_task": "100h"}})
    assert ran.found() == [(21_900.0, GOAL, "stale_goal")]  # the first check after 6 h, which began at 62 s
    assert [word for _, word in ran.statuses()] == ["working", "waiting"]
    assert ran.statuses(TASK) == []  # active since it was made


def test_a_paused_task_expires(tmp_path: Path) -> None:
    """A task that is paused for more than 24 hours is cancelled, even if its retry is not due yet."""
    failing = {"system": "*You do one task*", "fail": "server", "retry_after": "50h"}
    ran = house(tmp_path, [failing, MAKE_TASK, {"call": MESSAGE}], [MAKE, write(60, "Research please")], until="26h")
    assert [found for found in ran.found() if found[1] == TASK] == [(86_700.0, TASK, "expired")]
    assert ran.statuses(TASK)[-1] == (86_700.0, "cancelled")


@pytest.mark.slow
@pytest.mark.parametrize("until", ["14d", "17d"])
def test_old_tasks_are_deleted(tmp_path: Path, until: str) -> None:
    """A completed task is deleted 15 days after its end, with its thread and its entry on the board; not its record."""
    ran = house(tmp_path, [TASK_SAYS, MAKE_TASK, {"call": MESSAGE}], [MAKE, write(60, "Research please")], until=until)
    deleted = until == "17d"
    assert (TASK not in ran.goals.records) == deleted
    assert len(list(ran.world.tasks.all())) == (0 if deleted else 1)
    assert len(ran.goals.conversations.conversations) == (1 if deleted else 2)
    assert [found for found in ran.found() if found[2] == "removed"] == (
        [(1_296_300.0, TASK, "removed")] if deleted else []
    )
    assert ran.thread(TASK) == []
    assert ran.rows("SELECT status FROM tasks") == ["done"]
