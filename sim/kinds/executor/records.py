"""The records of executions: the state of a task, its steps, and what they consist of."""

from collections.abc import Mapping
from typing import Any, Final, Literal, NotRequired, TypedDict

import attrs

from sim.kernel.codec import Json, JsonObject
from sim.kernel.duration import to_seconds
from sim.kinds.executor.settings import Criterion
from sim.resources import MICRO

FinalStatus = Literal["success", "failed", "escalated"]

Ending = Literal[
    "criteria_met", "max_steps", "loop_detected", "escalation", "timeout", "cost_limit", "no_model", "dependency",
]  # fmt: skip
"""Why an execution ended. `docs/seed_rules.md` has the rules of the first six.

- `criteria_met`: all criteria are met;
- `max_steps`: all steps are used;
- `loop_detected`: it got nowhere, and no person let it continue;
- `escalation`: a person was needed for another reason, and did not let it continue;
- `timeout`: its time is up;
- `cost_limit`: the next call of a model could exceed its cost limit;
- `no_model`: no model planned or judged, also later;
- `dependency`: a task that it depends on has not succeeded, so it never began.
"""

FINAL: Final[Mapping[Ending, FinalStatus]] = {
    "criteria_met": "success", "max_steps": "failed", "loop_detected": "escalated", "escalation": "escalated",
    "timeout": "failed", "cost_limit": "failed", "no_model": "failed", "dependency": "failed",
}  # fmt: skip
"""What each ending means for the task."""

Method = Literal["tests", "artifacts", "model"]
"""How progress is validated, in the order of priority."""

ResultStatus = Literal["ok", "failed", "denied", "passed_on", "decided"]
"""How a planned action ended.

- `ok`, `failed`: the tool ran, and did or did not succeed;
- `denied`: the executor may not call it, and nothing else helped;
- `passed_on`: another executor got a task of help;
- `decided`: a person let the task continue without it.
"""

_LONGEST: Final = 2_000  # characters of a text in a record of a step; the record of the action has the whole
_SHOWN: Final = 300  # the same in a state, which holds all steps


Flag = Literal["uncertain", "request_confidence_check", "stalled"]
"""A key of `Metadata` that has the confidence checked."""


class TestCounts(TypedDict):
    """How many tests of a file passed, failed and were skipped."""

    passed: int
    failed: int
    skipped: int


class TestOutcome(TypedDict):
    """A test and how it ended, with the message if it failed."""

    name: str
    outcome: str
    message: str


class PytestReport(TypedDict):
    """What a test run found; see `perform_tests`."""

    exit_code: int
    coverage: float | None
    passed: int
    failed: int
    skipped: int
    files: dict[str, TestCounts]
    tests: list[TestOutcome]
    ended: NotRequired[str]


class KeptReport(PytestReport):
    """The latest test run of a task: of which files or tests, and after how many changes of the project."""

    path: str
    changes: int


class Metrics(TypedDict, total=False):
    """What was counted after a step; what tests show, is there if tests are a method of the criteria."""

    files_created: int
    lines_written: int
    dependencies_added: int
    tests_passed: int
    tests_failed: int
    failure_rate: float
    coverage: float | None
    passed_increase: int
    failure_rate_decrease: float
    coverage_increase: float


class Verdict(TypedDict):
    """What a model said of criteria, and after how many changes of the project."""

    changes: int
    score: float
    said: str


class Note(TypedDict("From", {"from": str})):
    """A note of a person, and from whom it is."""

    text: str


class Helped(TypedDict):
    """How a task of help ended."""

    task: str
    status: FinalStatus | None
    output: list[Any]


class Metadata(TypedDict, total=False):
    """What the runtime knows of a task beside its state.

    Attributes:
        reason: why it ended.
        notes: of people.
        denied: the tools that it may not call.
        gates: how many times a person was asked.
        escalation: how it ends if no person lets it continue.
        waits_for, waits_since_ns: the number of the task of help that it waits for, and since when.
        help, help_cost_micro: how help ended, and what it cost.
        paused_ns: the time that does not count.
        outages, outage, retry_ns: how many times no model answered, why, and when it is asked again.
        tests, verdict, criteria: the latest test run and judgement, and which criteria were met after the last step.
        dependencies: how many its project had at the beginning.
        monitored_from: the step after which loops are looked for.
        uncertain, request_confidence_check, stalled: why the confidence is to be checked.
        summary: what the executor says when it has finished.
    """

    reason: str
    notes: list[Note]
    denied: list[str]
    gates: int
    escalation: Ending
    waits_for: int
    waits_since_ns: int
    help: list[Helped]
    help_cost_micro: int
    paused_ns: int
    outages: int
    outage: str
    retry_ns: int
    tests: KeptReport
    verdict: Verdict
    criteria: list[bool]
    dependencies: int
    monitored_from: int
    uncertain: str
    request_confidence_check: bool
    stalled: str
    summary: str


