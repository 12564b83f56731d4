"""Assembles an answer from the chunks of a chat-completions stream, or from one whole response.

It works on plain JSON values. Each field that an endpoint sends is checked here, because the types of a library do not
guarantee the data. An answer without a finish reason is an error. Tool calls of an answer that was cut off at its token
limit are passed on, and refused later (`tool_calls.faults`): the last one can be incomplete, and others can be missing.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from sim.kernel.codec import Json, JsonObject
from sim.llm.tokens import Tokenizer, sound_usage
from sim.llm.types import (
    Completion,
    Delta,
    DeltaKind,
    ErrorClass,
    ModelError,
    ModelRequest,
    Observer,
    StopReason,
    TokenUsage,
    ToolCall,
)

MAX_TEXT: Final = 4 * 2**20
"""The most characters of text, reasoning and arguments together."""

MAX_CALLS: Final = 128
"""The most tool calls in one answer."""

_STOPS: Final[Mapping[str, StopReason]] = {
    "stop": "end_turn", "tool_calls": "tool_use", "function_call": "tool_use", "length": "max_tokens",
    "eos": "end_turn", "eos_token": "end_turn", "end_turn": "end_turn", "stop_sequence": "stop_sequence",
    "tool_use": "tool_use", "max_tokens": "max_tokens", "model_length": "max_tokens",
}  # fmt: skip
"""The finish reasons of OpenAI, and those of Together, TGI, Anthropic, Gemini and Mistral, in lowercase."""

_FILTERED: Final = ("content_filter", "safety", "prohibited_content", "recitation", "blocklist")
_FAILED: Final[Mapping[str, ErrorClass]] = {
    "insufficient_system_resource": "overload", "error": "server", "abort": "server"
}  # fmt: skip
"""Finish reasons of answers that the endpoint gave up: of DeepSeek, OpenRouter and vLLM."""


@attrs.define
class _Call:
    """A tool call that is not complete."""

    id: str = ""
    name: str = ""
    arguments: list[str] = attrs.field(factory=list)


class Assembly:
    """An answer that is not complete.

    Args:
        request: the request.
        model: the requested model; an answer can name another.
        tokenizer: estimates the usage that the endpoint does not report.
        observe: called with each part of the answer, or None.
    """

    def __init__(self, request: ModelRequest, model: str, tokenizer: Tokenizer, observe: Observer | None) -> None:
        self.finish: str | None = None
        self._request = request
        self._model = model
        self._tokenizer = tokenizer
        self._observe = observe
        self._texts: dict[str, list[str]] = {"text": [], "think": [], "refusal": []}
        self._calls: list[_Call] = []
        self._places: dict[int, int] = {}  # by index in the stream: place in `_calls`
        self._size = 0
        self._reported: TokenUsage | None = None
        self._stop_sequence = False
        self.begun = False
        self.over = False  # there is a finish reason, and no content after it

    def feed(self, chunk: Any) -> None:
        """Add one chunk.

        Raises:
            ModelError: if the value is not a chunk, or the answer becomes too long.
        """
        if not isinstance(chunk, dict):
            raise _malformed("a chunk is no object", chunk)
        self.begun = True
        if isinstance(chunk.get("model"), str) and chunk["model"]:
            self._model = _sound(chunk["model"])
        if isinstance(chunk.get("usage"), dict):
            self._reported = _usage(chunk["usage"])
        choices = chunk.get("choices")
        if choices is None:
            return
        if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
            raise _malformed("`choices` is no list of objects", choices)
        for choice in [choice for place, choice in enumerate(choices) if _index(choice, place) == 0][:1]:
            self._take(choice)  # the last chunk has no choice, only the usage

    def feed_whole(self, response: Any) -> None:
        """Add a whole response."""
        choices = response.get("choices") if isinstance(response, dict) else None
        if not isinstance(choices, list) or not choices or not all(isinstance(choice, dict) for choice in choices):
            raise _malformed("a response has no choices", response)
        self.feed({**response, "choices": [{**choice, "delta": choice.get("message")} for choice in choices]})

    def completion(self) -> Completion:
        """Return the whole answer.

        Raises:
            ModelError: if the answer has no finish reason, was filtered, or is malformed.
        """
        finish = (self.finish or "").lower()
        if finish.startswith(_FILTERED):
            raise ModelError("content", "the answer was withheld by the endpoint's filter", usage=self.usage())
        if finish in _FAILED:
            raise ModelError(_FAILED[finish], f"the endpoint gave up ({finish})", usage=self.usage())
        stop = _STOPS.get(finish)
        if stop is None:
            reason = "no finish reason" if self.finish is None else f"the unknown finish reason {self.finish!r}"
            raise ModelError("incomplete", f"the answer ended with {reason}", usage=self.usage())
        calls, text, thoughts = self._all_calls(), self._whole("text"), self._whole("think")
        if stop == "max_tokens":
            return Completion(text, calls, stop, self.usage(), self._model, reasoning=thoughts)
        if not all(call.name for call in calls):
            raise ModelError("malformed", "a tool call has no name", usage=self.usage())
        if self._texts["refusal"]:
            stop, text, calls = "refusal", text or self._whole("refusal"), ()
        elif stop == "tool_use" and not calls:
            raise ModelError("malformed", "the model stopped to call tools, but named none", usage=self.usage())
        elif stop == "end_turn" and calls:
            stop = "tool_use"  # several servers report tool calls in this way
        elif stop == "end_turn" and self._stop_sequence:
            stop = "stop_sequence"
        for place, call in enumerate(calls):
            self._tell("tool_complete", call.arguments, call.name, place)
        return Completion(text, calls, stop, self.usage(), self._model, reasoning=thoughts)

    def usage(self) -> TokenUsage:
        """Return the usage so far: the reported one if it is plausible, otherwise an estimate."""
        text = "".join(map(self._whole, self._texts))
        return sound_usage(self._reported, self._tokenizer, self._request, text, self._all_calls())

    # -- parts

    def _take(self, choice: JsonObject) -> None:
        delta = choice.get("delta")
        if delta is None:
            delta = {}
        if not isinstance(delta, dict):
            raise _malformed("a delta is no object", delta)
        before = (self._size, len(self._calls))
        self._add("think", delta.get("reasoning_content") or delta.get("reasoning") or _details(delta))
        for kind, text in _parts(delta.get("content")):
            self._add(kind, text)
        self._add("refusal", delta.get("refusal"))
        for call in _list(delta.get("tool_calls")):
            self._take_call(call)
        finish = choice.get("finish_reason")
        if not isinstance(finish, str):
            finish = None
        self.finish = finish or self.finish
        self.over = bool(finish) or (self.over and before == (self._size, len(self._calls)))
        self._stop_sequence |= isinstance(choice.get("stop_reason"), str)  # vLLM: the stop sequence that was found

    def _add(self, kind: str, value: Any) -> None:
        if value is None or value == "":
            return
        if not isinstance(value, str):
            raise _malformed("a text is no text", value)
        self._grow(value)
        self._texts[kind].append(value)
        self._tell("think" if kind == "think" else "text", value)

    def _take_call(self, part: Any) -> None:
        if not isinstance(part, dict):
            raise _malformed("a tool call is no object", part)
        place = self._place(part)
        call = self._calls[place]
        call.id = call.id or _text(part.get("id"))
        function = part.get("function")
        if not isinstance(function, dict):
            function = {}
        if not call.name and function.get("name"):
            call.name = _text(function["name"])
            self._tell("tool_start", "", call.name, place)
        arguments = function.get("arguments")
        if isinstance(arguments, dict):  # some servers send an object
            arguments = json.dumps(arguments, separators=(",", ":"))
        if arguments:
            text = _text(arguments)
            self._grow(text)
            call.arguments.append(text)
            self._tell("tool_arguments", text, call.name, place)

    def _place(self, part: JsonObject) -> int:
        """Return the call of a part, by its index. A different id begins a new call, even with the same index."""
        index = part.get("index")
        if type(index) is not int:
            index = len(self._calls) if part.get("id") or not self._calls else self._places_last()
        place = self._places.get(index)
        other = place is not None and part.get("id") and self._calls[place].id not in ("", part["id"])
        if place is None or other:
            if len(self._calls) >= MAX_CALLS:
                raise _malformed(f"an answer calls more than {MAX_CALLS} tools", index)
            place = self._places[index] = len(self._calls)
            self._calls.append(_Call())
        return place

    def _places_last(self) -> int:
        last = len(self._calls) - 1
        return next(index for index, place in self._places.items() if place == last)

    def _all_calls(self) -> tuple[ToolCall, ...]:
        return tuple(
            ToolCall(_sound(call.id) or f"call_{place}", _sound(call.name), _sound("".join(call.arguments)))
            for place, call in enumerate(self._calls)
        )

    def _whole(self, kind: str) -> str:
        return _sound("".join(self._texts[kind]))

    def _grow(self, text: str) -> None:
        self._size += len(text)
        if self._size > MAX_TEXT:
            raise ModelError("malformed", f"the answer has more than {MAX_TEXT} characters", usage=self.usage())

    def _tell(self, kind: DeltaKind, text: str, tool: str = "", index: int = 0) -> None:
        if self._observe is not None:
            self._observe(Delta(kind, _sound(text), _sound(tool), index))


def _sound(text: str) -> str:
    """Return a text that can be encoded. JSON allows lone surrogates; they are joined or replaced."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _index(choice: JsonObject, place: int) -> int:
    """Return the index of a choice among several answers; only the first was requested."""
    index = choice.get("index")
    return index if type(index) is int else place


