"""The workspace: files as artifacts, what the tools refuse, and what is on record."""

from pathlib import Path
from typing import Any

import pytest

from sim.world import Refused
from tests.agents.executor.team import FILE, Team, team, write

OFFERED = [f"workspace.{name}" for name in ("list_files", "read_file", "write_file", "edit_file", "delete_file")]


def called(folder: Path, *plans: Any, files: Any = None, limits: Any = None) -> Team:
    """Run a task whose first steps are these calls; then it writes its file."""
    given = {"attempts": 1, "monitoring": {"stalled_steps": 50, "same_errors": 50}, **(limits or {})}
    return team(folder, {"job": [*plans, write()]}, offered=OFFERED, files=files, executor=given)


def outputs(ran: Team) -> list[Any]:
    """Return what each step returned, or its error."""
    results = [step.execution_result for step in ran.state().steps_history[:-1]]
    return [one.output if one.success else one.error for one in results]


def edit(path: str, old: str, new: str) -> Any:
    """Return the plan that edits a file."""
    return {"workspace.edit_file": {"path": path, "old": old, "new": new}}


def test_files_are_listed_read_written_edited_and_deleted(tmp_path: Path) -> None:
    """The tools work on the files of the project, and each change is a new version on record."""
    ran = called(
        tmp_path, {"workspace.list_files": {}}, {"workspace.read_file": {"path": "a.txt"}}, edit("a.txt", "old", "new"),
        write("d/b.txt", "b"), {"workspace.delete_file": {"path": "d/b.txt"}}, files={"a.txt": "old text"},
    )  # fmt: skip
    assert outputs(ran) == [
        ["a.txt"], "old text", {"path": "a.txt", "version": 2}, {"path": "d/b.txt", "version": 1}, "d/b.txt is deleted",
    ]  # fmt: skip
    rows = ran.rows("SELECT file, version, changed_by, text FROM workspace_files ORDER BY file")
    assert rows == [("a.txt", 2, "coder", "new text"), ("d/b.txt", None, "coder", None), ("out.txt", 1, "coder", "x")]
    held = ran.world.artifacts.get("project/a.txt")
    assert held is not None
    assert (held.content, held.owner, held.writers) == ("new text", "project", "owner")
    assert ran.world.artifacts.get("project/d/b.txt") is None


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (write("../out", "x"), "must stay in its folder"),
        (write("/etc/passwd", "x"), "must stay in its folder"),
        (write("a\\b", "x"), "without backslashes"),
        (write("a.txt/b", "x"), "'a.txt' cannot be both a file and the folder of 'a.txt/b'"),
        (write("long.txt", "x" * 101), "at most 100 characters, not 101"),
        (write("third.txt", "x"), "at most 2 files"),
        ({"workspace.read_file": {"path": "none"}}, "there is no file 'none'; there are a.txt, b.txt"),
        ({"workspace.delete_file": {"path": "none"}}, "there is no file 'none'"),
        (edit("a.txt", "z", "y"), "must occur once, and occurs 0 times"),
        (edit("a.txt", "a", "y"), "must occur once, and occurs 2 times"),
        (edit("a.txt", "", "y"), "must occur once, and occurs 0 times"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_and_changes_nothing(tmp_path: Path, plan: Any, said: str) -> None:
    """One sentence says what is wrong."""
    limits = {"files": 2, "file_length": 100, "max_steps": 1}
    ran = called(tmp_path, plan, files={"a.txt": "aa", "b.txt": "b"}, limits=limits)
    step = ran.state().steps_history[0]
    assert said in (step.execution_result.error or "")
    assert ran.executors.workspace.texts("project") == {"a.txt": "aa", "b.txt": "b"}


def test_a_text_has_no_nul(tmp_path: Path) -> None:
    """The views of the record would end a text there. Only a model can bring one, since a scenario cannot have it."""
    ran = called(tmp_path)
    with pytest.raises(Refused, match="text without NUL characters"):
        ran.executors.workspace.write("project", "a.txt", "x\0y", by="coder")
    assert "a.txt" not in ran.executors.workspace.files["project"]


def test_an_artifact_of_others_is_no_file(tmp_path: Path) -> None:
    """What an agent made under the id of a file stays its own."""
    steps = {"ana": [(0.01, "write", {"artifact": "project/out.txt", "content": "mine"})]}
    slow = {"provider": "simulated", "simulated": {"first_token": 10, "per_token": 0}}
    ran = team(tmp_path, {"job": [write()]}, steps=steps, models=slow, executor={"attempts": 1, "max_steps": 1})
    assert "the artifact 'project/out.txt' belongs to ana" in (ran.state().steps_history[0].error_if_failed or "")
    held = ran.world.artifacts.get("project/out.txt")
    assert held is not None
    assert held.content == "mine"


def test_projects_do_not_see_each_other(tmp_path: Path) -> None:
    """A task works in the workspace of its own project."""
    tasks = {
        "one": {"goal": "x", "type": "coder", "criteria": [FILE], "project": "alpha"},
        "two": {"goal": "x", "type": "coder", "criteria": [FILE], "project": "beta", "depends_on": ["one"]},
    }
    ran = team(tmp_path, {"one": [write(text="1")], "two": [write(text="2")]}, tasks=tasks)
    assert ran.executors.workspace.texts("alpha") == {"out.txt": "1"}
    assert ran.executors.workspace.texts("beta") == {"out.txt": "2"}


def test_the_tools_work_only_within_a_step(tmp_path: Path) -> None:
    """An agent that works on no task has no workspace."""
    steps = {"ana": [(5, "use_tool", {"tool": "workspace.list_files", "args": {}})]}
    ran = team(tmp_path, {"job": [write()]}, steps=steps)
    assert ran.rows("SELECT data ->> '$.error' FROM events WHERE topic = 'action.use_tool' AND actor = 'ana'") == [
        "the tool 'workspace.list_files' failed: ana works on no task at present"
    ]
