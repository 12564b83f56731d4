"""Test runs: the files of a project and their tests in a sandbox, as a pure effect with a modelled duration.

The request of the effect holds all files, and its outcome has names, outcomes and coverage, but no times and no paths.
So a test run can be replayed, repeated after a crash, and branched like everything else.

The code under test runs in the process that reports. So that it cannot simply print a report and exit, the report
begins with a secret, the key of the effect, which contains the id of the run and is not in the request.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

from sim.base.errors import RunError, UsageError
from sim.kernel import Effect, perform
from sim.kernel.codec import JsonObject, decode
from sim.kinds.executor.records import PytestReport, TaskState, TestCounts, TestOutcome
from sim.kinds.executor.service import Executors
from sim.kinds.executor.workspace import is_in
from sim.tools import Tools
from sim.tools.process import Command, ProcessLimits, ProcessResult
from sim.tools.registry import tool_of_action
from sim.world import Inhabitant, Refused, World
from sim.world.action import action

RUN_TESTS: Final = "workspace.run_tests"

_PROGRAM: Final = Path(__file__).with_name("pytest_driver.py").read_text(encoding="utf-8")
"""The program of a test run. Its text is part of each request, and so of the hash of a run."""

MOST_FILES: Final = 900
"""The most files and folders of a test run. With them, the limit of the sandbox leaves room for those of the tests."""

_GRACE: Final = 86_400.0  # the limits of the command end it; other commands may have to be waited for


async def perform_tests(world: World, state: TaskState, path: str) -> PytestReport:
    """Run tests of the project of a task.

    Args:
        world: the world.
        state: the task.
        path: a file or folder, or one test in a file, as `file::name`; empty: all tests.

    Returns:
        `passed`, `failed`, `skipped`, `coverage` in per cent, `exit_code` of pytest, `files`: these numbers by file,
        and `tests`: name, outcome and message of the first ones; `ended`: why there is no complete report, if so.

    Raises:
        Refused: if there is no such path, or no tests can be run here. Then `Executors.tests_fault` says why.
    """
    executors = Executors.of(world)
    settings, files = executors.settings, executors.workspace.texts(state.project_id)
    if path and not any(is_in(name, path) for name in files):
        raise Refused(f"there is no file or folder {path!r:.100}")
    try:
        command = _command(files, path, settings.test_seconds)
    except UsageError as error:  # the workspace is too large, so its tests fail
        return _ended(str(error))
    processes = Tools.of(world).processes

    async def call(request: JsonObject, key: str) -> PytestReport:
        return _report(await processes.run({**request, "stdin": key}, key), key)

    effect = Effect(
        "workspace.tests", command.request(), call, latency_ns=settings.test_latency, timeout=_GRACE, safety="pure"
    )
    outcome = await perform(effect)
    executors.counts["test_runs"] += 1
    if outcome.kind == "ok":
        executors.tests_fault = None
        executors.counts["test_reports"] += 1
        return cast("PytestReport", dict(outcome.value))  # what `call` returned, now or when it was recorded
    value = outcome.value if isinstance(outcome.value, Mapping) else {}
    why = str(value.get("message") or outcome.kind)
    if executors.counts["test_reports"] and value.get("type") != UsageError.__name__:
        return _ended(why)  # tests can be run here, so no model judges instead of them
    executors.tests_fault = why
    raise Refused(f"no tests can be run: {why}")


def _command(files: Mapping[str, str], path: str, seconds: float) -> Command:
    """Return the command that runs tests.

    Raises:
        UsageError: if the files are too large or too many.
    """
    limits = ProcessLimits(wall=seconds, cpu=max(1, round(seconds)))
    folders = {name[:end] for name in files for end, letter in enumerate(name) if letter == "/"}
    if len(files) + len(folders) > MOST_FILES:
        raise UsageError(f"a test run has at most {MOST_FILES} files and folders")
    arguments = ("python", "-P", "-s", "-c", _PROGRAM, f"./{path}")  # the dot: a path is no option
    return Command(arguments, files, limits=limits)


def _report(result: ProcessResult, secret: str) -> PytestReport:
    """Return what the driver printed. Without that, the code under test has ended the run: this is a failed test.

    Raises:
        RunError: if there is no pytest.
    """
    _, mark, text = str(result["stdout"]["text"]).rstrip("\n").rpartition(f"\n{secret}")
    if mark and not result["stdout"]["truncated"] and result["exit_code"] == 0:
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            return _checked(decode(text.encode()))
    return _ended(f"the test run was ended: {result['killed_by'] or result['exit_code']}")


def _checked(raw: Any) -> PytestReport:
    """Return a report with exactly what it should have, and sums that fit; raise what Python raises otherwise."""
    if "fault" in raw:
        raise RunError(str(raw["fault"]))
    files = {str(name): _counts(one) for name, one in raw["files"].items()}
    tests: list[TestOutcome] = [
        {"name": str(one["name"]), "outcome": str(one["outcome"]), "message": str(one["message"])}
        for one in raw["tests"]
    ]
    report: PytestReport = {
        "exit_code": int(raw["exit_code"]),
        "coverage": None if raw["coverage"] is None else float(raw["coverage"]),
        "passed": sum(one["passed"] for one in files.values()),
        "failed": sum(one["failed"] for one in files.values()),
        "skipped": sum(one["skipped"] for one in files.values()),
        "files": files,
        "tests": tests,
    }
    if "ended" in raw:
        report["ended"] = str(raw["ended"])
    return report


def _counts(raw: Any) -> TestCounts:
    return {"passed": int(raw["passed"]), "failed": int(raw["failed"]), "skipped": int(raw["skipped"])}


def _ended(why: str) -> PytestReport:
    """Return the report of a run that brought none: one failed test."""
    return {
        "exit_code": -1,
        "coverage": None,
        "passed": 0,
        "failed": 1,
        "skipped": 0,
        "files": {},
        "tests": [],
        "ended": why,
    }


async def _run(world: World, agent: Inhabitant, path: str = "") -> PytestReport:
    return await perform_tests(world, Executors.of(world).state_of(agent.agent_id), path)


@action("run_tests", wait=_run, ends=True, everywhere=False, draws=False)
def run_tests(world: World, agent: Inhabitant, report: PytestReport, path: str = "") -> PytestReport:
    """Run the tests of the project with pytest, and return how many passed and which failed.

    Args:
        path: a file or folder of tests; empty for all.
    """
    executors = Executors.of(world)
    state = executors.state_of(agent.agent_id)
    keep_report(executors, state, path, report)
    return report


def keep_report(executors: Executors, state: TaskState, path: str, report: PytestReport) -> None:
    """Keep the latest test run of a task, for the validation of its steps."""
    changes = executors.workspace.changes.get(state.project_id, 0)
    state.metadata["tests"] = {**report, "path": path, "changes": changes}


TESTS: Final = tool_of_action(run_tests, RUN_TESTS)
"""The tool that runs tests."""
