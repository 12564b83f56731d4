"""Requests in the form of OpenAI's API."""

import attrs

from sim.kernel.codec import Json, JsonObject
from sim.llm.access import Access
from sim.llm.answers import TOOL_CHOICES
from sim.llm.types import ChatMessage, ModelRequest


def body_of(access: Access, model: str, request: ModelRequest, *, stream: bool) -> dict[str, Json]:
    """Return the JSON body of a request to an endpoint. Fields without a value are omitted."""
    body = _body(model, request, stream=stream)
    if "max_tokens" in body:
        body[limit_name(access)] = body.pop("max_tokens")
    return body


def limit_name(access: Access) -> str:
    """Return the name of the field for the token limit of an answer.

    OpenAI's reasoning models refuse `max_tokens`, and other servers ignore `max_completion_tokens`.
    """
    return "max_completion_tokens" if access.is_openai else "max_tokens"


def _body(model: str, request: ModelRequest, *, stream: bool) -> dict[str, Json]:
    if request.texts:
        asked = {"model": model, "input": list(request.texts), "encoding_format": "float"}
        return asked | ({} if request.dimensions is None else {"dimensions": request.dimensions})
    sampling = request.sampling
    body: dict[str, Json] = {
        "model": model,
        "messages": [_message(message) for message in request.messages],
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "stop": list(sampling.stop) or None,
        "seed": sampling.seed,
    }
    if request.tools:
        body["tools"] = [{"type": "function", "function": attrs.asdict(tool, recurse=False)} for tool in request.tools]
    if request.tool_choice is not None:
        body["tool_choice"] = _tool_choice(request.tool_choice)
    schema = request.response_format if request.response_format is not None else request.preferred_format
    if schema is not None:
        form: JsonObject = {"name": "answer", "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    body |= request.extra_body or {}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return {key: value for key, value in body.items() if value is not None}


def _tool_choice(choice: str) -> str | dict[str, Json]:
    return choice if choice in TOOL_CHOICES else {"type": "function", "function": {"name": choice}}


def _message(message: ChatMessage) -> dict[str, Json]:
    result: dict[str, Json] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        result["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
        result["content"] = message.content or None
    if message.tool_call_id is not None:
        result["tool_call_id"] = message.tool_call_id
    return result
