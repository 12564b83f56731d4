"""The loop of an executor: plan → execute → validate → update, until a criterion for the end is met (seed 003).

One turn of the loop is one action, `execute_step`, so that each step is on record, and the executor can do something
else while a task waits.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import attrs

from sim.agents.executor.execution import Execution, is_quota
from sim.agents.executor.loop_detection import is_looping, seen_from_outside
from sim.agents.executor.orchestrator import create_gate, evaluate_confidence, execute_tool, handle_denial
from sim.agents.executor.planning import Plan, Planner
from sim.agents.executor.records import Attempt, Ending, PlannedAction, Result, Step, TaskState, ValidationResult
from sim.agents.executor.service import Executors
from sim.agents.executor.task_time import TimeUp
from sim.agents.executor.validation import validate_step
from sim.errors import Interrupt
from sim.kernel.duration import to_text
from sim.kernel.waits import sleep_ns
from sim.permissions import Permission
from sim.resources import MICRO
from sim.world import Inhabitant, Refused, World
from sim.world.action import action

NO_PLAN: Final = "none"
"""The tool of a step for which the model made no valid plan."""

Turn = Literal["step", "waiting", "retry", "ended"]
"""What a turn of the loop was: a step, a step after which the task waits, a plan that no model made, or the end."""


@attrs.frozen
class Turned:
    """What a turn of the loop did, with the number of the steps so far, and why the task ended, if it did."""

    what: Turn
    steps: int
    ending: Ending | None = None


async def _turn(world: World, agent: Inhabitant, task: int) -> Turned:
    """Do one turn of the loop. This is the main loop of an executor; its action repeats it."""
    executors = Executors.of(world)
    state = executors.states.get(task)
    if state is None or state.agent_id != agent.agent_id or state.ending is not None:
        raise Refused(f"{agent.agent_id} cannot work on the task {task!r:.20}")
    executors.claim(agent.agent_id, state)
    execution = Execution(world, agent, executors, state, executors.agents[agent.agent_id])
    before, done, attempts = _spent(execution), state.current_step, list[Attempt]()
    planner = Planner(execution)
    try:
        if done >= state.max_steps:  # the last step has waited for help, or was interrupted at a gate
            return await _conclude_without_step(execution)
        plan = None if execution.is_over() else await planner.first()  # 1. plan the next action
        if plan is None and (planned := _without_plan(execution, planner)) is not None:
            return planned
        await execute_with_retry(execution, planner, plan, attempts)  # 2. execute, each time in another way
        last = attempts[-1]
        validation = await validate_step(execution, last.action, last.result)  # 3. validate
        step = update_state(execution, before, attempts, validation, planner.fault)  # 4. update the state
        executors.log(state, step)  # 7. log: before the checks, so that a step that ends a task is on record too
        if not validation.met and validation.outage is None:
            await gate_loops(execution)  # 5. loops: three identical errors, or what the monitor sees
            await gate_low_confidence(execution)  # 6. confidence: every five steps, on uncertainty, on request
        return _conclude(execution, validation)
    except Interrupt as interrupt:
        if not isinstance(interrupt.cause, TimeUp):
            raise
        state.timeout_reached = True
        if attempts and state.current_step == done:  # the time was up in the middle of the step
            executors.log(state, update_state(execution, before, attempts, _unchecked(state), planner.fault))
        executors.end(state, "timeout", reason_of(execution, "timeout"))
        return Turned("ended", state.current_step, "timeout")
    finally:
        executors.release(agent.agent_id)


@action("execute_step", permission=Permission.GUEST, wait=_turn, ends=True, everywhere=False)
def execute_step(world: World, agent: Inhabitant, turned: Turned, task: int) -> Mapping[str, Any]:
    """Do one step of a task: plan, execute with retries, validate, update, check.

    Args:
        task: the number of the task.
    """
    return attrs.asdict(turned)


def should_terminate(execution: Execution, validation: ValidationResult | None = None) -> Ending | None:
    """Return why a task ends now; None if it goes on. The criteria are those of the seed, in its order.

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
        escalation: Ending = state.metadata["escalation"]
        return escalation
    if state.timeout_reached:
        return "timeout"
    return "cost_limit" if state.resource_limit_hit else None


