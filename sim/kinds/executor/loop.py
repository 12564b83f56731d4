"""The loop of an executor: plan → execute → validate → update, until a criterion for the end is met.

One turn of the loop is one action, `execute_step`, so that each step is on record, and the executor can do something
else while a task waits. The parts of a turn are methods of `BaseAgent`, which a subclass can override.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import attrs

from sim.base.errors import Interrupt
from sim.base.permissions import Permission
from sim.kernel.codec import JsonObject, encode
from sim.kernel.duration import to_text
from sim.kernel.waits import sleep_ns
from sim.kinds.executor.execution import Execution, refused_or_silent
from sim.kinds.executor.orchestrator import create_gate, handle_denial
from sim.kinds.executor.planning import PlannedStep, Planner
from sim.kinds.executor.records import Attempt, Ending, PlannedAction, Result, Step, TaskState, ValidationResult
from sim.kinds.executor.service import Executors
from sim.kinds.executor.task_time import TimeUp
from sim.kinds.executor.tools import CONTROL
from sim.resources import MICRO
from sim.world import Inhabitant, Refused, World
from sim.world.action import action

if TYPE_CHECKING:
    from sim.kinds.executor.base_agent import BaseAgent

NO_PLAN: Final = "none"
"""The tool of a step for which the model made no valid plan."""

Turn = Literal["step", "waiting", "retry", "ended"]
"""The outcome of a turn of the loop.

