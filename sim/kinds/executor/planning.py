"""Planning: a model reasons about the state of a task and plans one action; after a failure, a different one."""

from collections.abc import Sequence
from typing import Any, Final

import attrs

from sim.agents.engine import CoreLoop, LoopResult, prompt, section, time_context
from sim.events.coerce import mapping
from sim.kernel import to_seconds
from sim.kernel.codec import JsonObject, encode
from sim.kinds.executor.execution import Execution
from sim.kinds.executor.records import PlannedAction, RefusedPlan, Result, Step, cut
from sim.kinds.executor.tools import CONTROL, FINISH
from sim.llm.types import ChatMessage, ModelRequest
from sim.resources import MICRO
from sim.tools import Tool, Tools

INSTRUCTIONS: Final = (
    "You work on a task step by step until its acceptance criteria are met. Plan the next step: say in one or two "
    "sentences why, then call exactly one tool. The criteria are checked after each step. Call executor__finish when "
    "you think that they are met, and executor__report_uncertainty when you do not know how to go on."
)

DIFFERENTLY: Final = "The attempt failed. Plan a different approach: another tool, or other arguments."
ONLY: Final = "You may not use this tool. Plan with one of: "

_UNFINISHED: Final = {"max_tokens": "the answer was cut off before a call", "refusal": "the model refused to answer"}
"""Ends of an answer without a call that say nothing of the task."""

_STEPS: Final = 5  # the latest steps that a prompt shows
_LAST_RESULT: Final = 8_000  # characters of the result of the last step
_RESULT: Final = 500  # characters of the results of steps before


@attrs.frozen
class PlannedStep:
    """A planned action with its reasoning, and how many plans before it were refused, because they had been tried."""

    reasoning: str
    action: PlannedAction
    refused: int = 0


@attrs.define
class Planner:
    """Plans one step, by asking a model. Inherit from it, and override `ask`, to plan otherwise.

    It knows what was tried in this step: a plan that was tried is refused, and asked for again.

    Attributes:
        execution: the execution.
        messages: the prompt, the plans, and how they ended.
        tried: the plans that were tried, as tool, operation and canonical parameters; see `Tool.canonical`.
        refused: the plans that were refused, because they had been tried.
        failure: the result of the call of a model that brought no plan; None: all did.
        fault: why there is no further plan; None: there is one.
    """

    execution: Execution
    messages: list[ChatMessage] = attrs.field(factory=list)
    tried: dict[bytes, int] = attrs.field(factory=dict)
    refused: list[RefusedPlan] = attrs.field(factory=list)
    failure: LoopResult | None = None
    fault: str | None = None

    async def first(self) -> PlannedStep | None:
        """Return the plan of a step; None if there is none."""
        execution = self.execution
        system = prompt(f"{execution.settings.prompt}\n\n{INSTRUCTIONS}".strip())
        self.messages = [ChatMessage("system", system), ChatMessage("user", situation(execution))]
        return await self._different(())

    async def again(self, result: Result, only: Sequence[str]) -> PlannedStep | None:
        """Return a plan that differs from all that were tried in this step; None if there is none.

        Args:
            result: how the last plan ended.
            only: the tools that may be used; empty: all.
        """
        self.execution.executors.counts["replans"] += 1
        wire = [Tools.of(self.execution.world).find(name).wire_name for name in only]
        self._answer(result, ONLY + ", ".join(wire) if wire else DIFFERENTLY)
        return await self._different(only)

    async def _different(self, only: Sequence[str]) -> PlannedStep | None:
        for refused in range(self.execution.executors.settings.same_plans + 1):
            plan = await self.ask(only)
            if plan is None:
                return None
            key, attempt = self._key(plan.action), len(self.tried) + 1
            if key not in self.tried:
                self.tried[key] = attempt
                return attrs.evolve(plan, refused=refused)
            now = self.execution.world.kernel.now
            self.refused.append(RefusedPlan(attempt, plan.reasoning, plan.action, now))
            self.execution.executors.counts["same_plans"] += 1
            self._answer(Result(False, "failed", error="the same plan was tried before"), DIFFERENTLY)
        self.fault = "no different approach was found"
        return None

    def _key(self, action: PlannedAction) -> bytes:
        """Return what makes a plan the same as another one: tool, operation and canonical parameters."""
        tool = Tools.of(self.execution.world).find(action.tool_name)
        parameters = tool.canonical(action.parameters)
        return encode([tool.name, tool.operation_of(parameters), parameters])

    def plan(self, reasoning: str, tool: str, arguments: JsonObject) -> PlannedStep:
        """Return a plan, and note its reasoning.

        Args:
            reasoning: why.
            tool: the name of the tool.
            arguments: its arguments.

        Raises:
            Refused: if there is no such tool.
        """
        return self._plan(reasoning, Tools.of(self.execution.world).find(tool), arguments)

    async def ask(self, only: Sequence[str]) -> PlannedStep | None:
        """Return the next plan; None, with `fault`, if there is none.

        Args:
            only: the tools that may be used; empty: all that are offered.
        """
        execution = self.execution
        tools = offered_tools(execution, only)
        limits = execution.executors.settings.limits
        loop = CoreLoop(
            execution.world,
            execution.agent,
            decisions=tools,
            limits=attrs.evolve(limits, time=min(limits.time, execution.state.timeout_ns)),
            request=ModelRequest((), use=execution.settings.use, immediate=True),
            complete=execution.complete,
        )
        result = await loop.run(self.messages)
        self.messages += result.messages
        if result.ending == "decision":
            by_wire = {tool.wire_name: tool for tool in tools}
            call = result.calls[0]  # a step is one action; further calls are answered with an error that says so
            return self._plan(result.text, by_wire[str(call["name"])], mapping(call["arguments"]))
        stop = None if result.completion is None else result.completion.stop
        whole = result.ending == "natural_completion" and stop not in _UNFINISHED and result.text.strip()
        if whole:  # it thinks that it has finished
            return self._plan(result.text, Tools.of(execution.world).find(FINISH), {"summary": result.text})
        self.failure = result
        self.fault = result.error or _UNFINISHED.get(stop or "", "the model planned nothing")
        return None

    def _plan(self, reasoning: str, tool: Tool, arguments: JsonObject) -> PlannedStep:
        self.execution.state.decision_reasoning.append(cut(reasoning, _RESULT))
        operation = tool.operation_of(arguments) or tool.name.rpartition(".")[2]
        return PlannedStep(reasoning, PlannedAction(tool.name, operation, arguments))

    def _answer(self, result: Result, then: str) -> None:
        """Tell the model how its last plan ended, and what is wanted now."""
        for index, call in enumerate(self.messages[-1].tool_calls):
            error = result.error if index == 0 else "a step is one action, so this call was not run"
            content = encode({"success": False, "error": error}).decode()
            self.messages.append(ChatMessage("tool", content, tool_call_id=call.id))
        self.messages.append(ChatMessage("user", f"{section('error', result.error)}\n\n{then}"))


