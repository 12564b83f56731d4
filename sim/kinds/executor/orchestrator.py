"""The orchestrator: it passes on the calls of tools, evaluates confidence, and asks people.

    executor → orchestrator → access → tool → audit → orchestrator → executor

An executor that may not call a tool gets, in this order: an allowed alternative, the help of a specialist, or a gate at
which a person decides whether the task continues.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import attrs

from sim.base.errors import Cancelled
from sim.kernel.codec import JsonObject, encode
from sim.kinds.executor.events import ConfidenceChecked, ExecutionApproved, ExecutionDenied, ExecutionEscalated
from sim.kinds.executor.execution import Execution, Rating
from sim.kinds.executor.records import Ending, Flag, PlannedAction, Result, ToolExecution
from sim.kinds.executor.service import ORCHESTRATOR
from sim.kinds.executor.settings import Criterion, ExecutionTask
from sim.resources import MICRO
from sim.tools import Tools
from sim.tools.access import ToolAccess
from sim.tools.approvals import Approvals, ending_of
from sim.world import Action, Refused

CONTINUE: Final = "executor.continue"
"""The name under which a person is asked whether a task continues."""

_CONFIDENCE: Final = (
    "You watch an agent that works on a task. How confident are you that it reaches its goal if it goes on like this?"
)
_STEPS: Final = 5  # the latest steps that are shown to the model that evaluates
_HELP_PRIORITY: Final = 100


async def execute_tool(execution: Execution, action: PlannedAction) -> Result:
    """Make the call of a tool: it is checked, approved if a rule demands it, audited, and run.

    Args:
        execution: the execution.
        action: the planned call.
    """
    world, agent, state = execution.world, execution.agent, execution.state
    tool = Tools.of(world).find(action.tool_name)
    denied = ToolAccess.on(world).refusal(agent, tool, action.parameters) is not None
    asked = len(_gates(execution))
    call: JsonObject = {"tool": tool.name, "args": dict(action.parameters)}
    try:
        done = await world.execute(agent, Action("use_tool", call, _short(state.decision_reasoning)))
    finally:
        gates = _gates(execution)[asked:]
        for gate in gates:
            execution.executors.time.add_gate(state, gate)
    if done.success:
        result = Result(True, "ok", done.data)
    else:
        denied = denied or any(ending_of(gate) is not None for gate in gates)
        result = Result(False, "denied" if denied else "failed", error=done.error)
    state.tool_executions.append(ToolExecution(state.current_step + 1, tool.name, result.status))
    return result


def _gates(execution: Execution) -> list[Any]:
    approvals = execution.world.services.get(Approvals.name)
    if not isinstance(approvals, Approvals):
        return []
    return [gate for gate in approvals.gates.values() if gate.agent == execution.agent.agent_id]


def _short(reasoning: Sequence[str]) -> str:
    return reasoning[-1][:300] if reasoning else ""


async def handle_denial(execution: Execution, action: PlannedAction, denied: Result) -> tuple[Result, Sequence[str]]:
    """Find another way for a call that is not allowed.

    Args:
        execution: the execution.
        action: the call.
        denied: its refusal.

    Returns:
        What the step makes of it, and the tools with which to plan again; empty if there are none.
    """
    state, executors = execution.state, execution.executors
    executors.counts["denied"] += 1
    denied_tools = state.metadata.setdefault("denied", [])
    tool = Tools.of(execution.world).find(action.tool_name)
    if tool.operation is None and tool.name not in denied_tools:
        denied_tools.append(tool.name)
    if alternatives := _alternatives(execution, action.tool_name):
        executors.counts["alternatives"] += 1
        executors.report(ExecutionDenied, state, tool=tool.name, error=denied.error, then="alternative")
        return denied, alternatives
    if (asked := _ask_specialist(execution, action)) is not None:
        executors.report(ExecutionDenied, state, tool=tool.name, error=denied.error, then="help", help=asked)
        return Result(True, "passed_on", {"help": asked}, metadata={"help": asked}), ()
    executors.report(ExecutionDenied, state, tool=tool.name, error=denied.error, then="gate")
    gate = await create_gate(execution, f"Blocked: {denied.error}")
    if state.escalation_triggered:
        return denied, ()
    return Result(True, "decided", {"person": "go on without this call"}, metadata={"gate": gate}), ()


def _alternatives(execution: Execution, tool: str) -> list[str]:
    """Return the allowed tools of an executor that can replace a tool."""
    denied = execution.state.metadata.get("denied", [])
    wanted = execution.executors.settings.alternatives.get(tool, ())
    own = [name for name in wanted if name in execution.settings.tools and name not in denied]
    return [substitute.name for substitute in Tools.of(execution.world).offered(execution.agent, own)]


def _ask_specialist(execution: Execution, action: PlannedAction) -> str | None:
    """Give the call as a task to executors of a type that may make it; return its name, or None if there are none.

    It is a new task, not a call on behalf of the one who asks: the specialist plans for itself, by its own rights.
    """
    state, executors, world = execution.state, execution.executors, execution.world
    depth, above = 0, state
    while above.helps is not None:
        depth, above = depth + 1, executors.states[above.helps]
    specialist = None if depth >= executors.settings.help else _specialist(execution, action)
    if specialist is None:
        return None
    words = (
        f"Help with the task {state.task_id}: call {action.tool_name} with {encode(dict(action.parameters)).decode()}"
    )
    criterion = Criterion(f"{action.tool_name} was called with success", tool=action.tool_name)
    left = max(0, state.left_micro) / MICRO
    task = ExecutionTask(
        words[:4000], specialist, (criterion,), project=state.project_id, priority=_HELP_PRIORITY, cost_limit=left
    )
    try:
        made = executors.add(
            ORCHESTRATOR, f"help-{state.task_id}", task, depends_on=(), parent=state.number, helps=state.number
        )
    except Refused:  # there are too many open tasks: the next way is tried, which is to ask a person
        return None
    executors.counts["help"] += 1
    executors.wait_for(state, made)
    assert world.tasks.get(made.number).open, "a new task has not ended"
    return made.task_id


def _specialist(execution: Execution, action: PlannedAction) -> str | None:
    """Return the type of an executor that has a tool and may make this call; None if there is none."""
    world = execution.world
    tool, access = Tools.of(world).find(action.tool_name), ToolAccess.on(world)
    for name, settings in execution.executors.agents.items():
        other: Any = world.agents.get(name)
        if other is None or settings.type == execution.settings.type or tool.name not in settings.tools:
            continue
        if access.refusal(other, tool, action.parameters) is None:
            return settings.type
    return None


async def evaluate_confidence(execution: Execution) -> float | None:
    """Return how confident a model is that the task succeeds, from 0 to 1; None if no model answered.

    An answer without such a number counts as no confidence, so that a person decides. Without an answer, the confidence
    is evaluated after the next step.
    """
    state, executors = execution.state, execution.executors
    progress = cast("JsonObject", state.progress_metrics)
    rating = await execution.rate(
        "confidence",
        _CONFIDENCE,
        {
            "agent": execution.agent.agent_id,
            "task": f"{state.task_id}: {state.goal}",
            "progress": {"step": state.current_step, "score": state.progress_score, **progress},
            "steps": [encode(step.to_json(300)).decode() for step in state.steps_history[-_STEPS:]],
            "artifacts": {name: attrs.asdict(one) for name, one in state.artifacts.items()},
            "uncertainty": str(state.metadata.get("uncertain", "")),
            "stalled": str(state.metadata.get("stalled", "")),
        },
    )
    if not isinstance(rating, Rating):
        return None
    score = 0.0 if rating.number is None else round(rating.number, 4)
    state.last_confidence_check_step, state.last_confidence_score = state.current_step, score
    why = [reason for flag, reason in _REASONS.items() if state.metadata.pop(flag, None)] or ["interval"]
    executors.counts["confidence_checks"] += 1
    executors.report(
        ConfidenceChecked,
        state,
        step=state.current_step,
        why=why,
        score=score,
        readable=rating.number is not None,
        said=rating.text[:500],
    )
    return score


_REASONS: Final[Mapping[Flag, str]] = {
    "uncertain": "uncertain", "request_confidence_check": "requested", "stalled": "stalled",
}  # fmt: skip
"""Why the confidence was checked, by the key of the state; else the interval has passed."""


async def create_gate(execution: Execution, reason: str, ending: Ending = "escalation", **context: Any) -> str | None:
    """Ask a person whether the task continues, and wait for the decision; the executor is PAUSED meanwhile.

    If the person agrees, `escalation_triggered` is cleared and the task continues. If not, if no person decides in
    time, or if no person can be asked, it stays set, and the task ends as escalated.

    Args:
        execution: the execution.
        reason: why a person is needed.
        ending: how the task ends if no person lets it continue.
        context: what else the person should know.

    Returns:
        The gate; None if no person can be asked.
    """
    state, executors, world = execution.state, execution.executors, execution.world
    state.escalation_triggered, state.escalation_reason = True, reason
    state.metadata["escalation"] = ending
    approvals = world.services.get(Approvals.name)
    number = state.metadata.get("gates", 0)
    if not isinstance(approvals, Approvals) or number >= executors.settings.gates:
        executors.report(ExecutionEscalated, state, reason=reason, gate=None)
        return None
    about: JsonObject = {
        "task": state.task_id,
        "number": state.number,
        "step": state.current_step,
        "goal": state.goal,
        "progress": state.progress_score,
        "last_error": state.last_errors[-1] if state.last_errors else None,
        **context,
    }
    try:
        gate = approvals.ask(execution.agent, CONTINUE, about, reason)
    except Refused as refusal:  # too many gates are open
        executors.report(ExecutionEscalated, state, reason=f"{reason}; {refusal}", gate=None)
        return None
    state.metadata["gates"] = number + 1
    executors.counts["gates"] += 1
    executors.report(ExecutionEscalated, state, reason=reason, gate=gate.id)
    world.tasks.update(state.number, ORCHESTRATOR, status="paused", note=reason[:500])
    try:
        gate = await approvals.decided(execution.agent, gate)
    except (Cancelled, Exception):  # the executor was stopped: no decision yet, so another executor takes over
        state.escalation_triggered = False
        raise
    finally:
        executors.time.add_gate(state, approvals.gates[gate.id])
        world.tasks.update(state.number, ORCHESTRATOR, status="active")
    if (why := ending_of(gate)) is not None:
        state.escalation_reason = f"{reason}; {why}"
        return gate.id
    approvals.use(gate.id, gate.agent, CONTINUE, about)
    executors.counts["gates_approved"] += 1
    state.escalation_triggered, state.escalation_reason = False, None
    state.last_confidence_check_step = state.current_step
    if gate.note:
        state.metadata.setdefault("notes", []).append({"from": gate.decided_by, "text": gate.note})
    executors.report(ExecutionApproved, state, gate=gate.id, by=gate.decided_by, note=gate.note)
    return gate.id
