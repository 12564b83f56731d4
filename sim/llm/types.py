"""The interface between agents and language models: requests, answers and errors.

All types are plain data that can be recorded. Providers (`scripted`, `simulated`, `openai`) answer a `ModelRequest`
with a `Completion`, or raise a `ModelError`. The client (`client`) retries, waits and uses fallbacks; a provider never
does.
"""

import re
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final, Literal, Protocol

import attrs

from sim.base.errors import SimError
from sim.kernel.codec import JsonObject, decode, encode

Role = Literal["system", "user", "assistant", "tool"]

StopReason = Literal["end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal"]
"""Why a model stopped. An answer without a stop reason is an error: `ModelError("incomplete")`."""

ErrorClass = Literal[
    "rate_limit", "quota", "overload", "server", "network", "timeout", "incomplete", "bad_request", "context_length",
    "content", "auth", "not_found", "malformed", "reasoning", "empty",
]  # fmt: skip
"""Classes of errors. `rate_limit` (429), `quota` (a hard limit of the account: never retried), `overload` (503, 529),
`server` (other 5xx), `network`, `timeout`, `incomplete` (a stream cut off, no finish reason), `malformed` (not JSON),
`bad_request`, `context_length`, `content` (refused by a filter), `auth`, `not_found` (404: the address or the model),
`reasoning` (all tokens went into reasoning, so there is no answer), `empty` (neither text nor tool calls).
"""


DEEPEST: Final = 64
"""The deepest nesting in the arguments of a tool call. The decoder itself is limited by the free stack, which differs
between backends and between a run and its replay.
"""

_FLAT = re.compile(r'"(?:[^"\\]|\\.)*"?|[^][{}"]+', re.DOTALL)  # text that opens or closes no level


@attrs.frozen
class ToolCall:
    """A tool call of a model. `arguments` is a text; see `parsed`."""

    id: str
    name: str
    arguments: str

    def parsed(self) -> JsonObject | None:
        """Return the arguments as a mapping, or None if the text is not a JSON object of at most `DEEPEST` levels.

        No arguments (an empty text, or `null`) are an empty mapping: many servers send them so for a tool without
        parameters. Arguments that were encoded twice are decoded twice. A call whose arguments are None must not be
        executed.
        """
        text = self.arguments
        for _ in range(_ENCODED):
            if text.strip() in _NOTHING:
                return {}
            try:
                value = json_value(text)
            except ValueError:
                return None
            if isinstance(value, dict):
                return value
            if not isinstance(value, str):
                return None
            text = value
        return None

    @property
    def sound_arguments(self) -> str:
        """The arguments as a text that endpoints accept in a history: a JSON object, if they are one in any form."""
        text, parsed = self.arguments, self.parsed()
        return text if parsed is None or text.lstrip()[:1] == "{" else encode(parsed).decode()


_NOTHING: Final = ("", "null", "None")
_ENCODED: Final = 2  # how often arguments may be encoded as JSON


def json_value(text: str) -> Any:
    """Parse a JSON text of a model.

    Raises:
        ValueError: if the text is not JSON, or has more than `DEEPEST` levels.
    """
    if _depth(text) > DEEPEST:
        raise ValueError(f"more than {DEEPEST} levels")
    return decode(text.encode())


def _depth(text: str) -> int:
    """Return the nesting depth of lists and objects in a JSON text."""
    depth = deepest = 0
    for sign in _FLAT.sub("", text):
        depth += 1 if sign in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


@attrs.frozen
class ChatMessage:
    """One message of a conversation.

    Args:
        role: the role of the author.
        content: the text.
        tool_calls: the tool calls of an assistant.
        tool_call_id: the id of the call that a tool result answers.
    """

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


@attrs.frozen
class ToolSpec:
    """A tool that the model can call. `parameters` is a JSON Schema of an object."""

    name: str
    description: str
    parameters: JsonObject


