"""Checks whether an answer is valid: its tool calls, the tool choice, and the JSON Schema of its text."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sim.base.text import dotted_name
from sim.llm.reading import json_in
from sim.llm.tool_calls import faults, wire_name
from sim.llm.types import Completion, ModelRequest
from sim.world.json_schema import mismatch, schema_fault

TOOL_CHOICES: Final = ("auto", "none", "required")
"""The values of `tool_choice`, in addition to names of tools."""

RESERVED: Final = (
    "model", "messages", "tools", "tool_choice", "response_format", "stream", "stream_options", "temperature", "top_p",
    "max_tokens", "max_completion_tokens", "max_output_tokens", "stop", "seed", "n",
)  # fmt: skip
"""Fields of a request body that have their own option, or that would change counts and costs."""

_DEEPEST = 20
_MOST_VALUES = 10_000  # within an example, because a schema can refer to itself
_LONGEST = 1000  # characters of an example
_EXACT = 1e15  # a float is a whole number up to there


def check_answer(completion: Completion, request: ModelRequest) -> str | None:
    """Return why an answer is not valid, as sentences for the model, or None if it is valid."""
    broken = faults(completion, request.tools)
    if broken:
        names = {call.id: dotted_name(call.name) for call in completion.tool_calls}
        unrun = " ".join(f"The call of {names[id][:64]} was not run: {fault}." for id, fault in broken.items())
        return f"{unrun} Call it again."
    return wrong_choice(completion, request.tool_choice) or wrong_text(completion, request)


def value_of(completion: Completion, request: ModelRequest) -> Any:
    """Return the JSON value of a valid answer; None without a `response_format`, and for tool calls."""
    if request.response_format is None or completion.tool_calls:
        return None
    return json_in(completion.text)


def answer_schema_fault(schema: object) -> tuple[tuple[str | int, ...], str] | None:
    """Return the path and the description of the first fault of a `response_format`, or None if it is valid."""
    return schema_fault(schema)


def extra_body_fault(body: object) -> str | None:
    """Return why a value is not a valid `extra_body`, or None if it is."""
    if not isinstance(body, Mapping):
        return f"extra_body must be a mapping of fields, not {body!r:.60}"
    taken = next((name for name in body if name in RESERVED), None)
    return None if taken is None else f"extra_body must not set {taken!r}: the request sets it"


def example(schema: Any) -> Any:
    """Return a small value for a JSON Schema, as the answer of an offline model.

    It fits, unless the schema demands more than types, values, bounds and lengths, such as items that differ.
    """
    return _example(schema, schema, iter(range(_MOST_VALUES)))


def _example(schema: Any, whole: Any, room: Iterator[int], depth: int = 0) -> Any:
    if not isinstance(schema, Mapping) or depth > _DEEPEST or next(room, None) is None:
        return None
    schema = _one_form(schema, whole)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    kinds = schema.get("type", "object" if "properties" in schema else "string")
    kind = kinds if isinstance(kinds, str) else kinds[0]
    if kind == "object":
        parts = schema.get("properties", {})
        names = (*parts, *schema.get("required", ()))
        return {name: _example(parts.get(name), whole, room, depth + 1) for name in names}
    if kind == "array":
        count = min(schema.get("minItems", 0), _DEEPEST)
        return [_example(schema.get("items"), whole, room, depth + 1) for _ in range(count)]
    if kind in ("integer", "number"):
        return _number(schema)
    if kind == "string":
        return "text".ljust(min(schema.get("minLength", 0), _LONGEST), ".")[: schema.get("maxLength", _LONGEST)]
    return {"boolean": False}.get(kind)


def _one_form(schema: Mapping[str, Any], whole: Any) -> Mapping[str, Any]:
    """Return a schema with its reference, the first of its forms, and what all of them demand, in place of these."""
    for _ in range(_DEEPEST):
        others: list[Any] = [*schema.get("allOf", ())]
        others += [schema[keyword][0] for keyword in ("anyOf", "oneOf") if schema.get(keyword)]
        reference = schema.get("$ref")
        if reference is not None:
            keyword, _, name = str(reference).removeprefix("#/").partition("/")
            others.append(whole.get(keyword, {}).get(name) if name else whole)
        if not others:
            break
        schema = {key: value for key, value in schema.items() if key not in ("allOf", "anyOf", "oneOf", "$ref")}
        for other in others:
            schema = {**schema, **(other if isinstance(other, Mapping) else {})}
    return schema


def _number(schema: Mapping[str, Any]) -> float:
    """Return the lowest number within bounds that are whole numbers; without a lower bound, one that is at most 0."""
    if "minimum" in schema:
        low = schema["minimum"]
    elif "exclusiveMinimum" in schema:
        low = math.floor(schema["exclusiveMinimum"]) + 1
    elif "exclusiveMaximum" in schema:
        low = min(0, schema.get("maximum", 0), math.ceil(schema["exclusiveMaximum"]) - 1)
    else:
        low = min(0, schema.get("maximum", 0))
    step = schema.get("multipleOf", 0)
    return math.ceil(low / step) * step if step and abs(low) < _EXACT else low  # type: ignore[no-any-return]


def wrong_choice(completion: Completion, choice: str | None) -> str | None:
    """Return why the calls of an answer are not those that `tool_choice` demands, or None if they are."""
    called = {call.name for call in completion.tool_calls}
    if choice == "none" and called:
        return "No tool may be called here. Answer in text."
    if choice == "required" and not called:
        return "The answer must call a tool. Call one."
    if choice is not None and choice not in TOOL_CHOICES and set(map(wire_name, called)) != {wire_name(choice)}:
        return f"The answer must call the tool {dotted_name(choice)}. Call it."
    return None


def wrong_text(completion: Completion, request: ModelRequest) -> str | None:
    """Return why the text of an answer does not fit the JSON Schema of the request, or None if it does."""
    if request.response_format is None or completion.tool_calls:
        return None
    if completion.stop == "max_tokens":
        return "The answer was cut off at its token limit. Give a shorter one, as JSON that fits the schema."
    try:
        fault = mismatch(json_in(completion.text), request.response_format, "the answer")
    except ValueError:
        fault = "the answer is not JSON"
    return None if fault is None else f"The answer does not fit the JSON Schema: {fault}. Answer with JSON that fits."