@attrs.frozen
class MadeFile:
    """A file that a task made or changed: its version and size, and whether the task made it."""

    version: int
    bytes: int
    lines: int
    made: bool


@attrs.frozen
class PlannedAction:
    """What a step wants to do: a call of a tool.

    Attributes:
        tool_name: the tool.
        operation: what kind of call it is: the operation of the tool, or else the part of its name after the dot.
        parameters: the arguments.
    """

    tool_name: str
    operation: str
    parameters: JsonObject

    def to_json(self, longest: int = _LONGEST) -> dict[str, Json]:
        """Return the action with texts of at most `longest` characters."""
        return {"tool_name": self.tool_name, "operation": self.operation, "parameters": cut(self.parameters, longest)}


@attrs.frozen
class Result:
    """How an action ended.

    Attributes:
        success: whether it did what was wanted.
        status: see `ResultStatus`.
        output: what the tool returned.
        error: what went wrong; None: nothing.
        metadata: the ids of what was needed: `gate`, `help`.
    """

    success: bool
    status: ResultStatus
    output: Any = None
    error: str | None = None
    metadata: JsonObject = attrs.field(factory=dict)

    def to_json(self, longest: int = _LONGEST) -> dict[str, Json]:
        """Return the result with texts of at most `longest` characters."""
        more = {"metadata": dict(self.metadata)} if self.metadata else {}
        content = {"success": self.success, "status": self.status, "output": cut(self.output, longest)}
        return {**content, "error": cut(self.error, longest), **more}


@attrs.frozen
class Attempt:
    """One attempt of a step.

    Attributes:
        reasoning: why the model planned it.
        action: what it planned.
        result: how it ended.
        refused_plans: how many plans before it were refused, because they had been tried; the step has them.
        time_ns: when it was made, in simulated nanoseconds.
    """

    reasoning: str
    action: PlannedAction
    result: Result
    refused_plans: int = 0
    time_ns: int = 0

    def to_json(self, longest: int = _LONGEST) -> dict[str, Json]:
        """Return the attempt with texts of at most `longest` characters."""
        return {
            "reasoning": cut(self.reasoning, longest),
            "action": self.action.to_json(longest),
            "result": self.result.to_json(longest),
            "refused_plans": self.refused_plans,
            "timestamp": to_seconds(self.time_ns),
        }


@attrs.frozen
class RefusedPlan:
    """A plan that was refused, because it had been tried in this step.

    Attributes:
        attempt: the number of the attempt that it would have been.
        reasoning: why the model planned it.
        action: what it planned.
        time_ns: when it was refused, in simulated nanoseconds.
    """

    attempt: int
    reasoning: str
    action: PlannedAction
    time_ns: int

    def to_json(self, longest: int = _LONGEST) -> dict[str, Json]:
        """Return the plan with texts of at most `longest` characters."""
        return {
            "attempt": self.attempt,
            "reasoning": cut(self.reasoning, longest),
            "action": self.action.to_json(longest),
            "timestamp": to_seconds(self.time_ns),
        }


@attrs.frozen
class CriterionResult:
    """How far one criterion is met.

    Attributes:
        text: the criterion.
        method: how that was found out.
        progress: how far, from 0 to 1.
        met: whether it is met.
        detail: what is missing, in words.
        tests_judged: whether a model judged it although tests should show it, because no tests can be run.
    """

    text: str
    method: Method
    progress: float
    met: bool
    detail: str = ""
    tests_judged: bool = False


@attrs.frozen
class ValidationResult:
    """What a step has changed.

    Attributes:
        method: the first method that was used, in the order of priority.
        criteria: the criteria, in their order.
        progress: how far the goal is reached, from 0 to 1.
        metrics: what was counted: tests, coverage, files, lines, dependencies, and how they changed.
        fault: why the step counts as failed although its action succeeded; None: it does not.
        outage: why no model judged a criterion that only a model can judge, also later; None: none had to, or one did.
    """

    method: Method
    criteria: tuple[CriterionResult, ...]
    progress: float
    metrics: Metrics = attrs.field(factory=Metrics)
    fault: str | None = None
    outage: str | None = None

    @property
    def met(self) -> bool:
        """Whether all criteria are met."""
        return all(one.met for one in self.criteria)

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        return {
            "method": self.method,
            "progress": self.progress,
            "met": self.met,
            "fault": self.fault,
            "outage": self.outage,
            "criteria": [cut(attrs.asdict(one), _SHOWN) for one in self.criteria],
            "metrics": cut(dict(self.metrics), _SHOWN),
        }


