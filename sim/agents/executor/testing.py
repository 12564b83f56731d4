"""Test runs: the files of a project and their tests in a sandbox, as a pure effect with a modelled duration.

The request of the effect holds all files, and its outcome has names, outcomes and coverage, but no times and no paths.
So a test run can be replayed, repeated after a crash, and branched like everything else.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from sim.agents.executor.records import TaskState
from sim.agents.executor.service import Executors
from sim.errors import RunError, UsageError
from sim.kernel import Effect, perform
from sim.kernel.codec import decode
from sim.tools import Tools
from sim.tools.process import Command, ProcessLimits
from sim.tools.registry import tool_of_action
from sim.world import Inhabitant, Refused, World
from sim.world.action import action

RUN_TESTS: Final = "workspace.run_tests"

_DRIVER: Final = "run_workspace_tests.py"
_PROGRAM: Final = Path(__file__).with_name("pytest_driver.py").read_text(encoding="utf-8")
_MOST_TESTS: Final = 200
_GRACE: Final = 86_400.0  # the limits of the command end it; other commands may have to be waited for


async def perform_tests(world: World, state: TaskState, path: str) -> dict[str, Any]:
    """Run tests of the project of a task.

    Args:
        world: the world.
        state: the task.
        path: a file or folder; empty: all tests.

    Returns:
        `passed`, `failed`, `skipped`, `coverage` in per cent, `exit_code` of pytest, and `tests`: name, outcome and
        message of each; `ended`: why the run was ended from outside, if it was.

    Raises:
        Refused: if no tests can be run. Then `Executors.tests_fault` says why.
    """
    executors = Executors.of(world)
    settings, files = executors.settings, executors.workspace.texts(state.project_id)
    seconds = settings.test_seconds
    limits = ProcessLimits(wall=seconds, cpu=max(1, round(seconds)))
    if path.startswith("-"):
        raise Refused(f"{path!r:.60} is no file or folder")
    try:
        arguments = ("python", _DRIVER, *([path] if path else []))
        command = Command(arguments, {**files, _DRIVER: _PROGRAM}, limits=limits)
    except UsageError as error:
        raise Refused(str(error)) from error
    processes = Tools.of(world).processes

    async def call(request: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        return _report(await processes.run(request, key))

    effect = Effect(
        "workspace.tests", command.request(), call, latency_ns=settings.test_latency, timeout=_GRACE, safety="pure"
    )
    outcome = await perform(effect)
    executors.counts["test_runs"] += 1
    if outcome.kind != "ok":
        value = outcome.value if isinstance(outcome.value, Mapping) else {}
        executors.tests_fault = str(value.get("message") or outcome.kind)
        raise Refused(f"no tests can be run: {executors.tests_fault}")
    executors.tests_fault = None
    return dict(outcome.value)


def _report(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the driver printed. A run that was killed, or printed something else, counts as one failed test."""
    last = str(result["stdout"]["text"]).strip().rpartition("\n")[2]
    try:
        found = decode(last.encode())
    except ValueError:
        found = None
    if not isinstance(found, dict) or not {"passed", "failed", "tests"} <= found.keys():
        if isinstance(found, dict) and "fault" in found:
            raise RunError(str(found["fault"]))
        why = f"the test run was ended: {result['killed_by'] or result['exit_code']}"
        return {
            "exit_code": -1, "passed": 0, "failed": 1, "skipped": 0, "coverage": None, "tests": [], "ended": why,
        }  # fmt: skip
    return {**found, "tests": found["tests"][:_MOST_TESTS]}


async def _run(world: World, agent: Inhabitant, path: str = "") -> dict[str, Any]:
    return await perform_tests(world, Executors.of(world).state_of(agent.agent_id), path)


@action("run_tests", wait=_run, ends=True, everywhere=False)
def run_tests(world: World, agent: Inhabitant, report: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Run the tests of the project with pytest, and return how many passed and which failed.

    Args:
        path: a file or folder of tests; empty for all.
    """
    executors = Executors.of(world)
    state = executors.state_of(agent.agent_id)
    keep_report(executors, state, path, report)
    return report


def keep_report(executors: Executors, state: TaskState, path: str, report: Mapping[str, Any]) -> None:
    """Keep the latest test run of a task, for the validation of its steps."""
    changes = executors.workspace.changes.get(state.project_id, 0)
    state.metadata["tests"] = {"path": path, "changes": changes, **report}


TESTS: Final = tool_of_action(run_tests, RUN_TESTS)
"""The tool that runs tests."""
