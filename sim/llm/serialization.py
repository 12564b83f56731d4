"""Converts requests, answers and errors to JSON-like values and back. The run file stores this form.

`messages` and `tools` of a request are top-level lists, so that the store can keep equal elements only once. Fields
with their default value are omitted.
"""

import functools
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, Final

import attrs

from sim.kernel.codec import Json, JsonObject
from sim.llm.types import (
    Answer,
    Attempt,
    ChatMessage,
    Completion,
    ModelError,
    ModelRequest,
    Sampling,
    TokenUsage,
    ToolCall,
    ToolSpec,
)


def request_to_json(request: ModelRequest) -> dict[str, Json]:
    """Return a request as a JSON-like mapping."""
    value = _brief(request)
    value["messages"] = [message_to_json(message) for message in request.messages]
    if request.tools:
        value["tools"] = [attrs.asdict(tool) for tool in request.tools]
    if request.sampling != Sampling():
        value["sampling"] = _brief(request.sampling)
    return value


def request_from_json(value: Mapping[str, Any]) -> ModelRequest:
    """Return the request that `request_to_json` wrote. Other keys are ignored."""
    sampling = dict(value.get("sampling", {}))
    if "stop" in sampling:
        sampling["stop"] = tuple(sampling["stop"])
    return ModelRequest(
        texts=tuple(value.get("texts", ())),
        messages=tuple(message_from_json(message) for message in value["messages"]),
        tools=tuple(ToolSpec(**tool) for tool in value.get("tools", ())),
        sampling=Sampling(**sampling),
        **{name: value[name] for name in _OPTIONS if name in value},
    )


def message_to_json(message: ChatMessage) -> dict[str, Json]:
    """Return a message as a JSON-like mapping."""
    value: dict[str, Json] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        value["tool_calls"] = [attrs.asdict(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        value["tool_call_id"] = message.tool_call_id
    return value


def message_from_json(value: Mapping[str, Any]) -> ChatMessage:
    """Return the message that `message_to_json` wrote."""
    calls = tuple(ToolCall(**call) for call in value.get("tool_calls", ()))
    return ChatMessage(value["role"], value["content"], calls, value.get("tool_call_id"))


def plain(record: Any) -> dict[str, Any]:
    """Return a record, such as an attempt or a usage, as a JSON-like mapping, without reasoning tokens that are 0.

    It is called several times for each call, and takes a quarter of the time of `attrs.asdict`.
    """
    return {
        name: part if (part := getattr(record, name)).__class__ in _LEAVES else _parts(part)
        for name in _names(record.__class__)
        if name != "reasoning_tokens" or record.reasoning_tokens
    }


_LEAVES: Final = frozenset({str, int, float, bool, NoneType})


@functools.cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in attrs.fields(kind))


def _parts(value: Any) -> Any:
    """Return a part of a record that is no leaf as a JSON-like value."""
    if isinstance(value, tuple):
        return [part if part.__class__ in _LEAVES else _parts(part) for part in value]
    return plain(value) if attrs.has(value.__class__) else value


def answer_to_json(answer: Answer) -> JsonObject:
    """Return an answer as a JSON-like mapping."""
    value = plain(answer)
    del value["refused_formats"], value["completion"]["refused_format"]  # they are recorded beside the answer
    del value["lost"]  # they are as well, or among the attempts
    del value["completion"]["batch"]  # it must not reach the core, where it would make a difference to online answers
    for name, nothing in (("vectors", ()), ("reasoning", ""), ("formatted", None)):
        if getattr(answer.completion, name) == nothing:
            del value["completion"][name]
    return value


def answer_from_json(value: Mapping[str, Any]) -> Answer:
    """Return the answer that `answer_to_json` wrote."""
    completion = dict(value["completion"])
    completion["tool_calls"] = tuple(ToolCall(**call) for call in completion["tool_calls"])
    completion["usage"] = TokenUsage(**completion["usage"])
    completion["vectors"] = tuple(tuple(vector) for vector in completion.get("vectors", ()))
    return Answer(
        Completion(**completion),
        attempts_from_json(value["attempts"]),
        value["cost_micro"],
        tuple(value["fallbacks"]),
    )


def error_to_json(error: ModelError) -> dict[str, Json]:
    """Return an error as a JSON-like mapping."""
    value: dict[str, Json] = {
        "kind": error.kind,
        "message": str(error),
        "attempts": [plain(attempt) for attempt in error.attempts],
    }
    if error.retry_after is not None:
        value["retry_after"] = error.retry_after
    if error.usage is not None:
        value["usage"] = plain(error.usage)
    if error.hint is not None:
        value["hint"] = error.hint
    if error.reasoning:
        value["reasoning"] = error.reasoning
    return value


def error_from_json(value: Mapping[str, Any]) -> ModelError:
    """Return the error that `error_to_json` wrote."""
    return ModelError(
        value["kind"],
        value["message"],
        retry_after=value.get("retry_after"),
        attempts=attempts_from_json(value["attempts"]),
        usage=_usage(value.get("usage")),
        hint=value.get("hint"),
        reasoning=value.get("reasoning", ""),
    )


def attempts_from_json(value: Sequence[Mapping[str, Any]]) -> tuple[Attempt, ...]:
    """Return the attempts of an answer or an error."""
    return tuple(Attempt(**{**part, "usage": _usage(part.get("usage"))}) for part in value)


def _usage(value: Mapping[str, Any] | None) -> TokenUsage | None:
    return None if value is None else TokenUsage(**value)


_NESTED = ("messages", "tools", "sampling")
_OPTIONS = (
    "use", "tier", "stream", "response_format", "preferred_format", "tool_choice", "extra_body", "dimensions",
    "immediate",
)  # fmt: skip


def _brief(record: Any) -> dict[str, Json]:
    """Return the plain fields of a record that differ from their default."""
    brief: dict[str, Json] = {}
    for field in attrs.fields(type(record)):
        value = getattr(record, field.name)
        if field.name not in (*_NESTED, "key") and value != field.default:
            brief[field.name] = list(value) if isinstance(value, tuple) else value
    return brief
