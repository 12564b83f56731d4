"""The port between agents and language models: what goes in, what comes out, how a call can fail.

Everything here is plain data that can be recorded. Providers (`scripted`, `simulated`, `openai`) answer a
`ModelRequest` with a `Completion` or raise a `ModelError`; who retries, waits and falls back is the client (`client`),
never a provider.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol

import attrs

from sim.errors import SimError
from sim.kernel.codec import decode

Role = Literal["system", "user", "assistant", "tool"]

StopReason = Literal["end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal"]
"""Why a model stopped. An answer that just ends, without a reason, is no answer: `ModelError("incomplete")`."""

ErrorClass = Literal[
    "rate_limit", "quota", "overload", "server", "network", "timeout", "incomplete", "bad_request", "context_length",
    "content", "auth", "not_found", "malformed",
]  # fmt: skip
"""What went wrong. `rate_limit` (429), `quota` (a hard limit of the account: never retried), `overload` (503, 529),
`server` (other 5xx), `network`, `timeout`, `incomplete` (a stream cut off, no finish reason), `malformed` (not JSON),
`bad_request`, `context_length`, `content` (refused by a filter), `auth`, `not_found` (404: the address or the model).
"""


DEEPEST: Final = 64
"""Levels of lists and objects in the arguments of a tool call. The decoder's own limit is what is left of the stack,
which differs between backends and between a run and its replay.
"""

_FLAT = re.compile(r'"(?:[^"\\]|\\.)*"?|[^][{}"]+', re.DOTALL)  # what opens and closes no level


@attrs.frozen
class ToolCall:
    """A call that the model asks for. `arguments` is the text as it came: see `parsed`."""

    id: str
    name: str
    arguments: str

    def parsed(self) -> Mapping[str, Any] | None:
        """Return the arguments as an object, or None if the text is not a JSON object, or one of more than `DEEPEST`
        levels: then it must not be executed.
        """
        try:
            value = json_value(self.arguments)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None


def json_value(text: str) -> Any:
    """Return the value that a JSON text of a model stands for.

    Raises:
        ValueError: if it is not JSON, or has more than `DEEPEST` levels.
    """
    if _depth(text) > DEEPEST:
        raise ValueError(f"more than {DEEPEST} levels")
    return decode(text.encode())


def _depth(text: str) -> int:
    """Return how many levels of lists and objects are open at once in a JSON text."""
    depth = deepest = 0
    for sign in _FLAT.sub("", text):
        depth += 1 if sign in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


@attrs.frozen
class ChatMessage:
    """One message of a conversation.

    Args:
        role: who says it.
        content: the text.
        tool_calls: what an assistant asked for.
        tool_call_id: which call a tool's result answers.
    """

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


@attrs.frozen
class ToolSpec:
    """A tool that the model may call; `parameters` is a JSON Schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@attrs.frozen
class Sampling:
    """How the model draws its answer; None leaves it to the endpoint."""

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
        tools: what the model may call.
        sampling: how it draws.
        use: what the call is for (`agent`, `summary`, `judge`, ...): the router maps it to a model.
        tier: a tier that overrides the use case's (`small`, `large`, ...).
        stream: whether the endpoint sends the answer in parts; the same answer is recorded.
        response_format: a JSON Schema that the text of the answer must fit; see `check_answer` in `answers`.
        tool_choice: `auto`, `none`, `required`, or the name of the tool to call; None leaves it to the endpoint.
        extra_body: further fields of the request's body, for what one server knows and others do not.
        texts: texts to embed, in place of messages: the answer has a vector for each, and no text.
        dimensions: how many numbers a vector has; None leaves it to the model.
    """

    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    sampling: Sampling = Sampling()
    use: str = "agent"
    tier: str | None = None
    stream: bool = False
    response_format: Mapping[str, Any] | None = None
    tool_choice: str | None = None
    extra_body: Mapping[str, Any] | None = None
    texts: tuple[str, ...] = ()
    dimensions: int | None = None


@attrs.frozen
class TokenUsage:
    """Tokens of one call; `estimated` if the endpoint did not say, or said something absurd."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    estimated: bool = False


@attrs.frozen
class Completion:
    """The answer of a model; `vectors` only if texts were to be embedded, one for each."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    stop: StopReason
    usage: TokenUsage
    model: str
    vectors: tuple[tuple[float, ...], ...] = ()


@attrs.frozen
class Attempt:
    """One try of one model: what came of it (`ok` or a class of error), how long it took and how long one waited after
    it (seconds of the client's clock), and the tokens it cost, as far as they are known: a try that failed half-way is
    paid for all the same.
    """

    provider: str
    model: str
    outcome: str
    seconds: float
    waited: float = 0.0
    detail: str = ""
    usage: TokenUsage | None = None


@attrs.frozen
class Answer:
    """What a client gives back: the completion, every attempt, what it cost (micro-units of money), and why each step
    down the fallback chain was taken.
    """

    completion: Completion
    attempts: tuple[Attempt, ...]
    cost_micro: int = 0
    fallbacks: tuple[str, ...] = ()


class ModelError(SimError):
    """A call failed.

    Attributes:
        kind: the class of error.
        retry_after: seconds that the endpoint asks to wait at least, or None.
        attempts: all tries, once a client has given up.
        usage: tokens that were spent all the same.
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
    ) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.retry_after = retry_after
        self.attempts = attempts
        self.usage = usage


DeltaKind = Literal["text", "think", "tool_start", "tool_arguments", "tool_complete", "discard"]


@attrs.frozen
class Delta:
    """A part of an answer that is under way, for observers only: never recorded, never hashed.

    `discard` is no part: all parts since the last one are thrown away, because the try failed; `text` is the class of
    the failure.
    """

    kind: DeltaKind
    text: str = ""
    tool: str = ""
    index: int = 0


Observer = Callable[[Delta], None]


class Provider(Protocol):
    """One way to have a request answered, by one model. Tries once: it neither retries nor waits for limits."""

    name: str

    async def complete(self, model: str, request: ModelRequest, observe: Observer | None = None, /) -> Completion:
        """Answer a request.

        Raises:
            ModelError: if it cannot be answered.
        """


class Wake(Protocol):
    """Something that waits until it is set, once."""

    def set(self) -> None:
        """Let all that wait go on."""

    async def wait(self) -> None:
        """Wait until it is set."""


class ClientClock(Protocol):
    """Time, waiting and chance for the client: real at the edge (against endpoints), simulated in the core (against
    `simulated`). The client's code is the same.
    """

    def now(self) -> float:
        """Return seconds, monotonic."""

    async def sleep(self, seconds: float, /) -> None:
        """Wait."""

    def wake(self) -> Wake:
        """Return something to wait for."""

    def random(self) -> float:
        """Return a number in [0, 1) for jitter."""

    async def within(self, seconds: float, work: Callable[[], Any], /) -> Any:
        """Await `work()` for at most `seconds`, else cancel it and raise TimeoutError."""
