"""Jobs are agents of their own; jobs and step workers are watched over as employees are; failures are said."""

from pathlib import Path
from typing import Any

import pytest

import sim
from sim.actors import Agent
from sim.agents import Family
from sim.kinds.sop.cycle import work_cycle
from sim.kinds.sop.employee import Employee
from sim.kinds.sop.settings import EmployeeSettings
from sim.kinds.sop.worker import run_step
from tests.agents.sop.company import JOBS, PEOPLE, Company, company

ONE = "sop: {procedures: {call: {title: call, steps: [{name: call, post: {text: called}}], trigger: {event: rung}}}}\n"
SUMMARIZED = JOBS.replace(", settings: {summarise: null}", "")


def alerts(ran: Company) -> list[tuple[float, str]]:
    """Return the minutes and the first lines of the warnings."""
    return [(at / 60, text.splitlines()[0]) for at, text in ran.posts("#escalations")]


class Stopper(sim.Agent):
    """Stops the agent that its name says."""

    async def decide_action(self) -> sim.Action:
        other: Any = self.world.agents[self.agent_id.removeprefix("no-")]
        assert isinstance(other, Agent)
        other.shutdown()
        return sim.Action("stop")


@pytest.mark.slow
def test_a_slow_summary_delays_no_other_job(tmp_path: Path) -> None:
    """While a model hangs over a summary, watchers that look alone look, and the daily summary comes at its time."""
    text = """until: 7d20h
memory: {}
sop:
  procedures: {lead: {title: lead, steps: [{name: call, post: {text: called}}]}}
  watchers: {inbox: {agent: clerk, sop: lead, event: lead, interval: 5m, alone: true}}
models:
  provider: simulated
  rules: [{use: summarize, say: S}, {say: nothing}]
  faults: [{kind: hang, start: 7d, end: 8d, seconds: 100000}]
events: [{at: 7d2h1m, topic: lead}]
"""
    noting = "5m, patterns: [{when: stats.cycles == 0, text: x, importance: 3}]"
    ran = company(
        tmp_path, text + PEOPLE.replace("5m", "1h", 1).replace("interval: 1h", f"interval: {noting}") + SUMMARIZED
    )
    [task] = ran.world.tasks.all()
    assert task.created_ns <= (7 * 86_400 + 2 * 3600 + 5 * 60) * 10**9
    daily = [at for at, text in ran.posts("#ops-log") if text.startswith("Daily summary")]
    assert daily == [(day * 24 + 18) * 3600 for day in range(8)]
    assert ran.rows("SELECT count(*) FROM llm_calls WHERE time > 7 * 86400") != [0]


def test_jobs_are_watched_over(tmp_path: Path) -> None:
    """A job that has stopped is missed after twice its interval: watchers by theirs, daily jobs after two days."""
    watcher = "}, watchers: {w: {agent: clerk, sop: call, event: lead, interval: 10m, alone: true}}}\n"
    text = f"until: 3d\nmemory: {{}}\n{ONE.rstrip()[:-2]}{watcher}"
    people = (
        PEOPLE.replace("5m", "1d")
        + JOBS
        + "".join(f"  - {{name: no-{job}, kind: stopper, start: 1h}}\n" for job in ("jobs", "jobs-maintenance"))
    )
    ran = company(tmp_path, text + people, kinds={"stopper": Stopper})
    assert alerts(ran)[0] == (70, "WARNING: jobs has not posted a heartbeat in 20 minutes")
    missing = [at for at, text in alerts(ran) if "jobs-maintenance has not" in text]
    assert missing == [2 * 24 * 60, (2 * 24 + 18) * 60]  # the second one repeats it, with the daily summary
    assert not [text for _, text in alerts(ran) if "jobs-summary" in text]
    summary = [text for _, text in ran.posts("#ops-log") if text.startswith("Daily summary")][-1]
    assert "Missing heartbeats: jobs, jobs-maintenance" in summary


