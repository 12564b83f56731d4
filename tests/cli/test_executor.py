"""Tasks of executors as stories, the files of their workspaces, and the plan tree of the report."""

import json
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.kinds.executor.story import Stories
from sim.record import open_run
from tests.helpers import command
from tests.viewer.conftest import overview_of

FILE = Path(__file__).parents[2] / "scenarios" / "software_team.yaml"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The scenario, run once."""
    return str(sim.run(FILE, out=tmp_path_factory.mktemp("team")).run)


def shown(run: str, *arguments: str) -> str:
    """Return what `sim show` prints."""
    code, out, err = command("show", run, *arguments)
    assert code == 0, err
    return out


@pytest.mark.slow
def test_a_task_reads_as_a_story(ran: str) -> None:
    """What was planned, tried, what failed, what was planned instead, checked, and what it cost, in order."""
    text = shown(ran, "task", "7")
    parts = [
        "7: slugify (success)", "[x] textkit/slug.py exists", "planner, as a part of 1 plan (success)",
        "6 tests (success)",
        "criteria_met: all criteria are met", "step 1: progress 0 → 0.75", "I add the function to the module.",
        "tried       workspace.edit_file(new=return text.lower(), old=pass, path=textkit/slug.py)",
        "failed      the tool 'workspace.edit_file' failed: there is no file",
        "The module does not exist yet. I write it.",
        "workspace.write_file(path=textkit/slug.py, text=def slugify(text): ... (2 lines))",
        "checked     [x] textkit/slug.py exists", "step 2: progress 0.75 → 1", "ended       success (criteria_met)",
    ]  # fmt: skip
    places = [text.find(part) for part in parts]
    assert -1 not in places
    assert places == sorted(places)


def test_denials_gates_and_help_are_told(ran: str) -> None:
    """Each has a line of its own, in its place."""
    help_of = shown(ran, "task", "5")
    assert "denied      release.publish: coder may not call release.publish: help-publish was made" in help_of
    assert help_of.index("denied ") < help_of.index("resumed ") < help_of.index("step 2")
    assert "10 help-publish (success)" in help_of
    doubt = shown(ran, "task", "8")
    assert "confidence  0.40 (uncertain): 0.4 It does not know what is wanted." in doubt
    assert "asked       Low confidence: 0.40 (gate-1)" in doubt
    assert "approved    lead let it continue" in doubt
    loop = shown(ran, "task", "3")
    assert loop.count("tried ") == 9
    assert "asked       Loop detected: 3 identical errors in a row" in loop
    assert "ended       escalated (loop_detected)" in loop
    assert "helps" in shown(ran, "task", "10")


def test_a_task_as_json(ran: str) -> None:
    """The same as data, with the numbers of its parts."""
    found = json.loads(shown(ran, "task", "1", "--json"))
    assert (found["name"], found["status"], found["steps"], found["parts"]) == ("plan", "success", 6, [6, 7, 8, 9])
    assert found["lines"][0]["kind"] == "step"


def test_a_task_of_no_executor_is_shown_as_before(ran: str) -> None:
    """A number that does not exist is refused with the numbers that do."""
    code, _, err = command("show", ran, "task", "99")
    assert code == 2
    assert "its tasks are numbered 1 to 10" in err


def test_a_task_that_goes_on_is_told_so_far(tmp_path: Path) -> None:
    """A story can be read before its end."""
    run = sim.run(FILE, out=tmp_path, until="5s").run or ""
    text = shown(run, "task", "1")
    assert "1: plan (under way)" in text
    assert "ended" not in text
    assert "9: " not in shown(run, "sql", "SELECT task_id FROM agent_execution_history")


def test_the_files_of_a_project(ran: str, tmp_path: Path) -> None:
    """They are listed, shown whole, and written to a folder as they were at the end."""
    names = shown(ran, "workspace")
    assert "textkit/cut.py" in names
    assert "README.md" in names
    text = shown(ran, "workspace", "textkit")
    assert "== textkit/slug.py (version 2, by coder)\nimport re\n" in text
    found = json.loads(shown(ran, "workspace", "textkit", "--json"))["files"]
    assert {one["file"] for one in found} >= {"PLAN.md", "CHANGELOG.md", "notes.txt"}
    target = tmp_path / "files"
    code, out, err = command("export", ran, "workspace", "--to", target, "--json")
    assert code == 0, err
    assert json.loads(out) == {"folder": str(target), "files": 9}
    assert (target / "textkit" / "notes.txt").read_text() == "(empty)\n"
    code, _, err = command("export", ran, "workspace", "--to", target)
    assert (code, "exists already" in err) == (2, True)


def test_what_cannot_be_shown(ran: str, tmp_path: Path) -> None:
    """Unknown projects, runs without files, and a view without a format are refused with a hint."""
    code, _, err = command("show", ran, "workspace", "textkti")
    assert (code, "did you mean 'textkit'?" in err) == (2, True)
    other = tmp_path / "other.yaml"
    other.write_text("name: other\nuntil: 1s\nagents: [{name: a, rules: [{do: stop}]}]\n")
    empty = sim.run(other, out=tmp_path).run or ""
    for arguments in (["show", empty, "workspace"], ["export", empty, "workspace", "--to", tmp_path / "x"]):
        code, _, err = command(*arguments)
        assert (code, "has no files of executors" in err) == (2, True)
    code, _, err = command("export", ran, "events", "--to", tmp_path / "x.txt")
    assert (code, "give --format" in err) == (2, True)


def test_the_report_has_a_plan_tree(ran: str) -> None:
    """Parts and help are below the task that they belong to."""
    with open_run(Path(ran)) as stored:
        found = overview_of(stored)["sections"]["executions"]
    assert [one["name"] for one in found["roots"]] == ["plan", "cleanup", "benchmark", "translate", "publish"]
    assert [one["name"] for one in found["roots"][0]["parts"]] == ["tests", "slugify", "truncate", "review"]
    assert [one["name"] for one in found["roots"][4]["parts"]] == ["help-publish"]
    assert (found["total"], found["shown"]) == (10, 10)


@pytest.mark.parametrize(
    "data",
    [{}, {"task": "1"}, {"task": 1, "attempts": 3}, {"task": 1, "attempts": [1], "validation": 5, "timestamp": "x"},
     {"task": 1, "criteria": "x", "validation": {"criteria": [None]}, "parent": 1, "depends_on": "x"}],
)  # fmt: skip
def test_forged_events_break_no_story(data: dict[str, Any]) -> None:
    """Whatever the data of an event is, the others are told."""
    stories = Stories(most=1)
    for what in (
        "added",
        "started",
        "step",
        "denied",
        "confidence",
        "escalated",
        "approved",
        "retry",
        "resumed",
        "returned",
        "ended",
    ):
        stories.add(0, f"execution.{what}", data)
    stories.add(0, "execution.added", {"task": 2})
    assert stories.total >= 1
    assert len(stories.by_number) == 1
