"""Denied tools: an allowed alternative, the help of a specialist, or a gate; and the limits of all that."""

from pathlib import Path
from typing import Any

import pytest

from tests.agents.executor.team import ASKED, Team, team, write

PUBLISH: dict[str, Any] = {"release.publish": {"version": "1"}}
TOOLS: dict[str, Any] = {
    "functions": {
        "release.publish": {
            "description": "Publish.", "parameters": {"version": {"type": "string"}}, "returns": "'out ' + args.version"
        },
        "files.remove": {"description": "Remove.", "parameters": {}, "returns": "'gone'"},
    }
}  # fmt: skip
OTHERS = {"allow": True, "tools": ["executor.*", "workspace.*"]}
REVIEWER = {"name": "reviewer", "kind": "executor", "settings": {"type": "reviewer", "tools": ["release.publish"]}}
OFFERED = ["release.publish", "files.remove", "workspace.write_file"]


def only(*agents: str) -> dict[str, Any]:
    """Return access with which only these may publish."""
    return {"rules": [OTHERS, {"allow": True, "agents": list(agents), "tools": ["release.publish"]}]}


def published(ran: Team) -> list[str]:
    """Return who has published."""
    called = "topic = 'action.use_tool' AND data ->> '$.arguments.tool' = 'release.publish' AND data ->> '$.success'"
    return ran.rows(f"SELECT actor FROM events WHERE {called}")  # noqa: S608 - constants


@pytest.mark.slow
def test_an_alternative_is_planned_with_what_is_allowed(tmp_path: Path) -> None:
    """Only the allowed alternatives are offered then, the denied tool is not offered again in this task."""
    alternatives = {"alternatives": {"files.remove": ["release.publish", "workspace.write_file"]}}
    plans: Any = {"job": [[{"files.remove": {}}, write()]]}
    ran = team(tmp_path, plans, offered=OFFERED, tools=TOOLS, access=only("nobody"), executor=alternatives, audit={})
    first = ran.state().steps_history[0]
    assert [one.result.status for one in first.attempts] == ["denied", "ok"]
    assert first.attempts[1].time_ns - first.attempts[0].time_ns < 10**9  # nothing is waited for
    assert ran.state().metadata["denied"] == ["files.remove"]
    assert (ran.count("denied"), ran.count("alternatives"), ran.count("help")) == (1, 1, 0)
    assert ran.rows("SELECT count(*) FROM audit WHERE what = 'tool.denied'") == [1]


def test_a_specialist_helps(tmp_path: Path) -> None:
    """Who may call the tool gets a task, plans for itself, and the one who asked goes on with the result."""
    plans: Any = {"job": [PUBLISH, write()], "help-job": [PUBLISH]}
    ran = team(tmp_path, plans, offered=OFFERED, tools=TOOLS, access=only("reviewer"), agents=[REVIEWER])
    state, help = ran.state(), ran.state("help-job")  # noqa: A001 - the word of the domain
    assert state.steps_history[0].execution_result.status == "passed_on"
    assert (help.agent_id, help.helps, help.parent) == ("reviewer", state.number, state.number)
    assert help.tool_executions[0].status == "ok"
    assert state.metadata["help"] == [{"task": "help-job", "status": "success", "output": ["out 1"]}]
    assert ran.ended() == ran.ended("help-job") == ("success", "criteria_met")
    assert published(ran) == ["reviewer"]


def test_help_that_fails_is_told(tmp_path: Path) -> None:
    """The task goes on without the help, and knows that."""
    plans: dict[str, Any] = {"job": [PUBLISH, write()], "help-job": [{"fail": "auth"}]}
    ran = team(tmp_path, plans, offered=OFFERED, tools=TOOLS, access=only("reviewer"), agents=[REVIEWER])
    assert ran.ended("help-job") == ("failed", "no_model")
    assert ran.state().metadata["help"][0]["status"] == "failed"
    assert ran.ended() == ("success", "criteria_met")


