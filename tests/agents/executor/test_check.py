"""Scenarios with executors that cannot work are refused before the run, with one sentence and a hint."""

import json
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.kinds.executor import Criterion, ExecutionTask, ExecutorsSettings
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
        (
            {"type": "coderr"},
            ":8:13: executor.tasks.job.type: no executor has the type 'coderr' (did you mean 'coder'?)",
        ),
        ({"type": ""}, ":8:13: executor.tasks.job.type: expected text of the form"),
        ({"criteria": [{"text": "c"}] * 101}, "a task has at most 100 criteria, not 101"),
        ({"depends_on": [f"t{n}" for n in range(101)]}, "a task has at most 100 tasks in `depends_on`, not 101"),
        ({"criteria": [{"text": "c" * 2001}]}, "a criterion has a text of up to 2,000 characters"),
        ({"criteria": [{"text": "c", "file": "a", "contains": ""}]}, "every file contains an empty text"),
        ({"goal": "g" * 20_001}, "a task has a goal of up to 20,000 characters"),
        ({"constraints": {"a": "g" * 20_000}}, "the constraints 20,000"),
        ({"protected": ["../a"]}, "must stay in its folder"),
        ({"criteria": []}, "a task has at least one criterion"),
        ({"goal": "  "}, "a task has a goal"),
        (
            {"depends_on": ["jub"]},
            ":15:19: executor.tasks.job.depends_on: there is no task 'jub' (did you mean 'job'?)",
        ),
        ({"depends_on": ["job"]}, ":15:19: executor.tasks.job.depends_on: these tasks wait for each other: job → job"),
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
    assert "executor.tasks.two.depends_on: these tasks wait for each other: one → two → one" in refused(
        tmp_path, scenario({}, tasks=tasks)
    )


def test_a_long_chain_of_tasks_is_put_in_order() -> None:
    """Tasks are made after those that they depend on, and otherwise as in the file; thousands take no time."""
    made = {f"t{n}": ExecutionTask("g", "x", (Criterion("c"),), depends_on=(f"t{n + 1}",)) for n in range(5000)}
    made |= {"t5000": ExecutionTask("g", "x", (Criterion("c"),)), "last": ExecutionTask("g", "x", (Criterion("c"),))}
    order = ExecutorsSettings(made, open_tasks=9999).in_order()
    assert order == [*(f"t{n}" for n in range(5000, -1, -1)), "last"]


def test_names_and_files_of_projects(tmp_path: Path) -> None:
    """Projects and tasks have names, and files fit into the limits, before anything is written."""
    good = scenario({"job": [write()]})

    def changed(**more: Any) -> str:
        return refused(tmp_path, {**good, "executor": {**good["executor"], **more}})

    for name in ("../x", "A B", "a/b", "", "X", "x" * 65):
        assert "expected text of the form" in changed(projects={name: {}})
        assert "expected text of the form" in changed(tasks={name: good["executor"]["tasks"]["job"]})
    both = {"project": {"files": {"a": "x", "a/b": "y"}}}
    assert "executor.projects.project: 'a' cannot be both a file and the folder of 'a/b'" in changed(projects=both)
    two = {"project": {"files": {"a.txt": "x" * 20, "b": "y"}}}
    said = changed(projects=two, file_length=10)
    assert "executor.projects.project.files.a.txt: at most 10 characters, not 20" in said
    assert "executor.projects.project.files: at most 1 files, not 2" in changed(projects=two, files=1)
    twice = {"one": good["executor"]["tasks"]["job"], "two": good["executor"]["tasks"]["job"]}
    assert "executor.tasks: 1 tasks can be open, and there are 2" in changed(tasks=twice, open_tasks=1)


def test_what_executors_need(tmp_path: Path) -> None:
    """The section, an agent, models, and tools that exist."""
    good = scenario({"job": [write()]})
    assert "add `executor:`" in refused(tmp_path, _without(good, "executor"))
    assert "add `models: {}`" in refused(tmp_path, _without(good, "models"))
    assert "needs agents" in refused(tmp_path, {**good, "agents": [{"name": "ana", "rules": [{"do": "stop"}]}]})
    unknown = scenario({"job": [write()]}, offered=["workspace.writ_file"])
    said = refused(tmp_path, unknown)
    assert ":51:14: agents.coder.settings.tools: there is no tool 'workspace.writ_file' (did you mean" in said
    others = scenario({"job": [write()]}, executor={"alternatives": {"workspace.write_file": ["no.tool"]}})
    assert "executor.alternatives: there is no tool 'no.tool'" in refused(tmp_path, others)
