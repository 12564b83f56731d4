"""Validation: how far a goal is reached, by tests, artifacts, and the judgement of a model, in this order."""

from collections.abc import Sequence
from textwrap import indent
from typing import Final

from sim.agents.engine.limits import ending_of, passes
from sim.base.errors import LimitError
from sim.kernel.codec import JsonObject
from sim.kernel.waits import sleep_ns
from sim.kinds.executor.execution import Execution, Rating, refused_or_silent
from sim.kinds.executor.records import (
    CriterionResult,
    Method,
    Metrics,
    PlannedAction,
    PytestReport,
    Result,
    ValidationResult,
)
from sim.kinds.executor.settings import Criterion
from sim.kinds.executor.testing import keep_report, perform_tests
from sim.kinds.executor.tools import FINISH
from sim.kinds.executor.workspace import is_in, metrics_of
from sim.llm.types import ModelError
from sim.world import Refused

_JUDGE: Final = "You check the work of an agent. How far are these criteria met? 1.0 means that all of them are."
_SHOWN: Final = 20_000  # characters of files that a judgement is based on
_METHODS: Final[tuple[Method, ...]] = ("tests", "artifacts", "model")


class Validator:
    """Finds out what a step has changed. Inherit from it, and override `check`, to check criteria in another way.

    Args:
        execution: the execution.
    """

    def __init__(self, execution: Execution) -> None:
        self.execution = execution

    async def validate(self, action: PlannedAction, result: Result) -> ValidationResult:
        """Return what a step has changed.

        Tests run again if the files have changed. A model judges only what nothing else can show, and only when all
        other criteria are met, and the files have changed or the executor says that it has finished.

        Args:
            action: the action of the step.
            result: how it ended.
        """
        execution, state = self.execution, self.execution.state
        if result.success:
            await _refresh_tests(execution)
        checks, outage = [self.check(one) for one in state.criteria], None
        if None in checks:
            open_ones = [one for one, check in zip(state.criteria, checks, strict=True) if check is None]
            finished = action.tool_name == FINISH
            if result.success and all(one.met for one in checks if one is not None):
                outage = await _judge(execution, open_ones, finished=finished)
            judged = iter(_judged(execution, open_ones))
            checks = [next(judged) if one is None else one for one in checks]
        criteria = tuple(one for one in checks if one is not None)
        progress = round(sum(one.progress for one in criteria) / len(criteria), 4)
        methods = [one.method for one in criteria]
        metrics = _metrics(execution, methods)
        fault = None if outage else _fault(action, result, criteria, state.progress_score, progress)
        return ValidationResult(min(methods, key=_METHODS.index), criteria, progress, metrics, fault, outage)

    def check(self, criterion: Criterion) -> CriterionResult | None:
        """Return how far a criterion is met by tests or artifacts; None if only a model can say that."""
        execution, state, executors = self.execution, self.execution.state, self.execution.executors
        if criterion.tests is not None and executors.tests_fault is None:
            return _by_tests(criterion, state.metadata.get("tests"))
        if criterion.file is not None:
            return _by_file(execution, criterion, criterion.file)
        if criterion.tool is not None:
            calls = sum(one.tool_name == criterion.tool and one.status == "ok" for one in state.tool_executions)
            share, met = min(1.0, round(calls / criterion.times, 4)), calls >= criterion.times
            return CriterionResult(criterion.text, "artifacts", share, met, "" if met else f"{calls} calls so far")
        return None


def _fault(
    action: PlannedAction, result: Result, criteria: Sequence[CriterionResult], before: float, progress: float
) -> str | None:
    """Return why a step counts as failed although its action succeeded."""
    if not result.success:
        return None
    missing = next((one for one in criteria if not one.met), None)
    if action.tool_name == FINISH and missing is not None:
        return f"the criteria are not met: {missing.text}" + (f" ({missing.detail})" if missing.detail else "")
    return f"the progress fell from {before:g} to {progress:g}" if progress < before else None


def _by_tests(criterion: Criterion, report: PytestReport | None) -> CriterionResult:
    path = criterion.tests or ""
    if report is not None and "ended" in report:
        return CriterionResult(criterion.text, "tests", 0.0, False, str(report["ended"]))
    files = {} if report is None else {name: one for name, one in report["files"].items() if is_in(name, path)}
    passed, failed = sum(one["passed"] for one in files.values()), sum(one["failed"] for one in files.values())
    counted = passed + failed
    detail = "" if counted else "there are no tests yet"
    if report is not None and failed:
        first = next((one for one in report["tests"] if one["outcome"] == "failed" and is_in(one["name"], path)), None)
        detail = f"{failed} of {counted} tests fail" + (f": {first['name']}: {first['message']}" if first else "")
    share = round(passed / counted, 4) if counted else 0.0
    return CriterionResult(criterion.text, "tests", share, bool(passed) and not failed, detail)