def test_while_a_task_waits_its_executor_does_others(tmp_path: Path) -> None:
    """Two executors that need each other's help do not block each other."""
    tasks = {
        "one": {"goal": "x", "type": "coder", "criteria": [{"text": "a", "file": "a.txt"}]},
        "two": {"goal": "y", "type": "reviewer", "criteria": [{"text": "b", "file": "b.txt"}]},
    }
    tools = {
        "functions": {**TOOLS["functions"], "mail.send": {"description": "s", "parameters": {}, "returns": "'ok'"}}
    }
    access = {"rules": [OTHERS, {"allow": True, "agents": ["reviewer"], "tools": ["release.publish"]},
                        {"allow": True, "agents": ["coder"], "tools": ["mail.send"]}]}  # fmt: skip
    own = ["release.publish", "mail.send", "workspace.write_file"]
    reviewer = {"name": "reviewer", "kind": "executor", "settings": {"type": "reviewer", "tools": own}}
    plans: Any = {
        "help-one": [PUBLISH], "help-two": [{"mail.send": {}}],
        "one": [PUBLISH, write("a.txt")], "two": [{"mail.send": {}}, write("b.txt")],
    }  # fmt: skip
    ran = team(tmp_path, plans, tasks=tasks, offered=own, tools=tools, access=access, agents=[reviewer])
    assert {name: ran.ended(name)[0] for name in plans} == dict.fromkeys(plans, "success")


def test_the_last_resort_is_a_person(tmp_path: Path) -> None:
    """Without alternative and specialist a person decides; approved, the task goes on without the call."""
    given: dict[str, Any] = {"offered": OFFERED, "tools": TOOLS, "access": only("nobody"), "agents": [REVIEWER]}
    ran = team(tmp_path / "yes", {"job": [PUBLISH, write()]}, approvals=ASKED, **given)
    assert ran.state().steps_history[0].execution_result.status == "decided"
    assert ran.ended() == ("success", "criteria_met")
    assert ran.rows("SELECT reason FROM gates") == [
        "Blocked: release.publish: coder may not call release.publish"
    ]  # the person lets the task continue; the right to publish is not the person's to give here
    assert published(ran) == []
    ran = team(tmp_path / "nobody", {"job": [PUBLISH, write()]}, **given)
    assert ran.ended() == ("escalated", "escalation")
    assert (ran.state().escalation_reason or "").startswith("Blocked: release.publish")


def test_help_is_not_passed_on_for_ever(tmp_path: Path) -> None:
    """Help for help is limited in depth; then a person is needed."""
    plans: Any = {"job": [PUBLISH], "help-job": [{"release.publish": {"version": "2"}}]}
    ran = team(
        tmp_path, plans, offered=OFFERED, tools=TOOLS, access=only("reviewer"), agents=[REVIEWER], executor={"help": 0}
    )
    assert ran.count("help") == 0
    assert ran.ended() == ("escalated", "escalation")


def test_the_help_for_the_last_step_is_followed_by_no_other_step(tmp_path: Path) -> None:
    """The task has succeeded if the specialist has met its criteria, and else all steps are used."""
    specialist = {"type": "reviewer", "tools": ["release.publish", "workspace.write_file"]}
    given: dict[str, Any] = {
        "offered": OFFERED, "tools": TOOLS, "access": only("reviewer"), "executor": {"max_steps": 1},
        "agents": [{"name": "reviewer", "kind": "executor", "settings": specialist}],
    }  # fmt: skip
    ran = team(tmp_path / "no", {"job": [PUBLISH, write()], "help-job": [PUBLISH]}, **given)
    assert ran.ended("help-job") == ("success", "criteria_met")
    assert (ran.ended(), ran.state().current_step) == (("failed", "max_steps"), 1)
    tasks = {"job": {"goal": "Do it", "type": "coder", "criteria": [{"text": "c", "file": "out.txt"}], "max_steps": 1}}
    plans: Any = {"job": [PUBLISH, write("b")], "help-job": [write(), PUBLISH]}
    ran = team(tmp_path / "yes", plans, tasks=tasks, **{**given, "executor": {}})
    assert (ran.ended(), ran.state().current_step) == (("success", "criteria_met"), 1)
    assert ran.state().progress_score == 1


def test_a_call_that_a_person_denies_is_denied(tmp_path: Path) -> None:
    """A gate of the tool itself that is denied leads to another way, as a lack of rights does."""
    rules = {"rules": [{"tool": "release.publish"}], "simulated": {"policy": "deny", "latency": "1m", "name": "boss"}}
    alternatives = {"alternatives": {"release.publish": ["workspace.write_file"]}}
    ran = team(
        tmp_path, {"job": [[PUBLISH, write()]]}, offered=OFFERED, tools=TOOLS, approvals=rules, executor=alternatives
    )
    attempts = ran.state().steps_history[0].attempts
    assert [one.result.status for one in attempts] == ["denied", "ok"]
    assert "denied by boss" in (attempts[0].result.error or "")