def test_a_step_that_no_worker_takes_is_noticed(tmp_path: Path) -> None:
    """A worker is expected to work only while steps wait; then it is missed after twice its interval, once."""
    people = PEOPLE + "  - {name: no-worker, kind: stopper, start: 1h}\n"
    events = "events: [{at: 10m, topic: rung}, {at: 2h, topic: rung}]\n"
    ran = company(tmp_path, f"until: 4h\n{ONE}{events}" + people, kinds={"stopper": Stopper})
    assert alerts(ran) == [(135, "WARNING: worker has not posted a heartbeat in 10 minutes")]
    assert ran.statuses == ["completed", "in_progress"]


def test_a_worker_that_hangs_in_a_step_is_noticed(tmp_path: Path) -> None:
    """A step that takes longer than twice the interval of its worker is a warning, and not the end of the step."""
    sop = ONE.replace("post: {text: called}", "model: {prompt: Write.}")
    slow = "faults: [{kind: slow, start: 0s, end: 1h, seconds: 100}]"
    models = f"models: {{provider: simulated, rules: [{{say: done}}], {slow}}}\n"
    people = PEOPLE.replace("kind: step_worker", "kind: step_worker, settings: {interval: 30s}")
    ran = company(tmp_path, f"until: 1h\n{sop}{models}events: [{{at: 1s, topic: rung}}]\n" + people)
    [text] = [text for _, text in alerts(ran) if "worker" in text]
    assert text == "WARNING: worker has not posted a heartbeat in 1 minute"
    assert ran.statuses == ["completed"]


def test_tasks_are_stalled_after_a_day_unless_they_wait_longer(tmp_path: Path) -> None:
    """Without `stalled_after`, a task that is unchanged for a day beyond the longest wait of its steps is stalled."""
    text = """until: 5d
sop:
  procedures:
    plain: {title: plain, trigger: {event: rung}, steps: [{name: call, post: {text: called}}]}
    patient: {title: patient, trigger: {event: rung}, steps: [{name: wait, wait: {time: 2d}}]}
events: [{at: 1h, topic: rung}]
"""
    people = PEOPLE.replace("5m", "30d") + "  - {name: no-clerk, kind: stopper, start: 2h}\n"
    ran = company(tmp_path, text + people, kinds={"stopper": Stopper})
    found = ran.rows("SELECT data ->> '$.title', time / 3600 FROM events WHERE topic = 'task.stalled' ORDER BY id")
    assert [(title, round(hours)) for title, hours in found] == [("plain", 25), ("patient", 73)]


def test_steps_that_are_passed_over_cost_no_cycle(tmp_path: Path) -> None:
    """Four steps whose condition does not hold: the fifth is queued in the same cycle, as its one major action."""
    never = "".join(f"{{name: n{number}, when: 1 == 2, post: {{text: never}}}}, " for number in range(4))
    sop = ONE.replace("steps: [", f"steps: [{never}").replace("trigger: {event: rung}", "agent: clerk")
    sop = sop.rstrip()[:-2] + "}, watchers: {w: {agent: clerk, sop: call, event: lead}}}\n"
    people = PEOPLE.replace("5m", "15m")
    ran = company(tmp_path, f"until: 31m\n{sop}events: [{{at: 10m, topic: lead}}]\n" + people)
    assert [(at / 60, new, advanced) for at, new, _, advanced in ran.cycles()] == [(0, 0, 0), (15, 1, 1), (30, 0, 0)]
    assert ran.statuses == ["completed"]
    assert ran.rows("SELECT what FROM steps ORDER BY id") == ["skipped"] * 4 + ["queued", "done"]
    assert (ran.sops.metrics()["steps"], ran.sops.metrics()["skipped"]) == (1, 4)


def test_a_task_of_which_nothing_is_left_to_do_is_completed(tmp_path: Path) -> None:
    """If the condition of no step that is left holds, the task is completed in the cycle that finds that."""
    sop = ONE.replace("name: call, post", "name: call, when: 1 == 2, post")
    ran = company(tmp_path, f"until: 11m\n{sop}events: [{{at: 1m, topic: rung}}]\n" + PEOPLE)
    assert ran.statuses == ["completed"]
    assert ran.cycles() == [(0, 0, 0, 0), (pytest.approx(60, abs=1), 0, 1, 0), (300, 0, 0, 0), (600, 0, 0, 0)]