@attrs.frozen
class LLMCall:
    """One call of a model: what it was for, its tokens, and its cost in micro-units."""

    use: str
    tokens: int
    cost_micro: int


@attrs.frozen
class Step:
    """One step: planned, executed, validated.

    Attributes:
        step_number: its number, from 1.
        time_ns: when it began, in simulated nanoseconds.
        reasoning: why the model planned the action of the last attempt.
        planned_action: this action.
        execution_result: how it ended.
        attempt_number: the number of the last attempt.
        attempts: all attempts.
        validation: what it has changed.
        acceptance_progress: how far the goal is reached, from 0 to 1.
        success: whether the action succeeded and made nothing worse.
        error_if_failed: what went wrong; None: nothing.
        duration_ns: its simulated duration, without the wait for a person who decides after it.
        llm_calls: its calls of models, also those that judged it and evaluated the confidence after it. Each call for
            a task belongs to one step.
        refused_plans: the plans that were refused, because they had been tried.
        finding: a digest of what its tool returned, or of the files that it changed; None: neither.
        new_result: whether no step of the task before had this finding.
    """

    step_number: int
    time_ns: int
    reasoning: str
    planned_action: PlannedAction
    execution_result: Result
    attempt_number: int
    attempts: tuple[Attempt, ...]
    validation: ValidationResult
    acceptance_progress: float
    success: bool
    error_if_failed: str | None = None
    duration_ns: int = 0
    llm_calls: tuple[LLMCall, ...] = ()
    refused_plans: tuple[RefusedPlan, ...] = ()
    finding: str | None = None
    new_result: bool = False

    @property
    def tokens_used(self) -> int:
        """The tokens of its calls of models."""
        return sum(call.tokens for call in self.llm_calls)

    @property
    def cost_micro(self) -> int:
        """The cost of its calls of models, in micro-units."""
        return sum(call.cost_micro for call in self.llm_calls)

    def to_json(self, longest: int = _LONGEST) -> dict[str, Json]:
        """Return the step with texts of at most `longest` characters; times in seconds."""
        return {
            "step_number": self.step_number,
            "timestamp": to_seconds(self.time_ns),
            "reasoning": cut(self.reasoning, longest),
            "planned_action": self.planned_action.to_json(longest),
            "execution_result": self.execution_result.to_json(longest),
            "attempt_number": self.attempt_number,
            "attempts": [one.to_json(longest) for one in self.attempts],
            "validation": self.validation.to_json(),
            "acceptance_progress": self.acceptance_progress,
            "success": self.success,
            "error_if_failed": cut(self.error_if_failed, longest),
            "tokens_used": self.tokens_used,
            "cost_usd": self.cost_micro / MICRO,
            "duration_ms": self.duration_ns // 1_000_000,
            "llm_calls": [attrs.asdict(call) for call in self.llm_calls],
            "refused_plans": [plan.to_json(longest) for plan in self.refused_plans],
            "new_result": self.new_result,
        }


@attrs.frozen
class ToolExecution:
    """One call of a tool: in which step, which tool, and how it ended."""

    step: int
    tool_name: str
    status: ResultStatus


