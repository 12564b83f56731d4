"""Converts requests, answers and errors to JSON-like values and back. The run file stores this form.

`messages` and `tools` of a request are top-level lists, so that the store can keep equal elements only once. Fields
with their default value are omitted.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

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
    if sampling := _brief(request.sampling):
        value["sampling"] = sampling
    return value


def request_from_json(value: Mapping[str, Any], key: str = "") -> ModelRequest:
    """Return the request that `request_to_json` wrote, with a key. Other keys of the value are ignored."""
    sampling = dict(value.get("sampling", {}))
    if "stop" in sampling:
        sampling["stop"] = tuple(sampling["stop"])
    return ModelRequest(
        texts=tuple(value.get("texts", ())),
        messages=tuple(message_from_json(message) for message in value["messages"]),
        tools=tuple(ToolSpec(**tool) for tool in value.get("tools", ())),
        sampling=Sampling(**sampling),
        key=key,
        **{name: value[name] for name in _OPTIONS if name in value},
    )


def message_to_json(message: ChatMessage) -> dict[str, Json]:
    """Return a message as a JSON-like mapping."""
    value: dict[str, Json] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        value["tool_calls"] = [_call_to_json(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        value["tool_call_id"] = message.tool_call_id
    return value


def message_from_json(value: Mapping[str, Any]) -> ChatMessage:
    """Return the message that `message_to_json` wrote."""
    calls = tuple(ToolCall(**call) for call in value.get("tool_calls", ()))
    return ChatMessage(value["role"], value["content"], calls, value.get("tool_call_id"))


def usage_to_json(usage: TokenUsage) -> dict[str, Any]:
    """Return tokens as a JSON-like mapping, without reasoning tokens that are 0."""
    value: dict[str, Any] = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
        "estimated": usage.estimated,
    }
    if usage.reasoning_tokens:
        value["reasoning_tokens"] = usage.reasoning_tokens
    return value


def attempt_to_json(attempt: Attempt) -> dict[str, Json]:
    """Return an attempt as a JSON-like mapping."""
    return {
        "provider": attempt.provider,
        "model": attempt.model,
        "outcome": attempt.outcome,
        "seconds": attempt.seconds,
        "waited": attempt.waited,
        "detail": attempt.detail,
        "usage": None if attempt.usage is None else usage_to_json(attempt.usage),
    }


def answer_to_json(answer: Answer) -> JsonObject:
    """Return an answer as a JSON-like mapping.

    What is recorded beside it, or among the attempts, is left out: `refused_format`, `refused_formats` and `lost`. So
    is `batch`: it must not reach the core, where it would make a difference to online answers.
    """
    completion = answer.completion
    record: dict[str, Json] = {
        "text": completion.text,
        "tool_calls": [_call_to_json(call) for call in completion.tool_calls],
        "stop": completion.stop,
        "usage": usage_to_json(completion.usage),
        "model": completion.model,
    }
    if completion.vectors:
        record["vectors"] = completion.vectors
    if completion.reasoning:
        record["reasoning"] = completion.reasoning
    if completion.formatted is not None:
        record["formatted"] = completion.formatted
    return {
        "completion": record,
        "attempts": [attempt_to_json(attempt) for attempt in answer.attempts],
        "cost_micro": answer.cost_micro,
        "fallbacks": list(answer.fallbacks),
    }


def _call_to_json(call: ToolCall) -> dict[str, Json]:
    return {"id": call.id, "name": call.name, "arguments": call.arguments}


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
        "attempts": [attempt_to_json(attempt) for attempt in error.attempts],
    }
    if error.retry_after is not None:
        value["retry_after"] = error.retry_after
    if error.usage is not None:
        value["usage"] = usage_to_json(error.usage)
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
    for name, default in _defaults(record.__class__):
        value = getattr(record, name)
        if value != default:
            brief[name] = list(value) if isinstance(value, tuple) else value
    return brief


@functools.cache
def _defaults(kind: type[Any]) -> tuple[tuple[str, Any], ...]:
    """Return the plain fields of a class of records, with their defaults."""
    return tuple((field.name, field.default) for field in attrs.fields(kind) if field.name not in (*_NESTED, "key"))