def offered_tools(execution: Execution, only: Sequence[str] = ()) -> list[Tool]:
    """Return the tools that a plan can use. Whether a call is allowed, is known when it is made.

    Args:
        execution: the execution.
        only: names of tools; empty: all of the executor that it was not denied in this task.
    """
    tools = Tools.of(execution.world)
    denied = execution.state.metadata.get("denied", [])
    names = list(only) or [name for name in execution.settings.tools if name not in denied]
    return [tools.find(name) for name in dict.fromkeys((*names, *CONTROL))]


def situation(execution: Execution) -> str:
    """Return the situation of a task as a prompt: the goal, how far it is reached, and what was done last."""
    world, state = execution.world, execution.state
    meta, files = state.metadata, execution.executors.workspace.files
    left = to_seconds(execution.executors.time.left_ns(state))
    cost = max(0, state.left_micro) / MICRO
    return prompt(
        "",
        [
            ("task", f"{state.task_id}: {state.goal}"),
            ("acceptance_criteria", criteria_lines(state.criteria, state.metadata.get("criteria", []))),
            ("constraints", dict(state.constraints) or ""),
            ("files", list(files.get(state.project_id, ()))),
            ("protected", list(state.protected or ())),
            ("progress", {"score": state.progress_score, **state.progress_metrics}),
            ("steps", [line for step in state.steps_history[-_STEPS:] for line in _lines(step, state.current_step)]),
            ("last_error", state.last_errors[-1] if state.last_errors else ""),
            ("help", [encode(one).decode() for one in meta.get("help", ())] or ""),
            ("notes_of_people", [f"{one['from']}: {one['text']}" for one in meta.get("notes", [])]),
            ("limits", f"step {state.current_step + 1} of {state.max_steps}; {left:g} s and {cost:g} left"),
            ("time_context", time_context(world)),
        ],
    )


def criteria_lines(criteria: Sequence[Any], met: Sequence[bool]) -> list[str]:
    """Return the criteria as lines, with a mark at those that were met after the last step."""
    marks = [*met, *(False for _ in criteria[len(met) :])]
    return [f"[{'x' if mark else ' '}] {one.line}" for one, mark in zip(criteria, marks, strict=True)]


def _lines(step: Step, last: int) -> list[str]:
    """Return a step as lines of a prompt; only the last one with its whole result."""
    longest = _LAST_RESULT if step.step_number == last else _RESULT
    what = encode(step.planned_action.to_json(_RESULT)["parameters"]).decode()
    became = step.execution_result
    said = encode({"output": became.output} if became.success else {"error": became.error}).decode()
    return [
        f"{step.step_number}. {cut(step.reasoning, _RESULT)}",
        f"   {step.planned_action.tool_name} {what}",
        f"   {became.status}: {cut(said, longest)}",
        *([f"   this step failed: {step.error_if_failed}"] if step.error_if_failed else []),
    ]