`step`: a step was done. `waiting`: a step was done, and the task waits for help. `retry`: the call for a plan failed,
and will be repeated. `ended`: the task has ended.
"""


@attrs.frozen
class Turned:
    """What a turn of the loop did, with the number of the steps so far, and why the task ended, if it did."""

    what: Turn
    steps: int
    ending: Ending | None = None


@attrs.define
class StepDraft:
    """A step under way.

    Attributes:
        planner: plans it.
        began_ns: when it began, in simulated nanoseconds.
        files: the versions of the files of the task at its beginning.
        attempts: what was tried so far.
    """

    planner: Planner
    began_ns: int
    files: Mapping[str, int]
    attempts: list[Attempt] = attrs.field(factory=list)


async def _turn(world: World, agent: Inhabitant, task: int) -> Turned:
    """Do one turn of the loop. This is the main loop of an executor; its action repeats it."""
    executors = Executors.of(world)
    state = executors.states.get(task)
    if state is None or state.agent_id != agent.agent_id or state.ending is not None:
        raise Refused(f"{agent.agent_id} cannot work on the task {task!r:.20}")
    executors.claim(agent.agent_id, state)
    worker = cast("BaseAgent", agent)  # tasks are claimed by executors only
    execution = Execution(world, worker, executors, state, executors.agents[agent.agent_id])
    draft, done = _begin_step(execution), state.current_step
    try:
        if done >= state.max_steps:  # the last step has waited for help, or was interrupted at a gate
            return await _conclude_last_step(execution)
        plan = None if execution.is_over() else await worker.plan_next_step(draft.planner)  # 1. plan
        if plan is None and (planned := _without_plan(execution, draft)) is not None:
            return planned
        await worker.execute_step_with_retry(execution, draft, plan)  # 2. execute, each time in another way
        last = draft.attempts[-1]
        validation = await worker.validate_step(execution, last.action, last.result)  # 3. validate
        worker.update_state(execution, draft, validation)  # 4. update the state
        concern = None
        if not validation.met and validation.outage is None:
            concern = await find_concern(execution)  # 5. loops  6. confidence
        executors.settle(state)
        if not ("waits_for" in state.metadata and state.current_step >= state.max_steps):  # else help may add to it
            executors.log(state)  # 7. log: before a person is asked, and before the end, so that it is on record
        if concern is not None:
            await ask_person(execution, concern)
        return _conclude(execution, validation)
    except Interrupt as interrupt:
        if not isinstance(interrupt.cause, TimeUp):
            raise
        state.timeout_reached = True
        if state.current_step == done and (draft.attempts or state.unassigned_calls):  # in the middle of the step
            update_state(execution, _ensure_attempt(draft, world), _unchecked(state))
        return _end(execution, "timeout")
    finally:
        executors.release(agent.agent_id)


@action("execute_step", permission=Permission.GUEST, wait=_turn, ends=True, everywhere=False, draws=False)
def execute_step(world: World, agent: Inhabitant, turned: Turned, task: int) -> JsonObject:
    """Do one step of a task: plan, execute with retries, validate, update, check.

    Args:
        task: the number of the task.
    """
    return attrs.asdict(turned)


def _begin_step(execution: Execution) -> StepDraft:
    """Return the draft of a step that begins now, and note if the task has no money left."""
    state, settings = execution.state, execution.executors.settings
    if settings.cost_rule == "seed" and state.left_micro <= 0:
        state.resource_limit_hit = True
    return StepDraft(execution.agent.planner(execution), execution.world.kernel.now, _versions(state))


def should_terminate(execution: Execution, validation: ValidationResult | None = None) -> Ending | None:
    """Return why a task ends now; None if it continues. The criteria are tried in the order of `Ending`.

    Args:
        execution: the execution.
        validation: the validation of the step that was done; None: none was.
    """
    state = execution.state
    if validation is not None and validation.met:
        return "criteria_met"
    over = execution.is_over()
    if "waits_for" in state.metadata:
        return None  # the result of the help decides
    if state.current_step >= state.max_steps and not over:
        return "max_steps"
    if state.escalation_triggered:
        return state.metadata["escalation"]
    if state.timeout_reached:
        return "timeout"
    return "cost_limit" if state.resource_limit_hit else None


def reason_of(execution: Execution, ending: Ending) -> str:
    """Return why a task ended, in words."""
    state = execution.state
    match ending:
        case "criteria_met":
            return "all criteria are met" + (" (tests judged by a model)" if state.tests_judged else "")
        case "max_steps":
            return f"all {state.max_steps} steps are used"
        case "timeout":
            return f"its time of {to_text(state.timeout_ns)} is up"
        case "cost_limit" if execution.executors.settings.cost_rule == "seed":
            return f"the cost limit of {state.cost_limit_micro / MICRO:g} is reached"
        case "cost_limit":
            return f"the next call could exceed the cost limit of {state.cost_limit_micro / MICRO:g}"
        case _:
            return state.escalation_reason or str(state.metadata.get("outage", ending))


async def _conclude_last_step(execution: Execution) -> Turned:
    """End a task without a further step: it has succeeded if its criteria are met by now, for example by help."""
    state = execution.state
    last = state.steps_history[-1]
    validation = await execution.agent.validate_step(execution, last.planned_action, last.execution_result)
    if execution.executors.is_unlogged(state):
        progress = validation.progress
        state.steps_history[-1] = attrs.evolve(last, validation=validation, acceptance_progress=progress)
    _update_progress(state, validation)
    return _conclude(execution, validation)


def _conclude(execution: Execution, validation: ValidationResult) -> Turned:
    """End the task if it is time, after a step."""
    state = execution.state
    ending = execution.agent.should_terminate(execution, validation)
    ending = ending or ("no_model" if validation.outage is not None else None)
    if ending is not None:
        return _end(execution, ending)
    return Turned("waiting" if "waits_for" in state.metadata else "step", state.current_step)


def _end(execution: Execution, ending: Ending) -> Turned:
    execution.executors.end(execution.state, ending, reason_of(execution, ending))
    return Turned("ended", execution.state.current_step, ending)


# -- 1. plan


def _without_plan(execution: Execution, draft: StepDraft) -> Turned | None:
    """Return what a turn without a plan was; None if it counts as a failed step, because the plan was not valid."""
    state, settings = execution.state, execution.executors.settings
    planner, failure = draft.planner, draft.planner.failure
    ending = execution.agent.should_terminate(execution, None)
    if ending is None and failure is not None and failure.cause is not None:
        if failure.ending == "quota":
            return Turned("retry", state.current_step)
        number = state.metadata.get("outages", 0)
        state.metadata |= {
            "outages": number + 1,
            "outage": f"{refused_or_silent(failure.ending, 'answers')}: {failure.error}",
        }
        if failure.retryable and number < settings.retries:
            delay = execution.delay_ns(execution.settings.use, number, failure.error or "")
            state.metadata["retry_ns"] = execution.world.kernel.now + delay
            return Turned("retry", state.current_step)
        ending = "no_model"
    if ending is None:
        return None
    if state.unassigned_calls:  # they belong to the step that ends here
        planner.fault = planner.fault or "the task ended before there was one"
        update_state(execution, _ensure_attempt(draft, execution.world), _unchecked(state))
    return _end(execution, ending)


# -- 2. execute


async def execute_with_retry(execution: Execution, draft: StepDraft, plan: PlannedStep | None) -> None:
    """Execute a plan; after each failure wait, and try a different one. The draft gets the attempts, at least one.

    Args:
        execution: the execution.
        draft: the step.
        plan: the first plan; None: there was no valid one.
    """
    most, backoff = execution.executors.settings.attempts, execution.executors.settings.backoff
    attempts, agent = draft.attempts, execution.agent
    while plan is not None:
        made_ns = execution.world.kernel.now
        result = await agent.execute_via_orchestrator(execution, plan.action)
        only: Sequence[str] = ()
        if result.status == "denied":
            result, only = await handle_denial(execution, plan.action, result)
        attempts.append(Attempt(plan.reasoning, plan.action, result, plan.refused, made_ns))
        if result.success or len(attempts) >= most or execution.is_over():
            return
        if result.status == "failed":
            await sleep_ns(backoff * 2 ** len(attempts))
        plan = None if execution.is_over() else await draft.planner.again(result, only)
    _ensure_attempt(draft, execution.world)


def _ensure_attempt(draft: StepDraft, world: World) -> StepDraft:
    """Add an attempt without a tool to a draft that has none, because there was no plan. Return the draft."""
    if not draft.attempts:
        nothing = PlannedAction(NO_PLAN, NO_PLAN, {})
        failed = Result(False, "failed", error=f"no valid plan: {draft.planner.fault}")
        draft.attempts.append(Attempt("", nothing, failed, time_ns=world.kernel.now))
    return draft


# -- 4. update


def update_state(execution: Execution, draft: StepDraft, validation: ValidationResult) -> Step:
    """Add a step to the state of its task, and return the step.

    Args:
        execution: the execution.
        draft: the step under way.
        validation: the result of validating the step.
    """
    state, attempts, planner = execution.state, draft.attempts, draft.planner
    last, finding = attempts[-1], _finding(execution, draft)
    error = _error(attempts, planner.fault) or validation.fault
    findings = {step.finding for step in state.steps_history}
    execution.executors.add_step(
        state,
        Step(
            step_number=state.current_step + 1,
            time_ns=draft.began_ns,
            reasoning=last.reasoning,
            planned_action=last.action,
            execution_result=last.result,
            attempt_number=len(attempts),
            attempts=tuple(attempts),
            validation=validation,
            acceptance_progress=validation.progress,
            success=error is None,
            error_if_failed=error,
            refused_plans=tuple(planner.refused),
            finding=finding,
            new_result=finding is not None and finding not in findings,
        ),
    )
    _update_progress(state, validation)
    state.metadata.pop("outages", None)
    state.metadata.pop("retry_ns", None)
    state.metadata.pop("summary", None)
    _count_failure(state, error)
    return state.steps_history[-1]


def _versions(state: TaskState) -> Mapping[str, int]:
    return {name: one.version for name, one in state.artifacts.items()}


def _finding(execution: Execution, draft: StepDraft) -> str | None:
    """Return a digest of what a step found or made: the texts of the files it changed, else what its tool returned.

    A file that is written again with the text that it had before is nothing new, although its version is.
    """
    state, last, before = execution.state, draft.attempts[-1], draft.files
    changed = [name for name, version in _versions(state).items() if before.get(name) != version]
    if changed:
        texts = execution.executors.workspace.texts(state.project_id)
        content: list[Any] = ["files", [[name, texts.get(name)] for name in changed]]
    elif last.result.status == "ok" and last.action.tool_name not in CONTROL:
        content = [last.action.tool_name, last.result.output]
    else:
        return None
    return hashlib.sha256(encode(content)).hexdigest()[:16]


def _update_progress(state: TaskState, validation: ValidationResult) -> None:
    state.progress_score, state.progress_metrics = validation.progress, validation.metrics.copy()
    state.metadata["criteria"] = [one.met for one in validation.criteria]


def _unchecked(state: TaskState) -> ValidationResult:
    """Return the validation of a step that was interrupted: the progress before it."""
    fault = "the task ended before the step was validated"
    return ValidationResult("model", (), state.progress_score, state.progress_metrics, fault)


def _count_failure(state: TaskState, error: str | None) -> None:
    """Count a failed step; a step that succeeded ends the series."""
    if error is None:
        state.last_errors, state.consecutive_failures = [], 0
    else:
        state.failure_count += 1
        state.last_errors = [*state.last_errors, error]
        state.consecutive_failures = len(state.last_errors)


def _error(attempts: Sequence[Attempt], fault: str | None) -> str | None:
    """Return why a step failed; None if its last attempt succeeded."""
    result = attempts[-1].result
    if result.success:
        return None
    tried = f"{len(attempts)} attempts" if len(attempts) > 1 else "1 attempt"
    more = f" (no further plan: {fault})" if fault is not None and attempts[-1].action.tool_name != NO_PLAN else ""
    return f"Failed after {tried}: {result.error}{more}"


# -- 5. and 6. checks


@attrs.frozen
class Concern:
    """Why a person decides whether a task continues.

    Attributes:
        reason: why, in words.
        ending: how the task ends if no person lets it continue.
        context: what else the person should know.
    """

    reason: str
    ending: Ending
    context: JsonObject = attrs.field(factory=dict)


async def find_concern(execution: Execution) -> Concern | None:
    """Return why a person has to decide after a step: a loop, or a low confidence; None if there is no reason.

    A stall is not a loop; it leads to a check of the confidence. If that is not low, the count of a stall starts again.
    """
    state, detector = execution.state, execution.agent.loop_detector
    if state.escalation_triggered or "waits_for" in state.metadata:
        return None
    if (loop := detector.loop_in(state)) is not None:
        execution.executors.counts["loops"] += 1
        return Concern(f"Loop detected: {loop}", "loop_detected")
    if detector.is_stalled(state) and "stalled" not in state.metadata:
        steps = detector.monitoring.stalled_steps
        state.metadata["stalled"] = f"no progress and no new result in {steps} steps"
        execution.executors.counts["stalls"] += 1
    stalled = state.metadata.get("stalled")
    if execution.is_over() or not should_request_confidence_check(execution):
        return None
    confidence = await execution.agent.request_confidence_evaluation(execution)
    if confidence is None or execution.is_over():
        return None
    if confidence < execution.executors.settings.confidence:
        why = f"Low confidence: {confidence:.2f}" + (f" ({stalled})" if stalled else "")
        return Concern(why, "escalation", {"confidence": confidence})
    if stalled:
        state.metadata["monitored_from"] = state.current_step
    return None


def should_request_confidence_check(execution: Execution) -> bool:
    """Return whether the confidence is to be checked: every `check_every` steps, if unsure or stalled, on request."""
    state = execution.state
    since = state.current_step - state.last_confidence_check_step
    asked = {"uncertain", "request_confidence_check", "stalled"} & state.metadata.keys()
    return since >= execution.executors.settings.check_every or bool(asked)


async def ask_person(execution: Execution, concern: Concern) -> None:
    """Ask a person about a concern. If the person lets the task continue, its counts begin at zero."""
    state = execution.state
    await create_gate(execution, concern.reason, concern.ending, **concern.context)
    if not state.escalation_triggered:
        state.metadata["monitored_from"] = state.current_step
        if concern.ending == "loop_detected":
            state.last_errors, state.consecutive_failures = [], 0