def reason_of(execution: Execution, ending: Ending) -> str:
    """Return why a task ended, in words."""
    state = execution.state
    match ending:
        case "criteria_met":
            return "all criteria are met"
        case "max_steps":
            return f"all {state.max_steps} steps are used"
        case "timeout":
            return f"its time of {to_text(state.timeout_ns)} is up"
        case "cost_limit":
            return f"the next call could exceed the cost limit of {state.cost_limit_micro / MICRO:g}"
        case _:
            return state.escalation_reason or str(state.metadata.get("outage", ending))


async def _conclude_without_step(execution: Execution) -> Turned:
    """End a task without a further step: it has succeeded if its criteria are met by now, for example by help."""
    state = execution.state
    last = state.steps_history[-1]
    validation = await validate_step(execution, last.planned_action, last.execution_result)
    _update_progress(state, validation)
    return _conclude(execution, validation)


def _conclude(execution: Execution, validation: ValidationResult) -> Turned:
    """End the task if it is time, after a step."""
    state = execution.state
    ending = should_terminate(execution, validation) or ("no_model" if validation.outage is not None else None)
    if ending is not None:
        execution.executors.end(state, ending, reason_of(execution, ending))
        return Turned("ended", state.current_step, ending)
    return Turned("waiting" if "waits_for" in state.metadata else "step", state.current_step)


# -- 1. plan


def _without_plan(execution: Execution, planner: Planner) -> Turned | None:
    """Return what a turn without a plan was; None if it counts as a failed step, because the plan was not valid."""
    state, executors, settings = execution.state, execution.executors, execution.executors.settings
    failure = planner.failure
    if (ending := should_terminate(execution)) is None and failure is not None and failure.ending == "model_error":
        if is_quota(failure.cause):
            return Turned("retry", state.current_step)
        number = int(state.metadata.get("outages", 0))
        state.metadata |= {"outages": number + 1, "outage": f"no model answers: {failure.error}"}
        if failure.retryable and number < settings.retries:
            delay = execution.delay_ns(execution.settings.use, number, failure.error or "")
            state.metadata["retry_ns"] = execution.world.kernel.now + delay
            return Turned("retry", state.current_step)
        ending = "no_model"
    if ending is None:
        return None
    executors.end(state, ending, reason_of(execution, ending))
    return Turned("ended", state.current_step, ending)


# -- 2. execute


async def execute_with_retry(
    execution: Execution, planner: Planner, plan: Plan | None, attempts: list[Attempt]
) -> None:
    """Execute a plan; after each failure wait, and try a different one.

    Args:
        execution: the execution.
        planner: plans what comes after a failure.
        plan: the first plan; None: there was no valid one.
        attempts: gets the attempts, at least one.
    """
    most, backoff = execution.executors.settings.attempts, execution.executors.settings.backoff
    while plan is not None:
        made_ns = execution.world.kernel.now
        result = await execute_tool(execution, plan.action)
        only: Sequence[str] = ()
        if result.status == "denied":
            result, only = await handle_denial(execution, plan.action, result)
        attempts.append(Attempt(plan.reasoning, plan.action, result, plan.refused, made_ns))
        if result.success or len(attempts) >= most or execution.is_over():
            return
        if result.status == "failed":
            await sleep_ns(backoff * 2 ** len(attempts))
        plan = None if execution.is_over() else await planner.again(result, only)
    if not attempts:
        nothing = PlannedAction(NO_PLAN, NO_PLAN, {})
        failed = Result(False, "failed", error=f"no valid plan: {planner.fault}")
        attempts.append(Attempt("", nothing, failed, time_ns=execution.world.kernel.now))


# -- 4. update


@attrs.frozen
class Spent:
    """The time, the tokens and the cost of a task before a step."""

    time_ns: int
    tokens: int
    cost_micro: int