@attrs.frozen
class Sampling:
    """The sampling parameters; None: the default of the endpoint."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None


@attrs.frozen
class ModelRequest:
    """One call.

    Args:
        messages: the conversation.
        tools: the tools that the model can call.
        sampling: the sampling parameters.
        use: the use case (`agent`, `summary`, `judge`, ...); the router maps it to a model.
        tier: overrides the tier of the use case (`small`, `large`, ...).
        stream: whether the endpoint sends the answer in parts. The recorded answer is the same.
        response_format: a JSON Schema for the text of the answer; see `check_answer` in `answers`.
        preferred_format: a JSON Schema that an endpoint enforces if it can; the caller reads other answers as well.
        tool_choice: `auto`, `none`, `required`, or the name of the tool to call; None: the default of the endpoint.
        extra_body: further fields of the request body, for extensions of a server.
        texts: texts to embed, instead of messages. The answer has one vector for each, and no text.
        dimensions: the length of a vector; None: the default of the model.
        immediate: whether only immediate retries are made, because the caller itself tries again later.
        key: names the call outside. The service sets it; it is not recorded.
        respondent: the agent for whom the model speaks, if that agent is not the caller; see `Models.interview`.
    """

    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    sampling: Sampling = Sampling()
    use: str = "agent"
    tier: str | None = None
    stream: bool = False
    response_format: Mapping[str, Any] | None = None
    preferred_format: Mapping[str, Any] | None = None
    tool_choice: str | None = None
    extra_body: JsonObject | None = None
    texts: tuple[str, ...] = ()
    dimensions: int | None = None
    immediate: bool = False
    key: str = ""
    respondent: str | None = None


_FIELDS: Final = tuple(field.name for field in attrs.fields(ModelRequest))
_values: Final = attrgetter(*_FIELDS)


def varied(request: ModelRequest, **changes: Any) -> ModelRequest:
    """Return a request with other values of some fields, as `attrs.evolve` does, in a third of its time."""
    return ModelRequest(**dict(zip(_FIELDS, _values(request), strict=True), **changes))


@attrs.frozen
class TokenUsage:
    """Tokens of one call; `estimated` if the endpoint reported none, or implausible numbers.

    `reasoning_tokens` are a part of the output, as far as the endpoint reports them.
    """

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    estimated: bool = False
    reasoning_tokens: int = 0


@attrs.frozen
class Completion:
    """The answer of a model.

    `vectors` has one vector per text of an embedding request, otherwise none. `batch` is the id of the batch that
    answered, or empty; agents do not see it. `reasoning` is what the model thought before it answered; agents do not
    say it. `formatted` says whether the endpoint was made to keep the `preferred_format` of the request; None: it had
    none. `refused_format` is the error of a request with that format, after which it was sent again without; empty:
    there was none.
    """

    text: str
    tool_calls: tuple[ToolCall, ...]
    stop: StopReason
    usage: TokenUsage
    model: str
    vectors: tuple[tuple[float, ...], ...] = ()
    batch: str = ""
    reasoning: str = ""
    formatted: bool | None = None
    refused_format: str = ""


@attrs.frozen
class Attempt:
    """One attempt to get an answer from one model.

    It has the outcome (`ok` or a class of error), the duration and the wait after it (seconds of the client's clock, or
    None if they must not matter), and the known usage. A failed attempt can have a usage, too.
    """

    provider: str
    model: str
    outcome: str
    seconds: float | None
    waited: float | None = 0.0
    detail: str = ""
    usage: TokenUsage | None = None


@attrs.frozen
class Answer:
    """The result of a call: the completion, all attempts, the cost in micro-units, and the reason of each fallback.

    `refused_formats` has the model and the error of each request that was refused with its `preferred_format` and sent
    again without. Which call finds that out depends on which comes first, so these are no attempts of the call.
    Nor are those in `lost`: requests whose worker process ended before their answer arrived, and that were sent again.
    """

    completion: Completion
    attempts: tuple[Attempt, ...]
    cost_micro: int = 0
    fallbacks: tuple[str, ...] = ()
    refused_formats: tuple[tuple[str, str], ...] = ()
    lost: tuple[Attempt, ...] = ()


class ModelError(SimError):
    """A call failed.

    Attributes:
        kind: the class of error.
        retry_after: seconds that the endpoint asks to wait at least, or None.
        attempts: all attempts, if a client has given up.
        usage: the tokens that were used nevertheless.
        reasoning: what the model thought, if its answer was refused.
        refused_format, refused_formats, lost: as those of `Completion` and `Answer`.
    """

    def __init__(
        self,
        kind: ErrorClass,
        message: str,
        *,
        retry_after: float | None = None,
        attempts: tuple[Attempt, ...] = (),
        usage: TokenUsage | None = None,
        hint: str | None = None,
        reasoning: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.retry_after = retry_after
        self.attempts = attempts
        self.usage = usage
        self.reasoning = reasoning
        self.refused_format = ""
        self.refused_formats: tuple[tuple[str, str], ...] = ()
        self.lost: tuple[Attempt, ...] = ()


class RuleFault(ModelError):
    """A scripted rule has a fault, or there is none for a request: what is wrong is the scenario, not a model."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__("bad_request", message, hint=hint)


DeltaKind = Literal["text", "think", "tool_start", "tool_arguments", "tool_complete", "discard"]


@attrs.frozen
class Delta:
    """A part of an answer that is not complete, for observers only. It is never recorded or hashed.

    `discard` is not a part: all parts of the current attempt are invalid, because it failed. `text` is then the class
    of the error.
    """

    kind: DeltaKind
    text: str = ""
    tool: str = ""
    index: int = 0


Observer = Callable[[Delta], None]


class Provider(Protocol):
    """Answers requests with a model, in one attempt. It neither retries nor waits for limits."""

    name: str

    async def complete(self, model: str, request: ModelRequest, observe: Observer | None = None, /) -> Completion:
        """Answer a request.

        Raises:
            ModelError: if the request fails.
        """


class Wake(Protocol):
    """A latch: it is set once, and waiters wait until then."""

    def set(self) -> None:
        """Wake all waiters."""

    async def wait(self) -> None:
        """Wait until it is set."""


class ClientClock(Protocol):
    """Time, waits and random draws for the client: real time at the edge, simulated time in the core."""

    def now(self) -> float:
        """Return monotonic seconds."""

    async def sleep(self, seconds: float, /) -> None:
        """Wait for `seconds`."""

    def wake(self) -> Wake:
        """Return a new latch."""

    def random(self) -> float:
        """Return a number in [0, 1) for jitter."""

    async def within(self, seconds: float, work: Callable[[], Any], /) -> Any:
        """Await `work()` for at most `seconds`. After that, cancel it and raise TimeoutError."""