@pytest.mark.parametrize(("limit", "hurried"), [("", 50), ("triggers: {most: 3, per: 5m}, ", 3)])
def test_many_triggers_start_as_many_cycles_as_they_may(tmp_path: Path, limit: str, hurried: int) -> None:
    """Fifty triggers start fifty cycles, or within `per` at most `most`; the others wait, and none is lost."""
    sop = ONE.replace("sop: {", f"sop: {{{limit}")
    events = f"events: [{', '.join(['{at: 1m, topic: rung}'] * 50)}]\n"
    ran = company(tmp_path, f"until: 2h\n{sop}{events}" + PEOPLE.replace("5m", "1h"))
    times = [at for at, _, created, _ in ran.cycles() if created]
    assert sum(60 <= at < 360 for at in times) == hurried
    assert all(sum(start <= at < start + 300 for at in times if at % 3600) <= hurried for start in times)
    assert len(ran.world.tasks.all()) == 50  # type: ignore[arg-type]  # a view of a mapping


def test_one_action_an_interval_is_a_design(tmp_path: Path) -> None:
    """With `clock_only`, triggers wait for the clock, and each cycle makes one task, as the seed document says."""
    sop = ONE.replace("sop: {", "sop: {design: clock_only, ")
    events = f"events: [{', '.join(['{at: 1m, topic: rung}'] * 3)}]\n"
    ran = company(tmp_path, f"until: 26m\n{sop}{events}" + PEOPLE)
    assert [(at / 60, created + advanced) for at, _, created, advanced in ran.cycles()] == [
        (0, 0), (5, 1), (10, 1), (15, 1), (20, 1), (25, 1),
    ]  # fmt: skip


def test_a_failed_assessment_is_counted_and_said(tmp_path: Path) -> None:
    """Without an answer the rules alone decide; the failure is recorded each time, and said when it begins."""
    models = "models: {rules: [{when: now < 1000, fail: server}, {say: nothing}]}\n"
    people = PEOPLE.replace("interval: 5m", "interval: 5m, assess: {}")
    ran = company(tmp_path, f"until: 31m\n{ONE}{models}" + people)
    said = [text for _, text in ran.posts("#escalations")]
    assert len(said) == 1
    assert said[0].startswith("The assessment of clerk cannot be used: ")
    assert ran.rows("SELECT failed_assessments FROM employees") == [4]
    assert ran.sops.metrics()["failed_assessments"] == 4


def test_memories_that_a_prompt_leaves_out_are_recorded(tmp_path: Path) -> None:
    """The number of memories that did not fit into the prompt is a column of each cycle."""
    patterns = ", ".join(f"{{when: 1 == 1, text: {'word ' * 60}{number}, importance: 9}}" for number in range(3))
    people = PEOPLE.replace("interval: 5m", f"interval: 5m, patterns: [{patterns}]")
    ran = company(tmp_path, f"until: 6m\nmemory: {{tokens: 100}}\n{ONE}" + people)
    assert ran.rows("SELECT memories_cut FROM cycles ORDER BY id") == [0, 2]


class Boss(Employee):
    """An employee of another kind."""


BOSS = Family("boss", Boss, settings=EmployeeSettings, actions=(work_cycle, run_step))


def test_a_kind_that_inherits_from_employees_is_an_employee(tmp_path: Path) -> None:
    """What a kind can do is asked, not how it is called: a subclass has watchers, tasks, memories and heartbeats."""
    sop = (
        ONE.rstrip()[:-2].replace(", trigger: {event: rung}", "")
        + "}, watchers: {w: {agent: clerk, sop: call, event: lead}}}\n"
    )
    people = PEOPLE.replace("kind: employee", 'kind: "tests.agents.sop.test_watched:BOSS"')
    text = f"until: 11m\nmemory: {{kinds: {{note: 3}}}}\n{sop}events: [{{at: 1m, topic: lead}}]\n"
    ran = company(tmp_path, text + people, allow=["tests.agents.sop.test_watched"])
    assert ran.statuses == ["in_progress"] or ran.statuses == ["completed"]
    assert {memory.kind for memory in ran.memories.all("clerk")} == {"observation", "working_note"}
