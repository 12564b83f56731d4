"""The tool calls of an answer: what was called, with which arguments, and why a call cannot be run."""

from collections.abc import Callable, Sequence

import attrs

from sim.base.text import dotted_name
from sim.kernel.codec import JsonObject, encode
from sim.llm.answers import wrong_choice
from sim.llm.tool_calls import CUT_OFF, as_offered, fault_of
from sim.llm.types import Completion, ModelRequest, ToolCall, ToolSpec
from sim.tools import Tool

TOGETHER = "another call of this answer is wrong, so none was run"
"""The fault of a call that is a decision, if it was made together with a wrong one."""


@attrs.frozen
class Called:
    """One call of a model.

    Attributes:
        call: the call as the model made it, under the name of the tool that was offered.
        tool: the tool that it runs; None if it is a decision, or there is no such tool.
        arguments: its arguments, without what only the runtime can say; empty if they are not a JSON object.
        fault: why it cannot be run; None: it can.
    """

    call: ToolCall
    tool: Tool | None
    arguments: JsonObject
    fault: str | None


def spec_of(tool: Tool) -> ToolSpec:
    """Return a tool as a model sees it."""
    return ToolSpec(tool.wire_name, tool.description, tool.parameters)


def read_calls(
    completion: Completion,
    request: ModelRequest,
    tools: Sequence[Tool],
    decisions: Sequence[Tool | ToolSpec],
    not_offered: Callable[[str], str | None],
) -> tuple[Called, ...]:
    """Return the calls of an answer, in order.

    Args:
        completion: the answer.
        request: what was asked, with all tools that were offered.
        tools: the tools that are run.
        decisions: the tools whose call is the answer.
        not_offered: returns why a tool that exists was not offered; None if there is none of this name.
    """
    if not completion.tool_calls:
        return ()
    run = {tool.wire_name: tool for tool in tools}
    tools_by_name = {**run, **{one.wire_name: one for one in decisions if isinstance(one, Tool)}}
    choice = wrong_choice(completion, request.tool_choice)
    offered = {spec.name for spec in request.tools}
    calls = []
    for made in completion.tool_calls:
        call = as_offered(made, request.tools)
        parsed, tool = call.parsed() or {}, tools_by_name.get(call.name)
        sent = parsed if tool is None else tool.sent(parsed)
        judged = call if sent == parsed else attrs.evolve(call, arguments=encode(sent).decode())
        fault = CUT_OFF if completion.stop == "max_tokens" else None
        if fault is None and call.name not in offered:
            fault = not_offered(call.name)
        fault = fault or fault_of(judged, request.tools) or choice
        calls.append(Called(call, run.get(call.name), sent, fault))
    deciding = any(one.tool is None and one.fault is None for one in calls)
    if deciding and any(one.fault is not None for one in calls):
        return tuple(attrs.evolve(one, fault=one.fault or TOGETHER) for one in calls)
    return tuple(calls)


def refusal(calls: Sequence[Called]) -> str:
    """Return in sentences why none of the calls of an answer was run."""
    return " ".join(f"The call of {dotted_name(one.call.name)[:64]} was not run: {one.fault}." for one in calls)
