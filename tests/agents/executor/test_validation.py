"""Progress by tests, artifacts and the judgement of a model, in this order; and test runs in the sandbox."""

from pathlib import Path
from typing import Any

import pytest

import sim
from sim.base.errors import UsageError
from sim.kinds.executor import testing
from sim.kinds.executor.settings import Criterion
from sim.tools.process import sandbox_fault
from tests.agents.executor.team import DONE, Team, team, write
from tests.agents.people import rows_of
from tests.helpers import command

needs_sandbox = pytest.mark.skipif(sandbox_fault() is not None, reason=f"no sandbox here: {sandbox_fault()}")
ALLOWED = {"allow_commands": True}
TEST = """
from one import add

def test_small():
    assert add(1, 2) == 3

def test_large():
    assert add(5, 5) == 10
"""
RIGHT = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    if a > 1:\n        return 0\n    return a + b\n"
TESTED = {"job": {"goal": "Add", "type": "coder", "criteria": [{"text": "add works", "tests": "test_one.py"}]}}
BY_TEXT = {"job": {"goal": "Write", "type": "coder", "criteria": [{"text": "It is a poem."}]}}
OFFERED = ["workspace.write_file", "workspace.run_tests", "workspace.read_file", "workspace.delete_file"]


def with_tests(folder: Path, steps: Any, **options: Any) -> Team:
    """Run a task with the criterion that tests pass, with real runs of pytest."""
    files = {"test_one.py": TEST, **options.pop("files", {})}
    return team(folder, {"job": steps}, tasks=TESTED, files=files, offered=OFFERED, run=ALLOWED, **options)


# -- tests


@pytest.mark.slow
@needs_sandbox
def test_tests_show_the_progress(tmp_path: Path) -> None:
    """Half of the tests are half of the way; counts, coverage and their changes are measured."""
    ran = with_tests(tmp_path, [write("one.py", WRONG), write("one.py", RIGHT)])
    first, second = ran.state().steps_history
    assert (first.acceptance_progress, second.acceptance_progress) == (0.5, 1.0)
    assert first.validation.method == second.validation.method == "tests"
    detail = first.validation.criteria[0].detail
    assert detail == "1 of 2 tests fail: test_one.py::test_large: assert 0 == 10"
    wanted = {"tests_passed": 2, "tests_failed": 0, "passed_increase": 1, "failure_rate_decrease": 0.5}
    assert wanted.items() <= second.validation.metrics.items()
    assert (first.validation.metrics["coverage"], second.validation.metrics["coverage"]) == (100.0, 100.0)
    assert ran.ended() == ("success", "criteria_met")


@pytest.mark.slow
@needs_sandbox
def test_coverage_counts_the_lines_that_ran(tmp_path: Path) -> None:
    """A function that no test calls lowers the coverage; tests themselves do not count."""
    more = RIGHT + "\ndef other(x):\n    y = x\n    return y\n"
    ran = with_tests(tmp_path, [write("one.py", more)])
    assert ran.state().progress_metrics["coverage"] == 60.0


@pytest.mark.slow
@needs_sandbox
def test_plugins_that_are_installed_are_loaded_only_if_a_project_asks(tmp_path: Path) -> None:
    """The outcome of tests does not depend on what else is installed, unless their project says what it needs."""
    test = "import sys\n\ndef test_it(anyio_backend_name):\n    assert 'xdist' not in sys.modules\n"
    asks = "pytest_plugins = ['anyio.pytest_plugin']\n"
    ran = with_tests(tmp_path, [write("one.py", RIGHT)], files={"test_two.py": test, "conftest.py": asks})
    assert ran.state().progress_metrics["tests_failed"] == 0


@pytest.mark.slow
@needs_sandbox
def test_tests_run_again_only_when_files_change(tmp_path: Path) -> None:
    """A step that changes no file, and a run that the executor plans itself, cause no second run."""
    run: Any = {"workspace.run_tests": {}}
    ran = with_tests(
        tmp_path, [write("one.py", WRONG), {"workspace.read_file": {"path": "one.py"}}, run, write("one.py", RIGHT)]
    )
    assert ran.count("test_runs") == 3
    planned = ran.state().steps_history[2].execution_result.output
    assert (planned["passed"], planned["failed"], planned["exit_code"]) == (1, 1, 1)
    assert [one["name"] for one in planned["tests"]] == ["test_one.py::test_large", "test_one.py::test_small"]