@attrs.define
class TaskState:
    """The state of a task under way, with all that happened, so that an audit needs nothing else.

    Attributes:
        number: the number of the task on the board.
        task_id: its name.
        agent_id: the executor that works on it; empty before.
        project_id: its project.
        type: the type of its executors.
        goal, acceptance_criteria, constraints: what has to be reached, when it is, and what has to be respected.
        criteria: the criteria with how they are checked.
        priority, start_ns: how urgent it is, and when it can begin.
        protected: the files and folders that it cannot change; None: see `ExecutionTask`, before it begins.
        max_steps, timeout_ns, cost_limit_micro: its limits.
        creator, parent: who made it, and the number of the task of which it is a part.
        helps: the number of the task for which it is help; None: it is no help.
        current_step: the number of steps that were done.
        started_ns, completed_ns: when it began and ended, in simulated nanoseconds.
        steps_history: its steps.
        artifacts: the files that it made or changed, with version, bytes and lines.
        failure_count: the number of failed steps.
        last_errors: the errors of the failed steps since the last one that succeeded.
        consecutive_failures: their number.
        progress_score, progress_metrics: how far the goal is reached, and what was counted.
        token_usage, llm_calls, tool_executions, total_cost_micro: what was used.
        decision_reasoning: the reasoning of each plan.
        escalation_triggered, escalation_reason: whether a person is needed, and why.
        timeout_reached, resource_limit_hit: whether its time or its money is used up.
        last_confidence_check_step, last_confidence_score: the last check of the confidence.
        ending: why it ended; None: it has not.
        metadata: what else the runtime knows.
    """

    number: int
    task_id: str
    project_id: str
    type: str
    goal: str
    criteria: tuple[Criterion, ...]
    constraints: JsonObject
    max_steps: int
    timeout_ns: int
    cost_limit_micro: int
    creator: str
    parent: int | None = None
    helps: int | None = None
    priority: int = 0
    start_ns: int = 0
    protected: tuple[str, ...] | None = None
    agent_id: str = ""
    current_step: int = 0
    started_ns: int | None = None
    completed_ns: int | None = None
    steps_history: list[Step] = attrs.field(factory=list)
    artifacts: dict[str, MadeFile] = attrs.field(factory=dict)
    failure_count: int = 0
    last_errors: list[str] = attrs.field(factory=list)
    consecutive_failures: int = 0
    progress_score: float = 0.0
    progress_metrics: Metrics = attrs.field(factory=Metrics)
    token_usage: list[int] = attrs.field(factory=list)
    llm_calls: list[LLMCall] = attrs.field(factory=list)
    tool_executions: list[ToolExecution] = attrs.field(factory=list)
    total_cost_micro: int = 0
    decision_reasoning: list[str] = attrs.field(factory=list)
    escalation_triggered: bool = False
    escalation_reason: str | None = None
    timeout_reached: bool = False
    resource_limit_hit: bool = False
    last_confidence_check_step: int = 0
    last_confidence_score: float | None = None
    ending: Ending | None = None
    metadata: Metadata = attrs.field(factory=Metadata)

    @property
    def acceptance_criteria(self) -> list[str]:
        """The criteria in words."""
        return [one.text for one in self.criteria]

    @property
    def final_status(self) -> FinalStatus | None:
        """What its ending means; None: it has not ended."""
        return None if self.ending is None else FINAL[self.ending]

    @property
    def unassigned_calls(self) -> tuple[LLMCall, ...]:
        """The calls of models that belong to no step yet."""
        return tuple(self.llm_calls[sum(len(step.llm_calls) for step in self.steps_history) :])

    @property
    def tests_judged(self) -> int:
        """How many criteria that tests should show were judged by a model after the last step."""
        last = self.steps_history[-1].validation.criteria if self.steps_history else ()
        return sum(one.tests_judged for one in last)

    @property
    def left_micro(self) -> int:
        """What its calls of models, and those of help for it, may still cost, in micro-units."""
        return self.cost_limit_micro - self.total_cost_micro - self.metadata.get("help_cost_micro", 0)

    @property
    def execution_id(self) -> str:
        """The id of its execution."""
        return f"execution-{self.number}"

    def summary(self, longest: int = _LONGEST) -> dict[str, Json]:
        """Return what is not in the records of its steps, with texts of at most `longest` characters.

        Times are in seconds, money in units. The view `agent_execution_history` adds what the steps have.
        """
        own = {
            name: getattr(self, name)
            for name in (
                "task_id",
                "agent_id",
                "project_id",
                "goal",
                "acceptance_criteria",
                "constraints",
                "protected",
                "current_step",
                "max_steps",
                "failure_count",
                "consecutive_failures",
                "progress_score",
                "progress_metrics",
                "escalation_triggered",
                "escalation_reason",
                "timeout_reached",
                "resource_limit_hit",
                "last_confidence_check_step",
                "last_confidence_score",
                "last_errors",
                "metadata",
            )
        }
        return {
            **cut(own, longest),
            "artifacts": cut({name: attrs.asdict(one) for name, one in self.artifacts.items()}, longest),
            "started_at": None if self.started_ns is None else to_seconds(self.started_ns),
            "total_cost_usd": self.total_cost_micro / MICRO,
        }

    def to_json(self, longest: int = _SHOWN) -> dict[str, Json]:
        """Return the whole state, with texts of at most `longest` characters; times in seconds, money in units."""
        longest = min(longest, _SHOWN)
        return {
            **self.summary(longest),
            "token_usage": self.token_usage,
            "steps_history": [step.to_json(longest) for step in self.steps_history],
            "llm_calls": [attrs.asdict(call) for call in self.llm_calls],
            "tool_executions": [attrs.asdict(one) for one in self.tool_executions],
            "decision_reasoning": cut(self.decision_reasoning, longest),
        }


def cut(value: Any, longest: int) -> Any:
    """Return a JSON-like value in which no text is longer than `longest`; three dots mark what was cut."""
    if isinstance(value, str):
        return value if len(value) <= longest else value[: longest - 3] + "..."
    if isinstance(value, Mapping):
        return {key: cut(one, longest) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [cut(one, longest) for one in value]
    return value
