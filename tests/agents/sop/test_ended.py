"""Tasks that somebody ends, pauses, hands over or opens again while a step of them is queued, done or awaited."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sim.world.world import World
from tests.agents.sop.company import PEOPLE, Company, inside

START = "events: [{at: 1s, topic: rung, data: {id: 7}}]\n"
WAIT = "[{name: rest, wait: {time: 1h, event: paid}}]"
HELD = "[{name: take, action: acquire, args: {pool: desk}}]"
POST = "[{name: tell, post: {text: told}}]"
PERSON = """approvals:
  person: simulated
  simulated: {name: boss, policy: POLICY, latency: 30m}
"""
HOLDER = """pools: {desk: {kind: resource, slots: 1}}
"""
HOLDS = """  - name: holder
    state: {n: 0}
    rules:
      - {when: n == 0, do: [{acquire: {pool: desk}}, {sleep: {for: 20m}}], set: {n: 1}}
      - {when: n == 1, do: [{release: {pool: desk}}, stop]}
"""


def change(world: World, **changes: Any) -> None:
    """Change the first task."""
    world.tasks.update(1, "boss", **changes)


def changed(status: str) -> Callable[[World], None]:
    """Return a function that gives the first task another status."""
    return partial(change, status=status)


def back(world: World, **changes: Any) -> None:
    """Change the first task after an hour."""
    world.kernel.call_at(3600 * 10**9, partial(change, world, **changes), world.kernel.supervisor)


def run(folder: Path, steps: str, look: Callable[[World], None], at: str, rest: str = "", people: str = "") -> Company:
    """Run one task, and change something within the run."""
    call = f"{{title: call, trigger: {{event: rung}}, concluded: over, steps: {steps}}}"
    text = f"until: 3h\nmemory: {{}}\nsop: {{procedures: {{call: {call}}}}}\n{START}{rest}{PEOPLE}{people}"
    return inside(folder, text, look, at)


def well(ran: Company, status: str) -> None:
    """Check that nothing failed, and how the task ended."""
    assert ran.statuses == [status]
    assert ran.result.errors == 0


@pytest.mark.parametrize("status", ["cancelled", "failed", "completed"])
def test_a_task_that_is_ended_in_its_last_wait_stays_as_it_is(tmp_path: Path, status: str) -> None:
    """The wait of an ended task ends by itself: no step is done, nothing is completed or remembered, nothing fails."""
    ran = run(tmp_path, WAIT, changed(status), "30m")
    well(ran, status)
    assert ran.rows("SELECT what FROM steps") == ["queued"]
    assert ran.result.services["sop"]["completed"] == 0
    assert "over" not in [memory.content for memory in ran.memories.all("clerk")]


@pytest.mark.parametrize("policy", ["approve", "deny"])
def test_a_decision_about_an_ended_task_changes_nothing(tmp_path: Path, policy: str) -> None:
    """A person who decides about a task that was cancelled meanwhile neither revives it nor ends it again."""
    steps = "[{name: ask, approval: may I}]"
    ran = run(tmp_path, steps, changed("cancelled"), "10m", PERSON.replace("POLICY", policy))
    well(ran, "cancelled")
    assert (ran.result.services["sop"]["cancelled"], ran.result.services["sop"]["steps"]) == (0, 0)


def test_a_task_that_is_cancelled_while_its_step_is_done_is_dropped(tmp_path: Path) -> None:
    """The worker finishes what it began, but the task stays cancelled and the step has no result."""
    ran = run(tmp_path, HELD, changed("cancelled"), "10m", HOLDER, HOLDS)
    well(ran, "cancelled")
    assert ran.rows("SELECT what FROM steps") == ["queued"]


def test_a_paused_task_is_not_worked_on_until_it_goes_on(tmp_path: Path) -> None:
    """A step that is queued when its task is paused is not done; when the task goes on, it is queued again."""

    def pause(world: World) -> None:
        change(world, status="paused")
        back(world, status="in_progress")

    # the only worker waits for the desk until minute 20, so the step of the second task is queued at minute 10
    sop = f"""until: 3h
sop:
  procedures:
    first: {{title: first, trigger: {{event: first}}, priority: 1, steps: {HELD}}}
    second: {{title: second, trigger: {{event: rung}}, steps: {POST}}}
events: [{{at: 1s, topic: rung}}, {{at: 2s, topic: first}}]
{HOLDER}"""
    ran = inside(tmp_path, sop + PEOPLE + HOLDS, pause, "11m")
    assert ran.statuses == ["completed", "completed"]
    assert ran.rows("SELECT time, what FROM steps WHERE task = 1") == [
        (600, "queued"), (3600, "queued"), (3600, "done"),
    ]  # fmt: skip


def test_a_task_that_is_paused_while_its_last_step_is_done_is_completed(tmp_path: Path) -> None:
    """What is done is done: the result is kept, and the task ends."""
    ran = run(tmp_path, HELD, changed("paused"), "10m", HOLDER, HOLDS)
    well(ran, "completed")


def test_a_paused_wait_ends_all_the_same(tmp_path: Path) -> None:
    """Time goes on while a task is paused, so a last wait completes it."""
    well(run(tmp_path, WAIT, changed("paused"), "10m"), "completed")


def test_a_failed_task_is_queued_once_for_each_try(tmp_path: Path) -> None:
    """A step that failed for good is not put back into the queue: no worker takes it again."""
    ran = run(
        tmp_path, "[{name: pay, action: transfer, args: {to: nobody, amount: 5}, retries: 1}]", lambda _: None, "1m"
    )
    assert ran.statuses == ["failed"]
    assert ran.rows("SELECT what FROM steps ORDER BY id") == ["queued", "failed", "queued", "failed"]


def test_a_failed_task_that_is_opened_again_goes_on_at_its_step(tmp_path: Path) -> None:
    """A person can have a failed task tried again; its step then has all its retries."""
    steps = "[{name: a, post: {text: one}}, {name: pay, tool: bank.pay, args: {}, retries: 0}]"
    formula = "1 if now > 3000 else 1 / 0"
    tool = f"tools: {{functions: {{bank.pay: {{description: Pay., parameters: {{}}, returns: {formula!r}}}}}}}\n"
    ran = run(tmp_path, steps, changed("pending"), "55m", tool)
    assert ran.statuses == ["completed"]
    assert [text for _, text in ran.posts("#desk")].count("one") == 1


def test_a_task_of_nobody_waits_until_an_employee_has_it(tmp_path: Path) -> None:
    """A task that is handed to somebody who is no employee stays as far as it is, and disturbs nobody."""

    def hand_over(world: World) -> None:
        change(world, assignee="stranger")
        back(world, assignee="clerk")

    ran = run(tmp_path, f"{HELD[:-1]}, {POST[1:]}", hand_over, "10m", HOLDER, HOLDS)
    well(ran, "completed")
    assert [text for at, text in ran.posts("#desk") if at >= 3600].count("told") == 1