@pytest.mark.slow
@needs_sandbox
@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("def add(a, b)\n    return a + b\n", "SyntaxError: expected ':'"),
        ("import os\nos._exit(3)\n", "the test run was ended: 3"),
        ("def add(a, b):\n    raise ValueError(object())\n", "ValueError: <object object at 0x>"),
        ("while True: pass\n", "the test run was ended: "),
        ("x" * 5 + "\n", "NameError: name 'xxxxx' is not defined"),
    ],
    ids=["syntax", "exit", "address", "endless", "name"],
)
def test_code_that_breaks_the_run_is_a_failed_test(tmp_path: Path, module: str, said: str) -> None:
    """Whatever the code does, the step has a result, without addresses, and the task goes on."""
    limits = {"test_seconds": 6} if "while" in module else {}  # enough for the tests that pass, on a slow machine
    ran = with_tests(tmp_path, [write("one.py", module), write("one.py", RIGHT)], executor=limits)
    first = ran.state().steps_history[0]
    assert first.acceptance_progress == 0
    assert said in first.validation.criteria[0].detail
    assert ran.ended() == ("success", "criteria_met")


@pytest.mark.slow
@needs_sandbox
def test_a_file_that_cannot_be_imported_does_not_hide_the_others(tmp_path: Path) -> None:
    """Tests of another file count, although one cannot be collected."""
    ran = with_tests(tmp_path, [write("one.py", RIGHT)], files={"test_two.py": "import missing_module\n"})
    assert ran.ended() == ("success", "criteria_met")
    assert ran.state().progress_metrics["tests_failed"] == 1


@pytest.mark.slow
@needs_sandbox
def test_a_step_that_makes_it_worse_has_failed(tmp_path: Path) -> None:
    """If the progress falls, the step counts as failed, and the model is told."""
    ran = with_tests(
        tmp_path, [write("one.py", WRONG), write("one.py", "def add(a, b): return 0\n"), write("one.py", RIGHT)]
    )
    assert ran.state().steps_history[1].error_if_failed == "the progress fell from 0.5 to 0"


@pytest.mark.slow
@needs_sandbox
def test_a_replay_and_a_branch_do_not_repeat_test_runs(tmp_path: Path) -> None:
    """Test runs are on record: a replay needs no permission, a branch only for runs after it began."""
    ran = with_tests(tmp_path, [write("one.py", WRONG), write("one.py", RIGHT)])
    replayed = sim.replay(str(ran.folder))
    assert replayed.same, replayed.difference
    branched = sim.branch(str(ran.folder), at="5s", out=tmp_path / "branch", allow_commands=True)
    states = "SELECT state_snapshot FROM agent_execution_history"
    assert rows_of(Path(branched.run or ""), states) == ran.rows(states)


def test_where_no_tests_can_be_run_a_model_judges(tmp_path: Path) -> None:
    """Without the permission of the operator the criterion is judged, and that is tried once."""
    ran = team(tmp_path, {"job": [write("one.py", RIGHT)]}, tasks=TESTED, files={"test_one.py": TEST}, offered=OFFERED)
    step = ran.state().steps_history[0]
    assert step.validation.method == "model"
    assert ran.executors.tests_fault == "the operator has not allowed commands in this run"
    assert ran.ended() == ("success", "criteria_met")
    assert ran.count("test_runs") == 1


def test_tests_that_a_model_judged_are_told_as_such(tmp_path: Path) -> None:
    """Code that fails its test can end as a success then: the run warns, counts it, and the story says who judged."""
    plans: Any = {"job": [write("one.py", WRONG)]}
    tasks = {**TESTED, "other": {"goal": "Write", "type": "coder", "criteria": [{"text": "It is a poem."}]}}
    ran = team(tmp_path, {**plans, "other": [DONE]}, tasks=tasks, files={"test_one.py": TEST}, offered=OFFERED)
    assert (ran.ended("job"), ran.ended("other")) == (("success", "criteria_met"),) * 2
    assert ran.result.services["executor"]["tests_judged"] == 1
    ((warning,), hint) = [one["text"] for one in ran.result.warnings], ran.result.warnings[0]["hint"]
    fault = "the operator has not allowed commands in this run"
    assert warning == f"1 task has succeeded with tests that a model judged: {fault}"
    assert hint == "allow test runs with --allow-commands"
    story, shown = (command("show", ran.folder, *given)[1] for given in (("task", "1"), ()))
    assert story.count("[x] add works (judged by a model)") == 2  # in the head, and after the step
    assert "all criteria are met (tests judged by a model)" in story
    assert warning in shown
    assert "judged by a model" not in command("show", ran.folder, "task", "2")[1]
    assert ran.rows("SELECT tests_judged FROM agent_execution_history") == [1, 0]
    code, _, err = command("run", ran.file, "--no-record")
    assert (code, f"sim: warning: {warning}\nhint: {hint}\n" in err) == (0, True)


