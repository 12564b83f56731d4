"""Tasks: who gets which, in which order, what comes before what, and what people and executors can ask for."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.kernel.codec import freeze
from sim.kinds.executor import Criterion, ExecutionTask, Executors
from sim.world import Message, World
from sim.world.actions.messages import deliver
from tests.agents.executor.team import FILE, team, write
from tests.helpers import command

ASSIGN: dict[str, Any] = {
    "executor.assign_task": {"name": "part", "goal": "A part", "agent_type": "coder", "files": ["part.txt"]}
}
PLANNER = {"name": "planner", "kind": "executor", "settings": {"type": "planner", "tools": ["executor.assign_task"]}}


TWICE = [{"text": "c", "tool": "executor.assign_task", "times": 2}]


def job(**more: Any) -> dict[str, Any]:
    """Return a task for a coder, which is done when `out.txt` exists."""
    return {"goal": "Do it", "type": "coder", "criteria": [FILE], **more}


def order(ran: Any) -> list[str]:
    """Return the names of the tasks in the order in which they began."""
    found: list[str] = ran.rows("SELECT data ->> '$.name' FROM events WHERE topic = 'execution.started' ORDER BY id")
    return found


def test_tasks_wait_for_those_that_they_depend_on(tmp_path: Path) -> None:
    """A task begins when all before it have succeeded, whatever its priority and its place in the file."""
    tasks = {
        "last": job(project="a", depends_on=["one", "two"], priority=9),
        "one": job(project="b"), "two": job(project="c", depends_on=["one"]),
    }  # fmt: skip
    ran = team(tmp_path, {name: [write()] for name in tasks}, tasks=tasks)
    assert order(ran) == ["one", "two", "last"]
    assert ran.rows("SELECT depends_on FROM tasks ORDER BY task") == [None, "[1]", "[1,2]"]


def test_what_depends_on_a_failure_never_begins(tmp_path: Path) -> None:
    """It ends at once with the reason, and so does what depends on it."""
    tasks = {
        "one": job(max_steps=1), "two": job(project="b", depends_on=["one"]),
        "three": job(project="c", depends_on=["two"]), "four": job(project="d"),
    }  # fmt: skip
    ran = team(tmp_path, {"one": [write("a.txt")], "four": [write()]}, tasks=tasks)
    assert ran.ended("one") == ("failed", "max_steps")
    assert ran.ended("two") == ran.ended("three") == ("failed", "dependency")
    assert ran.state("three").metadata["reason"] == "task 2 ended with failed"
    assert ran.ended("four") == ("success", "criteria_met")
    assert order(ran) == ["one", "four"]


def test_the_most_urgent_comes_first(tmp_path: Path) -> None:
    """By priority, then by number; a task that starts later is not taken before its time."""
    tasks = {
        "low": job(project="a", priority=-1), "first": job(project="b"), "second": job(project="c"),
        "high": job(project="d", priority=5), "later": job(project="e", priority=99, start="1h"),
    }  # fmt: skip
    ran = team(tmp_path, {name: [write()] for name in tasks}, tasks=tasks)
    assert order(ran) == ["high", "first", "second", "low", "later"]
    assert ran.state("later").started_ns == 3600 * 10**9


def test_tasks_are_shared_by_all_executors_of_a_type(tmp_path: Path) -> None:
    """Each executor takes one at a time; nobody takes what another one has."""
    tasks = {f"job{n}": job(project=f"p{n}") for n in range(9)}
    slow = {"provider": "simulated", "simulated": {"first_token": 10, "per_token": 0}}
    coder = {"name": "more", "kind": "executor", "count": 2, "settings": {"type": "coder", "tools": list(_TOOLS)}}
    ran = team(tmp_path, {name: [write()] for name in tasks}, tasks=tasks, models=slow, agents=[coder])
    owners = [ran.state(name).agent_id for name in tasks]
    assert sorted(owners) == ["coder"] * 3 + ["more-1"] * 3 + ["more-2"] * 3
    assert max(state.completed_ns or 0 for state in ran.executors.states.values()) < 31 * 10**9


_TOOLS = ("workspace.write_file",)


def test_a_planner_assigns_tasks(tmp_path: Path) -> None:
    """They are parts of its task, in its project, and of the types that there are."""
    tasks = {"plan": {"goal": "x", "type": "planner", "criteria": [{"text": "c", "tool": "executor.assign_task"}]}}
    unknown = {"executor.assign_task": {**ASSIGN["executor.assign_task"], "agent_type": "painter"}}
    plans: Any = {"plan": [[unknown, ASSIGN]], "part": [write("part.txt")]}
    ran = team(tmp_path, plans, tasks=tasks, agents=[PLANNER])
    refused = ran.state("plan").steps_history[0].attempts[0].result.error or ""
    assert "there are no executors of the type 'painter'; there are coder, planner" in refused
    assert (ran.state("part").parent, ran.state("part").creator) == (1, "planner")
    assert ran.ended("part") == ("success", "criteria_met")


def test_parts_of_parts_are_limited(tmp_path: Path) -> None:
    """An executor that assigns its task on and on is told to do it itself; without that, tasks would never end."""
    tasks = {"plan": {"goal": "x", "type": "planner", "criteria": [FILE]}}
    again = {"executor.assign_task": {**ASSIGN["executor.assign_task"], "agent_type": "planner", "files": ["out.txt"]}}
    rules = [{"use": "agent", "call": again}]
    ran = team(tmp_path, {}, tasks=tasks, rules=rules, agents=[PLANNER], executor={"max_steps": 3, "parts": 2})
    assert ran.count("tasks") == 1 + 3 + 9
    refused = [state for state in ran.executors.states.values() if state.failure_count]
    assert len(refused) == 9
    error = refused[0].steps_history[0].execution_result.error or ""
    assert "tasks can be nested 2 deep, so do this one yourself" in error


def test_a_tool_that_gives_tasks_is_limited_as_well(tmp_path: Path) -> None:
    """What an executor makes with `world.run_task` in a step is a part of its task."""
    given = {"name": "sub", "goal": "g", "agent_type": "coder", "files": ["part.txt"]}
    ran = team(
        tmp_path, {"job": [{"world.run_task": given}, write()], "sub": [{"world.run_task": given}, write("part.txt")]},
        offered=["world.run_task", "workspace.write_file"], executor={"parts": 1, "attempts": 1},
    )  # fmt: skip
    assert (ran.state("sub").parent, ran.state("sub").creator) == (1, "coder")
    assert ran.count("tasks") == 2


@pytest.mark.parametrize(
    "done", [{"world.complete_task": {"task": 1}}, {"world.update_task": {"task": 1, "status": "done"}}]
)
def test_nobody_ends_a_task_but_its_criteria(tmp_path: Path, done: Any) -> None:
    """The actions for other tasks cannot change a task of executors, nor make one; not even its own executor can."""
    steps: Any = {
        "ana": [
            (1, "complete_task", {"task": 2}), (2, "update_task", {"task": 2, "status": "cancelled"}),
            (3, "create_task", {"title": "x", "kind": "execution"}),
        ]
    }  # fmt: skip
    tasks = {"job": job(), "later": job(project="b", start="1h")}
    ran = team(
        tmp_path, {"job": [done, write()], "later": [write()]}, tasks=tasks, steps=steps,
        offered=[next(iter(done)), "workspace.write_file"], executor={"attempts": 1},
    )  # fmt: skip
    said = "tasks of the kind 'execution' are made and changed by their own actions only"
    assert said in (ran.state().steps_history[0].execution_result.error or "")
    assert ran.ended() == ran.ended("later") == ("success", "criteria_met")
    refused = "SELECT data ->> '$.error' FROM events WHERE actor = 'ana' AND NOT data ->> '$.success'"
    assert ran.rows(refused) == [said] * 3


def test_two_tasks_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """The second one has its number in its name."""
    tasks = {"plan": {"goal": "x", "type": "planner", "criteria": TWICE}}
    plans: Any = {"plan": [ASSIGN], "part": [write("part.txt")], "part-3": [write("part.txt", "y")]}
    ran = team(tmp_path, plans, tasks=tasks, agents=[PLANNER])
    assert [state.task_id for state in ran.executors.states.values()] == ["plan", "part", "part-3"]


def test_a_person_gives_tasks_during_the_run(tmp_path: Path) -> None:
    """The action `run_task` makes a task as the scenario does; what is not valid is refused with the reason."""
    given = {"name": "extra", "goal": "More", "agent_type": "coder", "files": ["e.txt"], "project": "other"}
    steps: Any = {
        "ana": [
            (10, "run_task", given),
            (20, "run_task", {**given, "name": "next", "depends_on": ["extra"], "files": ["n.txt"]}),
            (30, "run_task", {**given, "agent_type": "painter"}),
            (31, "run_task", {**given, "files": []}),
            (32, "run_task", {**given, "depends_on": ["nothing"]}),
            (33, "run_task", {**given, "project": "../x"}),
            (34, "run_task", {**given, "criteria": "good"}),
            (35, "run_task", {**given, "name": "two\nlines"}),
            (36, "run_task", {**given, "priority": 10**9}),
            (37, "run_task", {**given, "goal": "g" * 20_001}),
        ]
    }
    ran = team(tmp_path, {"job": [write()], "extra": [write("e.txt")], "next": [write("n.txt")]}, steps=steps)
    assert ran.ended("extra") == ran.ended("next") == ("success", "criteria_met")
    assert (ran.state("extra").creator, ran.state("extra").project_id) == ("ana", "other")
    failed = "topic = 'action.run_task' AND NOT data ->> '$.success'"
    refused = ran.rows(f"SELECT data ->> '$.error' FROM events WHERE {failed} ORDER BY id")  # noqa: S608
    assert refused == [
        "there are no executors of the type 'painter'; there are coder", "a task has at least one criterion",
        "there is no task 'nothing'", "'../x' is not the name of a project: small letters, digits, _ and -",
        "criteria is a list of texts, not 'good'",
        "'two\\nlines' is not the name of a task: small letters, digits, _ and -",
        "a priority is from -1000 to 1000", "a task has a goal of up to 20,000 characters",
    ]  # fmt: skip


def test_the_open_tasks_are_limited(tmp_path: Path) -> None:
    """Beyond the limit no task is made; those that have ended do not count."""
    given = {"name": "extra", "goal": "More", "agent_type": "coder", "files": ["e.txt"]}
    slow = {"provider": "simulated", "simulated": {"first_token": 15, "per_token": 0}}
    steps: Any = {"ana": [(10, "run_task", given), (20, "run_task", given)]}
    plans = {"job": [write()], "extra": [write("e.txt")]}
    ran = team(tmp_path, plans, steps=steps, models=slow, executor={"open_tasks": 1})
    assert ran.rows("SELECT data ->> '$.error' FROM events WHERE topic = 'action.run_task'") == [
        "there are 1 open tasks already", None,
    ]  # fmt: skip


class Outside(sim.Agent):
    """Does something to the world at a time, as a person outside the run does."""

    deeds: Sequence[tuple[float, Callable[[World], object]]] = ()

    async def decide_action(self) -> sim.Action:
        """Do what is due; else sleep until then."""
        done = self.state.setdefault("done", 0)
        if done == len(self.deeds):
            return sim.Action("stop")
        at, deed = self.deeds[done]
        if self.world.now < at:
            return sim.Action("sleep", {"condition": {"until": at}})
        self.state["done"] = done + 1
        deed(self.world)
        return sim.Action("noop")


def outside(*deeds: tuple[float, Callable[[World], object]]) -> dict[str, Any]:
    """Return the options of a team with someone outside who does this."""
    kind = type("Outside", (Outside,), {"deeds": deeds})
    return {"agents": [{"name": "outside", "kind": "outside"}], "run": {"kinds": {"outside": kind}}}


def stop_coder(world: World) -> None:
    """Stop the executor `coder` after its present step."""
    coder = world.agents["coder"]
    assert isinstance(coder, sim.Agent)
    coder.shutdown()


def test_an_executor_that_stops_gives_its_tasks_back(tmp_path: Path) -> None:
    """Another one of its type goes on with the same state; one that comes back later does so too."""
    slow = {"provider": "simulated", "simulated": {"first_token": 10, "per_token": 0}}
    more = {"name": "more", "kind": "executor", "settings": {"type": "coder", "tools": list(_TOOLS)}}
    given = outside((15, stop_coder))
    given["agents"].insert(0, more)
    plans: Any = {"job": [write("a.txt", "1"), write("b.txt", "2"), write("c.txt", "3"), write()]}
    ran = team(tmp_path, plans, models=slow, **given)
    assert ran.ended() == ("success", "criteria_met")
    assert ran.state().current_step == 4
    by = ran.rows("SELECT agent_id FROM agent_execution_steps ORDER BY step_number")
    assert by == ["coder", "coder", "more", "more"]
    notes = ran.rows("SELECT note FROM task_history WHERE task = 1 AND note IS NOT NULL")
    assert notes == ["coder has stopped"]
    assert ran.rows("SELECT agent_id, total_steps FROM agent_execution_history") == [("more", 4)]
    code, out, _ = command("show", ran.folder, "task", "1")
    assert code == 0
    assert "coder has stopped; another executor of its type can continue" in out


def test_a_task_that_waits_for_its_model_waits_on_when_it_is_given_back(tmp_path: Path) -> None:
    """Another executor does not ask earlier because the first one has stopped."""
    more = {"name": "more", "kind": "executor", "settings": {"type": "coder", "tools": list(_TOOLS)}}
    given = outside((15, stop_coder))
    given["agents"].append(more)
    rules = [{"use": "agent", "when": "now < 20", "fail": "network"}]
    ran = team(tmp_path, {"job": [write()]}, rules=rules, executor={"retry_delay": "100s"}, **given)
    assert ran.ended() == ("success", "criteria_met")
    assert ran.rows("SELECT time FROM llm_calls ORDER BY id") == pytest.approx([0.1, 100.1], abs=0.3)


def test_a_task_whose_help_ends_after_its_executor_has_stopped(tmp_path: Path) -> None:
    """It is planned again on the board until another executor takes it."""
    reviewer = {"name": "reviewer", "kind": "executor", "settings": {"type": "reviewer", "tools": list(_TOOLS)}}
    access = {"rules": [{"allow": True, "agents": ["reviewer"]}, {"allow": True, "tools": ["executor.*"]}]}
    slow = {"provider": "simulated", "simulated": {"first_token": 10, "per_token": 0}}
    given = outside((15, stop_coder))
    given["agents"].append(reviewer)
    ran = team(
        tmp_path, {"job": [write("a")], "help-job": [write("b")]}, access=access, models=slow, offered=_TOOLS, **given
    )  # fmt: skip
    assert ran.ended("help-job") == ("success", "criteria_met")
    assert ran.ended() == (None, None)
    assert ran.rows("SELECT status FROM task_history WHERE task = 1 AND status IS NOT NULL ORDER BY id") == [
        "pending", "active", "waiting", "pending",
    ]  # fmt: skip


def of(name: str) -> Callable[[World], sim.AgentLoop]:
    """Return what finds the loop of an agent."""

    def found(world: World) -> sim.AgentLoop:
        agent = world.agents[name]
        assert isinstance(agent, sim.Agent)
        return agent.loop

    return found


def test_a_paused_executor_does_not_hold_up_a_task(tmp_path: Path) -> None:
    """Of the executors that sleep, one is woken that is not paused. If all are paused, one takes it when it goes on."""
    more = {"name": "more", "kind": "executor", "settings": {"type": "coder", "tools": list(_TOOLS)}}
    tasks = {"job": job(start="1h")}
    given = outside((15, lambda world: of("coder")(world).pause()))
    given["agents"].insert(0, more)
    ran = team(tmp_path / "one", {"job": [write()]}, tasks=tasks, **given)
    assert (ran.ended(), ran.state().agent_id) == (("success", "criteria_met"), "more")
    given = outside(
        (15, lambda world: of("coder")(world).pause()), (15, lambda world: of("more")(world).pause()),
        (7200, lambda world: of("more")(world).resume()), (7201, lambda world: of("coder")(world).resume()),
    )  # fmt: skip
    given["agents"].insert(0, more)
    ran = team(tmp_path / "all", {"job": [write()]}, tasks=tasks, **given)
    assert ran.ended() == ("success", "criteria_met")
    assert ran.state().started_ns == pytest.approx(7201 * 10**9, abs=10**9)


def test_an_executor_that_stops_when_it_was_woken_holds_up_no_task(tmp_path: Path) -> None:
    """Another one that sleeps is woken for the task."""

    def deed(world: World) -> None:
        given = ExecutionTask("Do it", "coder", (Criterion("c", file="out.txt"),))
        Executors.of(world).add("outside", "extra", given)  # wakes `coder`, which is the first that sleeps
        of("coder")(world).request_stop("stop")

    more = {"name": "more", "kind": "executor", "settings": {"type": "coder", "tools": list(_TOOLS)}}
    given = outside((3600, deed))
    given["agents"].append(more)
    ran = team(tmp_path, {"job": [write("a.txt")], "extra": [write()]}, tasks={"job": job(max_steps=1)}, **given)
    assert (ran.ended("extra"), ran.state("extra").agent_id) == (("success", "criteria_met"), "more")


def test_a_pause_by_the_operator_takes_no_time_of_a_task(tmp_path: Path) -> None:
    """As with other waits for people, the timeout begins to run again when the executor goes on."""
    slow = {"provider": "simulated", "simulated": {"first_token": 60, "per_token": 0}}
    given = outside((90, lambda world: of("coder")(world).pause()), (9000, lambda world: of("coder")(world).resume()))
    plans: Any = {"job": [write("a.txt", "1"), write("b.txt", "2"), write()]}
    ran = team(tmp_path, plans, models=slow, executor={"timeout": "10m"}, **given)
    assert ran.ended() == ("success", "criteria_met")
    assert (ran.state().completed_ns or 0) > 9000 * 10**9


def test_without_another_executor_a_task_waits(tmp_path: Path) -> None:
    """A task whose only executor has stopped stays planned, and is no error."""
    given = outside((15, stop_coder))
    slow = {"provider": "simulated", "simulated": {"first_token": 10, "per_token": 0}}
    ran = team(tmp_path, {"job": [write("a.txt", "1"), write("b.txt", "2")]}, models=slow, **given)
    assert ran.ended() == (None, None)
    assert ran.rows("SELECT status FROM tasks") == ["pending"]
    assert ran.result.errors == 0


def test_a_task_that_has_not_begun_can_be_read(tmp_path: Path) -> None:
    """Its story has its goal and its criteria; that its executors stop when the run ends is no part of it."""
    ran = team(tmp_path, {"job": [{"fail": "network"}]}, tasks={"job": job(start="1d"), "two": job(project="b")})
    code, out, _ = command("show", ran.folder, "task", "1")
    assert code == 0
    assert "goal      Do it" in out
    assert "criteria  [ ] out.txt exists" in out
    assert ran.rows("SELECT count(*) FROM events WHERE topic = 'execution.returned'") == [0]


def test_a_note_of_a_person_is_in_the_prompts(tmp_path: Path) -> None:
    """What a person tells an executor is text for its model; messages of other agents are not."""

    def tell(sender: str) -> Callable[[World], object]:
        return lambda world: deliver(world, Message(sender, "coder", "", freeze(f"{sender}: use blue"), 0))

    rules = [
        {"text": "other: use blue", "fail": "auth"},
        {
            "text": "<notes_of_people>*person: use blue",
            "call": {"workspace.write_file": {"path": "out.txt", "text": "b"}},
        },
    ]
    slow = {"provider": "simulated", "simulated": {"first_token": 10, "per_token": 0}}
    ran = team(
        tmp_path, {"job": [write("a.txt", "1"), write("b.txt", "2")]}, rules=rules, models=slow,
        **outside((3, tell("other")), (5, tell("person"))),
    )  # fmt: skip
    assert ran.ended() == ("success", "criteria_met")
    assert ran.state().metadata["notes"] == [{"from": "person", "text": "person: use blue"}]


def test_the_board_has_the_words_of_executions(tmp_path: Path) -> None:
    """Planned, running, waiting, paused, success, failed and escalated are words of the board's statuses."""
    ran = team(tmp_path, {"job": [{"executor.report_uncertainty": {"reason": "?"}}]}, confidence="0")
    task = ran.world.tasks.get(1)
    assert (task.status, task.word) == ("failed", "escalated")
    assert ran.rows("SELECT status, kind FROM tasks") == [("failed", "execution")]