def _spent(execution: Execution) -> Spent:
    state = execution.state
    return Spent(execution.world.kernel.now, sum(state.token_usage), state.total_cost_micro)


def update_state(
    execution: Execution, before: Spent, attempts: list[Attempt], validation: ValidationResult, fault: str | None = None
) -> Step:
    """Add a step to the state of its task, and return the step.

    Args:
        execution: the execution.
        before: what was used before the step.
        attempts: its attempts.
        validation: what it has changed.
        fault: why there was no further plan; None: one was not needed.
    """
    state, last, now = execution.state, attempts[-1], _spent(execution)
    error = _error(attempts, fault) or validation.fault
    step = Step(
        state.current_step + 1, before.time_ns, last.reasoning, last.action, last.result, len(attempts),
        tuple(attempts), validation, validation.progress, error is None, error, now.tokens - before.tokens,
        now.cost_micro - before.cost_micro, now.time_ns - before.time_ns,
    )  # fmt: skip
    state.steps_history.append(step)
    state.current_step += 1
    _update_progress(state, validation)
    for key in ("outages", "retry_ns", "summary"):
        state.metadata.pop(key, None)
    _count_failure(state, error)
    return step


def _update_progress(state: TaskState, validation: ValidationResult) -> None:
    state.progress_score, state.progress_metrics = validation.progress, dict(validation.metrics)
    state.metadata["criteria"] = [one.met for one in validation.criteria]


def _unchecked(state: TaskState) -> ValidationResult:
    """Return the validation of a step that was interrupted: the progress as it was before."""
    fault = "the time was up before the step was validated"
    return ValidationResult("model", (), state.progress_score, state.progress_metrics, fault)


def _count_failure(state: TaskState, error: str | None) -> None:
    """Count a failed step; a step that succeeded ends the series."""
    if error is None:
        state.last_errors, state.consecutive_failures = [], 0
    else:
        state.failure_count += 1
        state.last_errors = [*state.last_errors, error]
        state.consecutive_failures = len(state.last_errors)


def _error(attempts: list[Attempt], fault: str | None) -> str | None:
    """Return why a step failed; None if its last attempt succeeded."""
    result = attempts[-1].result
    if result.success:
        return None
    tried = f"{len(attempts)} attempts" if len(attempts) > 1 else "1 attempt"
    more = f" (no further plan: {fault})" if fault is not None and attempts[-1].action.tool_name != NO_PLAN else ""
    return f"Failed after {tried}: {result.error}{more}"


# -- 5. and 6. checks


async def gate_loops(execution: Execution) -> None:
    """Ask a person if the task gets nowhere. If the person lets it go on, it begins with a clean slate."""
    state, monitoring = execution.state, execution.executors.settings.monitoring
    if state.escalation_triggered or "waits_for" in state.metadata:
        return
    if is_looping(state, monitoring):
        why = f"{monitoring.same_errors} identical errors in a row: {state.last_errors[-1]}"
    elif (seen := seen_from_outside(state, monitoring)) is not None:
        why = seen
    else:
        return
    execution.executors.counts["loops"] += 1
    await create_gate(execution, f"Loop detected: {why}", "loop_detected")
    if not state.escalation_triggered:
        state.last_errors, state.consecutive_failures = [], 0
        state.metadata["monitored_from"] = state.current_step


def should_request_confidence_check(execution: Execution) -> bool:
    """Return whether the confidence is to be checked: every five steps, on uncertainty, and on request."""
    state = execution.state
    since = state.current_step - state.last_confidence_check_step
    every = execution.executors.settings.check_every
    return since >= every or "uncertain" in state.metadata or "request_confidence_check" in state.metadata


async def gate_low_confidence(execution: Execution) -> None:
    """Evaluate the confidence if it is time, and ask a person if it is low."""
    state = execution.state
    if execution.is_over() or "waits_for" in state.metadata or not should_request_confidence_check(execution):
        return
    confidence = await evaluate_confidence(execution)
    if confidence is not None and confidence < execution.executors.settings.confidence:
        await create_gate(execution, f"Low confidence: {confidence:.2f}", confidence=confidence)