@pytest.mark.slow
@needs_sandbox
def test_tests_that_ran_are_not_judged(tmp_path: Path) -> None:
    """Where tests run, there is no warning, and nothing counts as judged."""
    ran = with_tests(tmp_path, [write("one.py", RIGHT)])
    assert (ran.ended(), ran.result.warnings, ran.count("tests_judged")) == (("success", "criteria_met"), [], 0)


def test_a_planned_run_that_is_not_allowed_fails(tmp_path: Path) -> None:
    """The tool says why no tests can be run."""
    plans: Any = {"job": [[{"workspace.run_tests": {}}, write("one.py", RIGHT)]]}
    ran = team(tmp_path, plans, tasks=TESTED, files={"test_one.py": TEST}, offered=OFFERED)
    assert "no tests can be run" in (ran.state().steps_history[0].attempts[0].result.error or "")


@pytest.mark.slow
@needs_sandbox
def test_a_path_is_no_option(tmp_path: Path) -> None:
    """A model cannot pass options to pytest."""
    plans: Any = [[{"workspace.run_tests": {"path": "--pdb"}}, write("one.py", RIGHT)]]
    ran = with_tests(tmp_path, plans)
    assert "there is no file or folder '--pdb'" in (ran.state().steps_history[0].attempts[0].result.error or "")


@pytest.mark.proof
@needs_sandbox
def test_one_test_can_be_run(tmp_path: Path) -> None:
    """A path can name one test; the validation of the step runs all of them."""
    plans: Any = [write("one.py", WRONG), {"workspace.run_tests": {"path": "test_one.py::test_small"}}]
    ran = with_tests(tmp_path, [*plans, write("one.py", RIGHT)])
    found = ran.state().steps_history[1]
    assert (found.execution_result.output["passed"], found.execution_result.output["failed"]) == (1, 0)
    assert found.acceptance_progress == 0.5


@pytest.mark.proof
@needs_sandbox
def test_all_of_many_tests_count(tmp_path: Path) -> None:
    """The list of tests is cut, those that failed first; the verdict is not: the last of 500 tests fails."""
    many = "import pytest\nfrom one import add\n@pytest.mark.parametrize('n', range(500))\ndef test_it(n):\n"
    files = {"test_many.py": f"{many}    assert add(n, 0) == n\n"}
    tasks = {"job": {"goal": "Add", "type": "coder", "criteria": [{"text": "add works", "tests": "test_many.py"}]}}
    last = "def add(a, b):\n    return a + b if a < 499 else 0\n"
    given: Any = {"tasks": tasks, "files": files, "offered": OFFERED, "run": ALLOWED}
    ran = team(tmp_path, {"job": [write("one.py", last), write("one.py", RIGHT)]}, **given)
    first = ran.state().steps_history[0].validation
    assert (first.metrics["tests_passed"], first.metrics["tests_failed"]) == (499, 1)
    assert first.criteria[0].detail.startswith("1 of 500 tests fail: test_many.py::test_it[499]: assert 0 == 499")
    assert not first.met
    assert ran.ended() == ("success", "criteria_met")


@pytest.mark.slow
@needs_sandbox
@pytest.mark.parametrize(
    ("step", "said"),
    [
        (write("conftest.py", "import nothing_here\n"), "pytest cannot run: ModuleNotFoundError: No module named"),
        (write("/".join("abcdefghijklmnopqrst") + "/x", "x"), "a test run has at most 20 files and folders"),
    ],
    ids=["conftest", "folders"],
)
def test_a_workspace_that_cannot_be_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Any, said: str
) -> None:
    """Its tests fail with the reason, instead of what was known before, and no model judges instead."""
    monkeypatch.setattr(testing, "MOST_FILES", 20)
    delete = {"workspace.delete_file": {"path": next(iter(step.values()))["path"]}}
    ran = with_tests(tmp_path, [step, write("one.py", RIGHT), delete])
    details = [one.validation.criteria[0].detail for one in ran.state().steps_history]
    assert all(detail.startswith(said) for detail in details[:2])
    assert ran.ended() == ("success", "criteria_met")
    assert [call.use for call in ran.state().llm_calls] == ["agent"] * 3


