"""Whether a model's tool call may be executed: the tool was offered, and its arguments are a JSON object that fits.

The schema of a tool is the part of JSON Schema that tools use: `type`, `enum`, `properties`, `required`, `items`,
`minimum`, `maximum`, `additionalProperties: false`. Other keywords are for the model to read and are not checked.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sim.conditions import did_you_mean
from sim.llm.port import Completion, ToolCall, ToolSpec

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "integer": (int,), "number": (int, float),
    "boolean": (bool,), "null": (type(None),),
}  # fmt: skip

_DEEPEST = 20


def faults(completion: Completion, tools: Sequence[ToolSpec]) -> Mapping[str, str]:
    """Return what is wrong with the tool calls of an answer, by the id of the call; empty if all may be executed.

    Arguments of an answer that was cut off (`max_tokens`) may be cut off too, even if they can be read.
    """
    found = {}
    for call in completion.tool_calls:
        fault = fault_of(call, tools)
        if fault is None and completion.stop == "max_tokens":
            fault = "the answer was cut off"
        if fault is not None:
            found[call.id] = fault
    return found


def fault_of(call: ToolCall, tools: Sequence[ToolSpec]) -> str | None:
    """Return why a call must not be executed, as a sentence for the model, or None if it may be."""
    offered = {tool.name: tool for tool in tools}
    if call.name not in offered:
        near = did_you_mean(call.name, offered)
        return f"there is no tool {call.name[:64]!r}{f'; {near}' if near else ''}"
    arguments = call.parsed()
    if arguments is None:
        return "the arguments are not a JSON object"
    return _mismatch(dict(arguments), offered[call.name].parameters, "the arguments", 0)


def _mismatch(value: Any, schema: Any, where: str, depth: int) -> str | None:
    """Return how a value differs from its schema, or None."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return None
    kinds = schema.get("type")
    names = [kinds] if isinstance(kinds, str) else kinds or ()
    if names and not any(_is(value, name) for name in names):
        return f"{where} must be {' or '.join(names)}, not {type(value).__name__}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} must be one of {', '.join(map(str, schema['enum']))}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        if not low <= value <= high:
            return f"{where} must lie between {low} and {high}"
    if isinstance(value, dict):
        return _object(value, schema, where, depth)
    if isinstance(value, list):
        parts = (_mismatch(part, schema.get("items"), f"{where}[{i}]", depth + 1) for i, part in enumerate(value))
        return next((fault for fault in parts if fault), None)
    return None


def _object(value: dict[str, Any], schema: Mapping[str, Any], where: str, depth: int) -> str | None:
    properties: Mapping[str, Any] = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            return f"{where} lack {name!r}" if depth == 0 else f"{where} lacks {name!r}"
    for name, part in value.items():
        if name not in properties and schema.get("additionalProperties") is False:
            return f"{where}: there is no {name[:64]!r} here"
        fault = _mismatch(part, properties.get(name), name if depth == 0 else f"{where}.{name}", depth + 1)
        if fault is not None:
            return fault
    return None


def _is(value: object, name: object) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(str(name), (object,)))