def _malformed(what: str, value: object) -> ModelError:
    return ModelError("malformed", f"{what}, but {type(value).__name__}")


def _parts(content: Any) -> Iterator[tuple[str, Any]]:
    """Yield the kind and the text of each part of a content, which is a text or (Mistral) a list of parts."""
    for part in content if isinstance(content, list) else [content]:
        if not isinstance(part, dict):
            yield "text", part
        elif isinstance(part.get("thinking"), list | str):
            for _, text in _parts(part["thinking"]):
                yield "think", text
        else:
            yield ("refusal", part["refusal"]) if part.get("refusal") else ("text", part.get("text"))


def _details(delta: JsonObject) -> str:
    """Return the reasoning in `reasoning_details`, as OpenRouter sends it; empty if there is none that can be read."""
    details = delta.get("reasoning_details")
    parts = [part for part in details if isinstance(part, dict)] if isinstance(details, list) else []
    texts = [part.get("text") or part.get("summary") for part in parts]
    return "".join(text for text in texts if isinstance(text, str))


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _malformed("`tool_calls` is no list", value)
    return value


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _malformed("a text is no text", value)
    return value


def _usage(report: JsonObject) -> TokenUsage:
    """Return the reported usage unchecked; `sound_usage` replaces missing and implausible numbers."""
    inputs, outputs = _number(report.get("prompt_tokens")), _number(report.get("completion_tokens"))
    cached = _detail(report, "prompt_tokens_details", "cached_tokens")
    if cached is None:
        cached = report.get("prompt_cache_hit_tokens")  # DeepSeek
    reasoned = _detail(report, "completion_tokens_details", "reasoning_tokens")
    total = _number(report.get("total_tokens"))
    counted = min(inputs, outputs, total) >= 0
    if counted and total > inputs + outputs:  # Gemini and Grok charge for reasoning, but do not count it as output
        reasoned = max(total - inputs - outputs, reasoned if type(reasoned) is int else 0)
        outputs = total - inputs
    return TokenUsage(
        input_tokens=inputs,
        output_tokens=outputs,
        cached_tokens=0 if cached is None else _number(cached),
        reasoning_tokens=0 if reasoned is None else _number(reasoned),
    )


def _number(value: Json) -> int:
    """Return a whole number; -1 for anything else, which is as implausible."""
    return value if type(value) is int else -1


def _detail(report: JsonObject, part: str, name: str) -> Json:
    details = report.get(part)
    return details.get(name) if isinstance(details, dict) else None