# -- artifacts


def test_files_and_their_texts(tmp_path: Path) -> None:
    """A file that exists without the text is half of the way."""
    criteria = [{"text": "c", "file": "a.txt", "contains": "yes"}]
    tasks = {"job": {"goal": "x", "type": "coder", "criteria": criteria}}
    ran = team(tmp_path, {"job": [write("b.txt"), write("a.txt", "no"), write("a.txt", "yes")]}, tasks=tasks)
    assert [step.acceptance_progress for step in ran.state().steps_history] == [0.0, 0.5, 1.0]
    assert ran.state().steps_history[0].validation.method == "artifacts"


def test_lines_and_dependencies_are_counted(tmp_path: Path) -> None:
    """What a task made is measured: files, lines of Python, and packages."""
    plans = [write("one.py", RIGHT), write("requirements.txt", "attrs>=23\n# none\nanyio\ntrio\n"), write()]
    ran = team(tmp_path, {"job": plans}, files={"old.py": "1\n2\n3\n", "requirements.txt": "attrs\n"})
    metrics = ran.state().progress_metrics
    assert (metrics["files_created"], metrics["lines_written"], metrics["dependencies_added"]) == (2, 2, 2)


def test_calls_of_a_tool(tmp_path: Path) -> None:
    """A criterion can want several calls; only those that succeed count."""
    criteria = [{"text": "c", "tool": "workspace.write_file", "times": 2}]
    tasks = {"job": {"goal": "x", "type": "coder", "criteria": criteria}}
    ran = team(tmp_path, {"job": [[write("../a"), write("a")], write("b")]}, tasks=tasks)
    assert [step.acceptance_progress for step in ran.state().steps_history] == [0.5, 1.0]


# -- the judgement of a model


def test_a_model_judges_what_nothing_else_shows(tmp_path: Path) -> None:
    """It is asked when files changed, or the executor says that it has finished, and from 0.9 on it is satisfied."""
    rules = [
        {"use": "judge", "text": "<summary>", "say": "0.95 A poem."},
        {"use": "judge", "say": "40% It has no end."},
    ]
    ran = team(
        tmp_path, {"job": [write(), {"workspace.read_file": {"path": "out.txt"}}, DONE]}, tasks=BY_TEXT, rules=rules
    )
    state = ran.state()
    assert [step.acceptance_progress for step in state.steps_history] == [0.4, 0.4, 0.95]
    assert [call.use for call in state.llm_calls] == ["agent", "judge", "agent", "agent", "judge"]
    assert ran.ended() == ("success", "criteria_met")


def test_a_judge_that_says_no_number_is_not_satisfied(tmp_path: Path) -> None:
    """What cannot be read does not meet a criterion."""
    ran = team(tmp_path, {"job": [DONE]}, tasks=BY_TEXT, judge="It is wonderful", executor={"max_steps": 2})
    assert ran.ended() == ("failed", "max_steps")


def test_a_model_is_asked_last(tmp_path: Path) -> None:
    """While something that can be checked is missing, no money is spent on a judgement."""
    criteria = [{"text": "a", "file": "a.txt"}, {"text": "nice"}]
    tasks = {"job": {"goal": "x", "type": "coder", "criteria": criteria}}
    ran = team(tmp_path, {"job": [write("b.txt"), write("a.txt")]}, tasks=tasks)
    assert [call.use for call in ran.state().llm_calls] == ["agent", "agent", "judge"]
    assert ran.state().steps_history[1].validation.method == "artifacts"
    assert [one.method for one in ran.state().steps_history[1].validation.criteria] == ["artifacts", "model"]


# -- criteria


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"text": " "}, "has a text"),
        ({"text": "x", "tests": "a", "file": "b"}, "about one thing"),
        ({"text": "x", "contains": "b"}, "about a file"),
        ({"text": "x", "times": 2}, "about calls"),
        ({"text": "x", "file": "../b"}, "stay in its folder"),
    ],
)
def test_a_criterion_that_makes_no_sense_is_refused(given: dict[str, Any], said: str) -> None:
    """It says in one sentence what is wrong."""
    with pytest.raises(UsageError, match=said):
        Criterion(**given)
