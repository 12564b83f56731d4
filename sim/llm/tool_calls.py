"""Checks tool calls of a model: the tool must have been offered, and its arguments must be a JSON object that fits."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from sim.base.expressions import did_you_mean
from sim.base.text import dotted_name
from sim.kernel.codec import encode
from sim.llm.types import Completion, ToolCall, ToolSpec
from sim.world.json_schema import mismatch

CUT_OFF: Final = "the answer was cut off"
"""The fault of each call of an answer that reached its token limit: their arguments can be incomplete."""

_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME: Final = 64


def wire_name(name: str) -> str:
    """Return the name of a tool as models see it: some endpoints accept no dots in names."""
    return name.replace(".", "__")


def as_offered(call: ToolCall, tools: Sequence[ToolSpec]) -> ToolCall:
    """Return a call under the name of the tool that was offered: models may write it with a dot, as people do."""
    name = wire_name(call.name)
    offered = {tool.name for tool in tools}
    return attrs.evolve(call, name=name) if call.name not in offered and name in offered else call


def sound(call: ToolCall) -> ToolCall:
    """Return a call as every endpoint accepts it in a history: with a possible name, and a JSON object as arguments."""
    name = _NO_NAME.sub("_", wire_name(call.name))[:_LONGEST_NAME] or "unknown"
    arguments = call.sound_arguments
    if call.parsed() is None:
        arguments = encode({"text": call.arguments}).decode()
    return attrs.evolve(call, name=name, arguments=arguments)


def faults(completion: Completion, tools: Sequence[ToolSpec]) -> Mapping[str, str]:
    """Return the faults of the tool calls of an answer, by id of the call; empty if all can be executed.

    If an answer was cut off (`max_tokens`), all its calls are faulty: their arguments can be incomplete, even if they
    are valid JSON.
    """
    faults_by_call = {}
    for call in completion.tool_calls:
        fault = CUT_OFF if completion.stop == "max_tokens" else fault_of(call, tools)
        if fault is not None:
            faults_by_call[call.id] = fault
    return faults_by_call


def fault_of(call: ToolCall, tools: Sequence[ToolSpec]) -> str | None:
    """Return why a call must not be executed, as a sentence for the model, or None if it can be executed."""
    offered, call = {tool.name: tool for tool in tools}, as_offered(call, tools)
    if call.name not in offered:
        near = did_you_mean(dotted_name(call.name), map(dotted_name, offered))
        return f"there is no tool {dotted_name(call.name)[:64]!r}{f'; {near}' if near else ''}"
    arguments = call.parsed()
    if arguments is None:
        return "the arguments are not a JSON object"
    return mismatch(dict(arguments), offered[call.name].parameters, "the arguments")
