"""Scenarios with executors that cannot work are refused before the run, with one sentence and a hint."""

import json
from pathlib import Path
from typing import Any

import pytest

import sim
from tests.agents.executor.team import scenario, write


def _without(given: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key not in keys}


def refused(folder: Path, given: dict[str, Any]) -> str:
    """Return why a scenario is refused."""
    path = folder / "team.yaml"
    path.write_text(json.dumps(given, indent=1))
    with pytest.raises(sim.UsageError) as caught:
        sim.run(path, out=folder / "runs")
    assert not (folder / "runs").exists()
    return f"{caught.value} {caught.value.hint or ''}"


def with_task(**more: Any) -> dict[str, Any]:
    """Return a scenario with a task that has these settings."""
    task = {"goal": "x", "type": "coder", "criteria": [{"text": "c", "file": "a"}], **more}
    return scenario({"job": [write()]}, tasks={"job": task})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"type": "coderr"}, "no executor has the type 'coderr' did you mean 'coder'?"),
        ({"criteria": []}, "a task has at least one criterion"),
        ({"goal": "  "}, "a task has a goal"),
        ({"depends_on": ["jub"]}, "depends on 'jub', which is no task"),
        ({"depends_on": ["job"]}, "the task 'job' depends on itself"),
        ({"criteria": [{"text": "c", "tool": "workspace.writ_file"}]}, "there is no tool 'workspace.writ_file'"),
        ({"criteria": [{"text": "c", "file": "../b"}]}, "must stay in its folder"),
        ({"project": "../b"}, "project"),
        ({"cost_limit": -1}, "cost_limit"),
        ({"max_steps": 0}, "max_steps"),
    ],
)
def test_a_task_that_cannot_be_done(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    """The sentence names the task and what is wrong with it."""
    assert said in refused(tmp_path, with_task(**change))


def test_a_circle_of_tasks(tmp_path: Path) -> None:
    """Tasks that wait for each other would never begin."""
    task = {"goal": "x", "type": "coder", "criteria": [{"text": "c"}]}
    tasks = {"one": {**task, "depends_on": ["two"]}, "two": {**task, "depends_on": ["one"]}}
    assert "depends on itself" in refused(tmp_path, scenario({}, tasks=tasks))


def test_what_executors_need(tmp_path: Path) -> None:
    """The section, an agent, models, and tools that exist."""
    good = scenario({"job": [write()]})
    assert "add `executor:`" in refused(tmp_path, _without(good, "executor"))
    assert "add `models:`" in refused(tmp_path, _without(good, "models"))
    assert "needs agents" in refused(tmp_path, {**good, "agents": [{"name": "ana", "rules": [{"do": "stop"}]}]})
    unknown = scenario({"job": [write()]}, offered=["workspace.writ_file"])
    assert "did you mean 'workspace.write_file'?" in refused(tmp_path, unknown)
    others = scenario({"job": [write()]}, executor={"alternatives": {"workspace.write_file": ["no.tool"]}})
    assert "executor.alternatives: there is no tool 'no.tool'" in refused(tmp_path, others)