def _by_file(execution: Execution, criterion: Criterion, name: str) -> CriterionResult:
    workspace, project = execution.executors.workspace, execution.state.project_id
    if name not in workspace.files.get(project, ()):
        return CriterionResult(criterion.text, "artifacts", 0.0, False, f"there is no file {name}")
    if criterion.contains is not None and criterion.contains not in workspace.text(project, name):
        return CriterionResult(criterion.text, "artifacts", 0.5, False, f"{name} does not have the text")
    return CriterionResult(criterion.text, "artifacts", 1.0, True)


async def _refresh_tests(execution: Execution) -> None:
    """Run the tests if criteria need them, they exist, and the files have changed since the last run."""
    state, executors = execution.state, execution.executors
    paths = [one.tests for one in state.criteria if one.tests is not None]
    files = executors.workspace.files.get(state.project_id, ())
    if executors.tests_fault is not None or not any(is_in(name, path) for path in paths for name in files):
        return
    last = state.metadata.get("tests")
    changes = executors.workspace.changes.get(state.project_id, 0)
    if last is not None and last["changes"] == changes and not last["path"]:
        return
    try:
        report = await perform_tests(execution.world, state, "")
    except Refused:
        return  # `tests_fault` says why
    keep_report(executors, state, "", report)


async def _judge(execution: Execution, criteria: Sequence[Criterion], *, finished: bool) -> str | None:
    """Have a model judge criteria together, if something has changed or the executor says that it has finished.

    The verdict is kept in the state. While no model answers, it is asked again, as for a plan.

    Returns:
        Why no model judged; None: one did, or did not have to, or the task waits for the operator.
    """
    state = execution.state
    changes = execution.executors.workspace.changes.get(state.project_id, 0)
    verdict = state.metadata.get("verdict")
    if not finished and not (state.artifacts and (verdict is None or verdict["changes"] != changes)):
        return None
    rating = await _ask_judge(
        execution,
        {
            "task": f"{state.task_id}: {state.goal}",
            "acceptance_criteria": [one.line for one in criteria],
            "summary": str(state.metadata.get("summary", "")) if finished else "",
            "files": _texts(execution),
        },
    )
    if isinstance(rating, Rating):
        score = 0.0 if rating.number is None else round(rating.number, 4)
        state.metadata["verdict"] = {"changes": changes, "score": score, "said": rating.text[:500]}
        return None
    ending = ending_of(rating)
    if state.resource_limit_hit or ending == "quota":
        return None
    outage = state.metadata["outage"] = f"{refused_or_silent(ending, 'judges')}: {rating}"
    return outage


async def _ask_judge(execution: Execution, sections: JsonObject) -> Rating | ModelError | LimitError:
    """Ask for a judgement; if no model answers, ask again after a while, each time after a longer one."""
    rating, retries = await execution.rate("judge", _JUDGE, sections), execution.executors.settings.retries
    for number in range(retries):
        if not passes(rating):
            break
        await sleep_ns(execution.delay_ns("judge", number, str(rating)))
        rating = await execution.rate("judge", _JUDGE, sections)
    return rating


def _judged(execution: Execution, criteria: Sequence[Criterion]) -> list[CriterionResult]:
    """Return the results of criteria that a model judges together, by its latest verdict."""
    verdict = execution.state.metadata.get("verdict")
    score = 0.0 if verdict is None else verdict["score"]
    met = score >= execution.executors.settings.accept
    detail = "not judged yet" if verdict is None else verdict["said"]
    detail = "" if met else detail
    return [
        CriterionResult(
            one.text, "model", score, met, detail, tests_judged=one.tests is not None and verdict is not None
        )
        for one in criteria
    ]


def _texts(execution: Execution) -> list[str]:
    """Return the files that a task made or changed, else those of its project, as far as there is room.

    The text is indented, so that a line of it cannot look like the name of another file.
    """
    state, left, shown = execution.state, _SHOWN, list[str]()
    texts = execution.executors.workspace.texts(state.project_id)
    for name in [name for name in texts if name in state.artifacts] or list(texts):
        shown.append(f"== {name}\n{indent(texts[name][:left], '  ')}")
        left = max(0, left - len(texts[name]))
    return shown


def _metrics(execution: Execution, methods: Sequence[Method]) -> Metrics:
    """Return what was counted, and how the tests changed since the step before."""
    state, before = execution.state, execution.state.progress_metrics
    metrics = metrics_of(state, execution.executors.workspace)
    report = state.metadata.get("tests")
    if "tests" not in methods or report is None:
        return metrics
    passed, failed, coverage = report["passed"], report["failed"], report["coverage"]
    rate = round(failed / (passed + failed), 4) if passed + failed else 0.0
    more: Metrics = {
        "tests_passed": passed,
        "tests_failed": failed,
        "failure_rate": rate,
        "coverage": coverage,
        "passed_increase": passed - before.get("tests_passed", 0),
        "failure_rate_decrease": round(before.get("failure_rate", rate) - rate, 4),
        "coverage_increase": round((coverage or 0.0) - (before.get("coverage") or 0.0), 1),
    }
    return {**metrics, **more}
