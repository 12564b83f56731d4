"""`OpenAIProvider` against a real server on loopback, on both backends."""

import functools
import json
import math
import random
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import attrs
import httpx2
import pytest

from sim.llm.access import Access
from sim.llm.endpoint import EdgeClient
from sim.llm.limits.governor import ReportedLimits
from sim.llm.limits.retry import RetryPolicy
from sim.llm.providers.openai.body import limit_name
from sim.llm.providers.openai.provider import OpenAIProvider
from sim.llm.providers.openai.transport import POOLS
from sim.llm.tokens import APPROXIMATE, count_request
from sim.llm.tool_calls import faults
from sim.llm.types import (
    ChatMessage,
    Completion,
    Delta,
    ModelError,
    ModelRequest,
    Sampling,
    ToolCall,
    ToolSpec,
)
from tests.llm.endpoint import Endpoint, Reply, Script, Seen, error, event, fitting, streamed, whole

USED_UP = (("limit", "100"), ("remaining", "0"), ("reset", "1m2s"))

# The library leaves generators to the collector (see `OpenAIProvider._stream`), and trio warns of each.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator '(openai|httpx2|httpcore2):ResourceWarning")

both_backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])
mostly_asyncio = pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.proof)])

ASK = ModelRequest((ChatMessage("system", "be brief"), ChatMessage("user", "what is it?")))
STREAM = ModelRequest(ASK.messages, stream=True)
TOOL = ToolSpec("look", "looks", {"type": "object", "properties": {"at": {"type": "string"}}})
ARGUMENTS = '{"at": "the door", "deep": [1, 2, {"x": "é\\u20ac"}]}'


@pytest.mark.parametrize("stream", [False, True])
def test_the_fields_of_a_schema_keep_their_order(stream):
    """Models write the fields of an answer in the order of its schema: what comes first there is reasoned first."""
    seen: list[Seen] = []

    def script(request: Seen) -> Reply:
        seen.append(request)
        return Reply(events=streamed("{}")) if stream else Reply(body=whole("{}"))

    fields = {"reasoning": {"type": "string"}, "answer": {"type": "string"}}
    schema = {"type": "object", "properties": fields, "required": [*fields]}
    answer_of(script, attrs.evolve(ASK, response_format=schema, stream=stream))

    assert list(seen[0].body["response_format"]["json_schema"]["schema"]["properties"]) == ["reasoning", "answer"]


def answer_of(
    reply: Reply | Script, request: ModelRequest = ASK, *, backend: str = "asyncio", **rest: Any
) -> Completion:
    """Return what the provider makes of one reply."""
    script = reply if callable(reply) else lambda seen: reply
    with Endpoint(script) as endpoint:
        completion = with_provider(endpoint, lambda provider: provider.complete("m", request, **rest), backend)
        assert isinstance(completion, Completion)
        return completion


def with_provider(
    endpoint: Endpoint, use: Callable[[OpenAIProvider], Awaitable[Any]], backend: str = "asyncio", **rest: Any
) -> Any:
    """Return what `use` returns of a provider that talks to `endpoint`."""

    async def main() -> Any:
        provider = OpenAIProvider(Access(base_url=endpoint.url, api_key="sk-canary-123456"), **rest)
        try:
            return await use(provider)
        finally:
            await provider.aclose()

    return anyio.run(main, backend=backend)


def always(reply: Reply, seen: Seen) -> Reply:
    """Be a script that gives one reply."""
    return reply


def error_of(reply: Reply | Script, request: ModelRequest = ASK, **rest: Any) -> ModelError:
    """Return the error that the provider makes of one reply."""
    with pytest.raises(ModelError) as caught:
        answer_of(reply, request, **rest)
    return caught.value


# -- answers


@both_backends
@pytest.mark.parametrize("request_", [ASK, STREAM], ids=["whole", "streamed"])
def test_text(backend: str, request_: ModelRequest):
    """A whole and a streamed answer give the same completion, with the usage and the model that the endpoint names."""
    completion = answer_of(fitting, request_, backend=backend)
    assert (completion.text, completion.stop, completion.model) == ("hello there", "end_turn", "served")
    assert (completion.usage.input_tokens, completion.usage.output_tokens, completion.usage.estimated) == (12, 5, False)


@both_backends
@pytest.mark.parametrize("stream", [False, True])
def test_tool_calls(backend: str, stream: bool):
    """Several tool calls come back with name, id and arguments as they were sent, however they were cut up."""
    request = ModelRequest(ASK.messages, (TOOL,), stream=stream)
    reply = lambda seen: fitting(seen, "I look", calls=[("look", ARGUMENTS), ("look", "{}")])  # noqa: E731 (a script)
    completion = answer_of(reply, request, backend=backend)
    assert completion.stop == "tool_use"
    assert completion.tool_calls == (ToolCall("call_0", "look", ARGUMENTS), ToolCall("call_1", "look", "{}"))
    assert completion.tool_calls[0].parsed() == json.loads(ARGUMENTS)


def test_what_is_sent():
    """A request has messages, tool calls and results, tools and sampling in the endpoint's form, and nothing unset."""
    call = ToolCall("c1", "look", '{"at": "x"}')
    messages = (*ASK.messages, ChatMessage("assistant", "", (call,)), ChatMessage("tool", "a door", (), "c1"))
    request = ModelRequest(messages, (TOOL,), Sampling(0.0, max_tokens=9, stop=("END",), seed=3))
    with Endpoint(fitting) as endpoint:
        with_provider(endpoint, lambda provider: provider.complete("m-1", request))
    (seen,) = endpoint.seen
    assert seen.path == "/v1/chat/completions"
    assert seen.headers["authorization"] == "Bearer sk-canary-123456"
    assert seen.headers["accept-encoding"] == "identity"
    assert seen.body == {
        "model": "m-1",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "what is it?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}
                ],
            },
            {"role": "tool", "content": "a door", "tool_call_id": "c1"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "look", "description": "looks", "parameters": dict(TOOL.parameters)},
            }
        ],
        "temperature": 0.0,
        "max_tokens": 9,
        "stop": ["END"],
        "seed": 3,
    }


def test_environment_gives_nothing(monkeypatch: pytest.MonkeyPatch):
    """Key, address, organization and proxy of the environment are not used: only what the operator gave is."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-environment")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with Endpoint(fitting) as endpoint:

        async def main() -> None:
            provider = OpenAIProvider(Access(base_url=endpoint.url))
            await provider.complete("m", ASK)
            await provider.aclose()

        anyio.run(main)
    headers = endpoint.seen[0].headers
    assert "authorization" not in headers
    assert "openai-organization" not in headers


def test_observer_follows():
    """An observer has the answer streamed: text, thoughts, and each tool call's start, arguments and end, in order."""
    deltas: list[Delta] = []
    think = event({"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]})
    events = (think, *streamed("I look", calls=[("look", "{}")]))
    completion = answer_of(Reply(events=events), ASK, observe=deltas.append)
    assert [(delta.kind, delta.text, delta.tool) for delta in deltas] == [
        ("think", "hm", ""), ("text", "I lo", ""), ("text", "ok", ""),
        ("tool_start", "", "look"), ("tool_arguments", "{}", "look"), ("tool_complete", "{}", "look"),
    ]  # fmt: skip
    assert completion.text == "I look"


@pytest.mark.parametrize(
    ("finish", "calls", "stop"),
    [
        ("stop", [], "end_turn"),
        ("stop", [("look", "{}")], "tool_use"),
        ("tool_calls", [("look", "{}")], "tool_use"),
        ("length", [], "max_tokens"),
    ],
)
def test_stop_reasons(finish: str, calls: list[tuple[str, str]], stop: str):
    """Each finish reason has its stop reason; `stop` with tool calls, as several servers send it, is `tool_use`."""
    assert answer_of(Reply(body=whole("x", calls=calls, finish=finish))).stop == stop


def test_refusal():
    """What a model refuses to say is a completion whose stop reason is `refusal`, with the reason as its text."""
    completion = answer_of(Reply(body=whole(None, refusal="I will not")))
    assert (completion.stop, completion.text) == ("refusal", "I will not")


@pytest.mark.parametrize("index", [0, None, "?"])
def test_calls_without_proper_index(index: Any):
    """Servers that give every call the index 0, or none, still give two calls: another id begins another call."""
    parts = [
        {"index": index, "id": f"c{number}", "function": {"name": "look", "arguments": {"n": number}}}
        for number in (1, 2)
    ]
    events = [event({"choices": [{"delta": {"tool_calls": [part]}}]}) for part in parts]
    events.append(event({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}))
    completion = answer_of(Reply(events=tuple(events)), STREAM)
    assert completion.tool_calls == (ToolCall("c1", "look", '{"n":1}'), ToolCall("c2", "look", '{"n":2}'))


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"prompt_tokens": -1, "completion_tokens": 5},
        {"prompt_tokens": 12, "completion_tokens": 10**12},
        {"prompt_tokens": "12"},
        "many",
    ],
    ids=["none", "empty", "negative", "huge", "text", "no object"],
)
def test_absurd_usage(usage: Any):
    """A usage that is missing or absurd is replaced by an estimate, and flagged."""
    for completion in (
        answer_of(Reply(body=whole(usage=usage))),
        answer_of(Reply(events=streamed(usage=usage)), STREAM),
    ):
        assert completion.usage.estimated
        assert 0 < completion.usage.input_tokens < 100
        assert 0 < completion.usage.output_tokens < 100


# -- answers that are none


@both_backends
@pytest.mark.parametrize("end", ["done", "cut", "reset"])
def test_truncated_at_every_chunk(backend: str, end: Any):
    """A stream that ends anywhere before its finish reason is never an answer; after it, it always is.

    Whether it ends cleanly, without the end of the body, or by a reset. The tokens so far are estimated.
    """
    events = streamed("hello there", calls=[("look", ARGUMENTS)])
    last = len(events) - 3  # the finish reason, the usage, [DONE]
    outcomes: list[str] = []
    estimated: list[bool] = []

    def script(seen: Seen) -> Reply:
        return Reply(events=events[: seen.number + 1], end=end)

    async def ask_all(provider: OpenAIProvider) -> None:
        for _ in events:
            try:
                outcomes.append((await provider.complete("m", STREAM)).stop)
            except ModelError as failure:
                outcomes.append(failure.kind)
                estimated.append(failure.usage is not None and failure.usage.estimated)

    with Endpoint(script) as endpoint:
        with_provider(endpoint, ask_all, backend)
    kind = "incomplete" if end == "done" else "network"
    assert outcomes == [kind] * last + ["tool_use"] * 3
    assert estimated == [True] * last


def test_malformed_at_every_chunk():
    """A chunk that is no JSON spoils the answer wherever it comes, also after the finish reason."""
    events = streamed("hello there", calls=[("look", ARGUMENTS)])

    def script(seen: Seen) -> Reply:
        spoiled = list(events)
        spoiled[seen.number] = event(b'{"choices": "malf')
        return Reply(events=tuple(spoiled))

    async def ask_all(provider: OpenAIProvider) -> list[str]:
        outcomes: list[str] = []
        for _ in events:
            with pytest.raises(ModelError) as caught:
                await provider.complete("m", STREAM)
            outcomes.append(caught.value.kind)
        return outcomes

    with Endpoint(script) as endpoint:
        assert with_provider(endpoint, ask_all) == ["malformed"] * len(events)


def chunk(text: str | None = None, finish: str | None = None, index: int = 0) -> bytes:
    """Return an event with one choice."""
    return event({"choices": [{"index": index, "delta": {"content": text}, "finish_reason": finish}]})


@both_backends
@pytest.mark.parametrize(
    ("after", "kind"),
    [
        ((chunk("not "),), "network"),
        ((event({"choices": [{"delta": {"tool_calls": [{"id": "1", "function": {"name": "look"}}]}}]}),), "network"),
        ((event({"error": {"message": "boom", "code": 500}}),), "server"),
        ((event([1]),), "malformed"),
    ],
    ids=["text", "call", "error", "no chunk"],
)
def test_what_follows_the_finish_reason(backend: str, after: tuple[bytes, ...], kind: str):
    """More of the answer and then a reset, or an error: the finish reason was not the end. The tokens are counted."""
    failure = error_of(Reply(events=(chunk("The answer is ", "stop"), *after), end="reset"), STREAM, backend=backend)
    assert failure.kind == kind
    assert failure.usage is not None


def test_a_reset_after_the_end():
    """A connection that breaks when all was said takes nothing away."""
    events = (chunk("The answer"), chunk(finish="stop"), chunk(), event({"choices": []}))
    assert answer_of(Reply(events=events, end="reset"), STREAM).text == "The answer"


@pytest.mark.parametrize("stream", [False, True])
def test_only_the_first_choice_counts(stream: bool):
    """A second answer that comes along, or before, is not mixed into the first."""
    events = (chunk("B", index=1), chunk("A", "stop"), chunk("B", "length", index=1))
    body = whole("A")
    body["choices"] = [{**body["choices"][0], "index": 1, "message": {"content": "B"}}, *body["choices"]]
    completion = answer_of(Reply(events=events) if stream else Reply(body=body), STREAM if stream else ASK)
    assert (completion.text, completion.stop) == ("A", "end_turn")
    for choice in body["choices"]:
        del choice["index"]
    assert answer_of(Reply(body=body)).text == "B"  # without numbers, the order counts


@both_backends
def test_a_server_that_does_not_stream(backend: str):
    """A whole answer to a request for a stream is accepted, and an observer is told of it; broken ones are errors."""
    deltas: list[Delta] = []
    body = whole("hi", calls=[("look", "{}")])
    completion = answer_of(Reply(body=body), STREAM, backend=backend, observe=deltas.append)
    assert (completion.text, completion.stop, completion.usage.estimated) == ("hi", "tool_use", False)
    assert [delta.kind for delta in deltas] == ["text", "tool_start", "tool_arguments", "tool_complete"]
    for reply, kind in (
        (Reply(body=b'{"choices"'), "malformed"),
        (Reply(body=b'{"choices": ' + b"9" * 5000 + b"}"), "malformed"),
        (Reply(body=body, end="cut"), "network"),
        (Reply(body=b"[]"), "incomplete"),
    ):
        assert error_of(reply, STREAM, backend=backend).kind == kind


def test_a_stream_under_a_wrong_name():
    """Events that are called JSON are read as events."""
    assert answer_of(Reply(body=b"".join(streamed("hi"))), STREAM).text == "hi"


@both_backends
@pytest.mark.parametrize("stream", [False, True])
def test_half_a_surrogate_pair(backend: str, stream: bool):
    """JSON can name half a character, which no file can hold: it is replaced wherever it stands, and what was used
    is known.
    """
    function = {"name": "lo\ud83dok", "arguments": {"at": "\ud83d"}}
    calls = [{"id": "c\ud83d", "function": function}, {"id": "d", "function": {"name": "look", "arguments": "\ud83d"}}]
    message = {"content": "hi \ud83d", "reasoning_content": "\ude00", "tool_calls": calls}
    body = {"model": "m\ud83d", "choices": [{"delta": message, "message": message, "finish_reason": "tool_calls"}]}
    deltas: list[Delta] = []
    reply = Reply(events=(event(body),)) if stream else Reply(body=body)
    completion = answer_of(reply, backend=backend, observe=deltas.append if stream else None)
    assert completion.text == "hi \ufffd"
    assert [call.name for call in completion.tool_calls] == ["lo\ufffdok", "look"]
    assert [call.parsed() for call in completion.tool_calls] == [None, None]
    assert completion.usage.estimated
    for said in (*map(attrs.asdict, deltas), attrs.asdict(completion)):
        json.dumps(said, ensure_ascii=False).encode()


def test_a_surrogate_pair_in_two_chunks_is_one_character():
    """A character that a server cut in two comes back whole."""
    events = (chunk("\ud83d"), chunk("\ude00", "stop"))
    assert answer_of(Reply(events=events), STREAM).text == "\U0001f600"


@both_backends
def test_an_address_that_only_the_library_refuses(backend: str):
    """A bad request, at once, without the address."""

    async def main() -> None:
        provider = OpenAIProvider(Access(base_url="http://999.1.1.1/canary"))
        try:
            await provider.complete("m", ASK)
        finally:
            await provider.aclose()

    with pytest.raises(ModelError, match="the base URL is not valid") as caught:
        anyio.run(main, backend=backend)
    assert caught.value.kind == "bad_request"
    assert caught.value.__context__ is None


def test_the_name_of_the_limit(monkeypatch: pytest.MonkeyPatch):
    """OpenAI's reasoning models refuse `max_tokens`; other servers ignore `max_completion_tokens`."""
    request = ModelRequest(ASK.messages, sampling=Sampling(max_tokens=9))

    async def main() -> None:
        provider = OpenAIProvider(Access())
        await provider.complete("m", request)
        await provider.aclose()

    with Endpoint(fitting) as endpoint:
        monkeypatch.setattr("sim.llm.providers.openai.connection.OPENAI_URL", endpoint.url)
        anyio.run(main)
        with_provider(endpoint, lambda provider: provider.complete("m", request))
    assert {name for name in endpoint.seen[0].body if "max" in name} == {"max_completion_tokens"}


@pytest.mark.parametrize(
    ("base_url", "name"),
    [
        (None, "max_completion_tokens"),
        ("https://API.openai.com/v1/", "max_completion_tokens"),
        ("https://openai.com.example/v1", "max_tokens"),
        ("http://127.0.0.1:8000/v1", "max_tokens"),
    ],
)
def test_the_name_of_the_limit_by_host(base_url: str | None, name: str):
    """The host decides."""
    assert limit_name(Access(base_url=base_url)) == name


@pytest.mark.parametrize("size", range(0, len(ARGUMENTS) + 1, 3))
def test_cut_arguments(size: int):
    """Arguments cut off at the token limit come back to be refused, whether they parse or not, and no observer is told
    that they are complete; under a finish reason that lies, they do not parse, unless nothing of them is left.
    """
    part = ARGUMENTS[:size]
    deltas: list[Delta] = []
    reply = Reply(events=streamed("", calls=[("look", part)], finish="length"))
    cut = answer_of(reply, ModelRequest(ASK.messages, (TOOL,)), observe=deltas.append)
    assert (cut.stop, cut.tool_calls) == ("max_tokens", (ToolCall("call_0", "look", part),))
    assert faults(cut, [TOOL]) == {"call_0": "the answer was cut off"}
    assert "tool_complete" not in [delta.kind for delta in deltas]
    (call,) = answer_of(Reply(body=whole("", calls=[("look", part)]))).tool_calls
    assert (call.parsed() is not None) == (size in (0, len(ARGUMENTS)))


NO_ANSWERS = [
    Reply(body=b""),
    Reply(body=b"<html>"),
    Reply(body=b"[" * 100_000),
    Reply(body=b"null"),
    Reply(body=b"[]"),
    Reply(body=b'"\xff"'),
    Reply(body=b"{}"),
    Reply(body={"choices": "x"}),
    Reply(body={"choices": [None]}),
    Reply(body={"choices": [{"message": "x"}]}),
    Reply(body=whole(5)),  # type: ignore[arg-type]  # what no endpoint should send
    Reply(body=whole("", tool_calls=[{"function": {"name": 3}}])),
    Reply(body=whole("", tool_calls="x")),
    Reply(body=whole("", finish="tool_calls")),
    Reply(body=whole("", calls=[("", "{}")])),
    Reply(body=whole("", finish="because")),
    Reply(events=(event(b"{"),)),
    Reply(events=(event(b"\xff"),)),
    Reply(events=(event([1]),)),
    Reply(events=(event({"choices": [7]}),)),
    Reply(events=(event({"choices": [{"delta": []}]}),)),
]


@both_backends
@pytest.mark.parametrize("reply", NO_ANSWERS, ids=map(str, range(len(NO_ANSWERS))))
def test_malformed(backend: str, reply: Reply):
    """Whatever an endpoint sends instead of an answer is a model's error: no other exception gets out."""
    failure = error_of(reply, STREAM if reply.events else ASK, backend=backend)
    assert failure.kind in ("malformed", "incomplete")


PER_MINUTE = {
    "error": {
        "code": 429,
        "message": "You exceeded your current quota, please check your plan and billing details. Please retry in 3.2s.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaValue": "10"}]},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3s"},
        ],
    }
}
"""The limit per minute of Gemini."""


@pytest.mark.parametrize("body", [PER_MINUTE, [PER_MINUTE]], ids=["object", "list"])
def test_advice_in_the_body(body: Any):
    """The wait that Gemini asks for in the body of a refusal is heeded, and its text is kept, also in a list."""
    failure = error_of(Reply(429, {}, body))
    assert (failure.kind, failure.retry_after) == ("rate_limit", 3.0)
    assert "Please retry in 3.2s" in str(failure)
    for words, seconds in {
        "Rate limit reached for m on tokens per min. Please try again in 1m2.5s.": 62.5,
        "Requests have exceeded the call rate limit. Please retry after 13 seconds.": 13.0,
        "Your account reached max request, please try again after 1 second": 1.0,
    }.items():
        assert error_of(error(429, words)).retry_after == seconds


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (error(400), "bad_request"),
        (error(400, code="context_length_exceeded"), "context_length"),
        (
            error(400, "the request exceeds the available context size", kind="exceed_context_size_error"),
            "context_length",
        ),
        (error(400, code="content_filter"), "content"),
        (error(401, "Incorrect API key provided: sk-canary-123456"), "auth"),
        (error(402), "quota"),
        (error(403), "auth"),
        (error(404), "not_found"),
        (error(408), "timeout"),
        (error(413), "context_length"),
        (error(422), "bad_request"),
        (error(429), "rate_limit"),
        (error(429, code="insufficient_quota"), "quota"),
        (error(429, "Budget has been exceeded!", kind="budget_exceeded", code="400"), "quota"),
        (error(400, "Access denied", code="Arrearage"), "quota"),
        (error(429, x_should_retry="false"), "quota"),
        (error(500), "server"),
        (error(502), "server"),
        (error(503), "overload"),
        (error(529), "overload"),
        (Reply(429, {}, b"<html>slow down</html>"), "rate_limit"),
        (Reply(500, {}, b"\xff\xfe"), "server"),
        (Reply(429, {}, []), "rate_limit"),
        (Reply(429, {}, PER_MINUTE), "rate_limit"),
        (Reply(429, {}, [PER_MINUTE]), "rate_limit"),
        (error(429, "You exceeded your current quota, please check your plan and billing details."), "rate_limit"),
        (error(429, "quota", code="Throttling.AllocationQuota"), "rate_limit"),
        (error(429, "suspended", kind="exceeded_current_quota_error"), "quota"),
        (error(403, "out of quota"), "auth"),
        (error(403, code="insufficient_quota"), "quota"),
        (error(400, "API key not valid", code="API_KEY_INVALID"), "auth"),
        (error(429, "maximum context length of tokens per minute"), "rate_limit"),
    ],
    ids=str,
)
def test_classes_of_errors(reply: Reply, kind: str):
    """Each status has its class; a code or a text decides only what the status leaves open. The key is not repeated."""
    failure = error_of(reply)
    assert failure.kind == kind
    assert "sk-canary" not in str(failure)


@pytest.mark.parametrize(
    ("inside", "kind"),
    [
        ({"message": "slow down", "code": 429}, "rate_limit"),
        ({"message": "overloaded", "type": "overloaded_error"}, "overload"),
        ({"message": "x", "code": "502"}, "server"),
        ("gone", "server"),
    ],
)
def test_error_inside_a_stream(inside: Any, kind: str):
    """An error that comes inside a stream, after text, has its class, and the tokens so far as an estimate."""
    events = (*streamed()[:3], event({"error": inside}))
    failure = error_of(Reply(events=events), STREAM)
    assert failure.kind == kind
    assert failure.usage is not None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "9", "retry-after-ms": "1500"}, 1.5),
        ({"date": "Sun, 06 Nov 1994 08:49:37 GMT", "retry-after": "Sun, 06 Nov 1994 08:50:07 GMT"}, 30.0),
        ({f"x-ratelimit-{name}-requests": text for name, text in USED_UP}, 62.0),
        ({f"x-ratelimit-{name}-tokens": text for name, text in USED_UP[1:]}, None),
        ({f"x-ratelimit-{name}-requests": text for name, text in USED_UP} | {"retry-after": "2"}, 2.0),
        ({"retry-after": "soon"}, None),
    ],
)  # fmt: skip
def test_retry_after(headers: dict[str, str], seconds: float | None):
    """The wait that a 429 asks for is read in seconds, milliseconds, as a date, or from the limits that are used up."""
    assert error_of(Reply(429, headers, {})).retry_after == seconds


def test_a_429_for_tokens_waits_as_long_as_they_take_to_come_in():
    """What a request lacks of the limit's tokens comes in at the limit's rate, long before all are there again."""
    headers = {"x-ratelimit-limit-tokens": "60000", "x-ratelimit-remaining-tokens": "0"}
    request = attrs.evolve(ASK, sampling=Sampling(max_tokens=2000))
    most = count_request(APPROXIMATE, request) + 2000
    failure = error_of(Reply(429, {**headers, "x-ratelimit-reset-tokens": "1m"}, {}), request)
    assert failure.retry_after == pytest.approx(most / 1000)
    plenty = error_of(Reply(429, {**headers, "x-ratelimit-remaining-tokens": "9000"}, {}), request)
    assert plenty.retry_after is None
    never = error_of(Reply(429, headers, {}), attrs.evolve(ASK, sampling=Sampling(max_tokens=10**9)))
    assert never.retry_after == 60


def test_retry_after_goes_before_the_resets():
    """An endpoint that asks to wait 2 s is asked again after 2 s, whatever it says about when its limits are reset."""
    heard: list[ReportedLimits] = []
    headers = {f"x-ratelimit-{name}-requests": text for name, text in USED_UP} | {"retry-after": "2"}
    with Endpoint(lambda seen: Reply(429, headers, {})) as endpoint, pytest.raises(ModelError) as caught:
        with_provider(endpoint, lambda provider: provider.complete("m", ASK), on_rates=heard.append)
    assert caught.value.retry_after == 2
    assert heard == [ReportedLimits(limit_requests=100, remaining_requests=0)]


def test_rates_are_passed_on():
    """What a response says about limits is passed on, also with an answer."""
    heard: list[ReportedLimits] = []
    headers = {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "20ms",
    }
    with Endpoint(lambda seen: Reply(headers=headers, body=whole())) as endpoint:
        with_provider(endpoint, lambda provider: provider.complete("m", ASK), on_rates=heard.append)
    assert heard == [ReportedLimits(limit_requests=60, remaining_requests=59, reset_requests=0.02)]


@both_backends
def test_no_redirect(backend: str):
    """A redirect is refused, and the other host gets no request: so it does not see the key."""
    with (
        Endpoint(fitting) as other,
        Endpoint(lambda seen: Reply(307, {"location": other.url})) as endpoint,
        pytest.raises(ModelError) as caught,
    ):
        with_provider(endpoint, lambda provider: provider.complete("m", ASK), backend)
    assert caught.value.kind == "bad_request"
    assert other.seen == []


@both_backends
def test_no_second_try(backend: str):
    """The library retries nothing on its own: one call is one request."""
    for reply in (error(429, retry_after="0"), error(500), Reply(end="reset"), Reply(body=b"{")):
        with Endpoint(functools.partial(always, reply)) as endpoint, pytest.raises(ModelError):
            with_provider(endpoint, lambda provider: provider.complete("m", ASK), backend)
        assert len(endpoint.seen) == 1


@both_backends
def test_nobody_there(backend: str):
    """An address where nobody listens is an error of the network."""
    with Endpoint(fitting) as endpoint:
        pass
    with pytest.raises(ModelError) as caught:
        with_provider(endpoint, lambda provider: provider.complete("m", ASK), backend)
    assert caught.value.kind == "network"


# -- bounds


@pytest.mark.proof
@mostly_asyncio
@pytest.mark.parametrize(
    "piece",
    [b"data: x", b"data: x\n", event({"choices": [{"delta": {"content": "blah " * 2000}}]})],
    ids=["a line", "an event", "an answer"],
)
def test_endless(backend: str, piece: bytes):
    """A stream whose line, event or answer never ends is broken off, in bounded memory."""
    import openai  # noqa: F401 (its modules are not what is measured)

    piece = piece if len(piece) > 1000 else piece * (4096 // len(piece))
    tracemalloc.start()
    try:
        failure = error_of(Reply(events=(piece,), end="endless"), STREAM, backend=backend)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert failure.kind in ("network", "malformed")
    assert peak < 20 * 2**20


def test_big_body():
    """A body beyond the bound is refused, and so is one that is compressed: it might hold a thousandfold."""
    assert error_of(Reply(body=b"[" + b" " * (9 * 2**20) + b"]")).kind == "network"
    failure = error_of(Reply(headers={"content-encoding": "gzip"}, body=b"x"))
    assert "compressed" in str(failure)


@pytest.mark.slow
@mostly_asyncio
def test_cancelled_calls_leave_the_pool_whole(backend: str):
    """After hundreds of calls cancelled at all stages, as many calls as there are connections still get through."""
    draw = random.Random(5)

    async def use(provider: OpenAIProvider) -> int:
        async def cancelled() -> None:
            with anyio.move_on_after(draw.random() * 0.03):
                await provider.complete("m", STREAM)

        for _ in range(6):
            async with anyio.create_task_group() as group:
                for _ in range(50):
                    group.start_soon(cancelled)
        answers = []

        async def whole_one() -> None:
            answers.append(await provider.complete("m", STREAM))

        async with anyio.create_task_group() as group:
            for _ in range(100):
                group.start_soon(whole_one)
        return len(answers)

    with Endpoint(lambda seen: Reply(events=streamed(), gap=0.002)) as endpoint:
        assert with_provider(endpoint, use, backend) == 100


# -- secrets


@pytest.mark.parametrize("stream", [False, True])
def test_the_key_is_nowhere(stream: bool, caplog: pytest.LogCaptureFixture):
    """The key is in no log, no error and its causes, no representation, and not in an answer that repeats it."""
    caplog.set_level(0)
    echo = "you sent Bearer sk-canary-123456"
    found: list[str] = []

    async def use(provider: OpenAIProvider) -> None:
        request = ModelRequest(ASK.messages, stream=stream)
        completion = await provider.complete(
            "m", request, (lambda delta: found.append(repr(delta))) if stream else None
        )
        found.append(repr(completion))
        for _ in range(5):
            try:
                await provider.complete("m", request)
            except ModelError as failure:
                chain: BaseException | None = failure
                while chain is not None:
                    found.append(repr((chain, vars(chain), str(chain))))
                    chain = chain.__context__
        found.append(repr((provider, vars(provider))))

    replies = [
        None, error(401, echo, code="sk-canary-123456"), error(500, echo), Reply(end="reset"),
        Reply(body=echo.encode()), Reply(307, {"location": "http://sk-canary-123456.example/"}),
    ]  # fmt: skip

    def script(seen: Seen) -> Reply:
        assert "sk-canary-123456" in seen.headers["authorization"]
        return replies[seen.number] or fitting(seen, echo, calls=[("look", json.dumps(echo))], width=60)

    with Endpoint(script) as endpoint:
        with_provider(endpoint, use)
    assert len(found) > 5
    assert "canary" not in "".join(found) + caplog.text


@pytest.mark.parametrize("behind", range(1, 17, 3))
def test_a_key_is_removed_before_a_text_is_cut(behind: int):
    """Of a key at the place where a long name or reason is cut, no half is left."""
    long = "x" * (200 - behind) + "sk-canary-123456"
    assert "canary" not in answer_of(Reply(body={**whole("yes"), "model": long})).model
    reason = "x" * (40 - behind) + "sk-canary-123456"
    assert "canary" not in str(error_of(Reply(body=whole("yes", finish=reason))))
    assert "[redacted]" in str(error_of(Reply(body=whole("yes", finish=reason))))


def test_requests_are_spread_over_pools_of_connections():
    """Requests under way at once are spread evenly over the pools, and each gives its place back, however it ends."""
    ends = [
        Reply(body=whole("yes")), Reply(events=streamed("yes")), error(500, "no"), Reply(end="reset"),
        Reply(200, {"content-encoding": "gzip"}, body=b"x"), Reply(body=b"<html>"), Reply(end="hang"),
    ]  # fmt: skip
    most: list[int] = []

    async def use(provider: OpenAIProvider) -> None:
        async def ask(number: int, seconds: float = 1.0) -> None:
            with suppress(ModelError), anyio.move_on_after(seconds):
                await provider.complete("m", ModelRequest(ASK.messages, stream=number % 2 == 0))

        def under_way() -> list[int]:
            assert provider.connection._pool is not None
            return list(provider.connection._pool.client._client._transport._under_way)  # type: ignore[attr-defined]

        for _ in ends:
            await ask(0)
        assert under_way() == [0], "one is enough for one request at a time"
        async with anyio.create_task_group() as group:
            for number in range(16):
                group.start_soon(ask, number, math.inf)
            while sum(under_way()) < 16:  # noqa: ASYNC110  # the endpoint answers none of them
                await anyio.sleep(0.001)
            most.extend(under_way())
            group.cancel_scope.cancel()
        assert not any(under_way())

    def script(seen: Seen) -> Reply:
        return ends[seen.number] if seen.number < len(ends) else Reply(end="hang")

    with Endpoint(script) as endpoint:
        with_provider(endpoint, use)
    assert most == [2] * POOLS


# -- time limits


def test_the_read_timeout_is_the_one_that_was_configured():
    """A request may take as long as `models.retry.timeout` says, also more than two minutes, in every layer."""

    async def main() -> float | None:
        client = EdgeClient(Access(base_url="http://127.0.0.1:1/v1"), policy=RetryPolicy(timeout=1500, deadline=6000))
        (provider,) = client._providers
        assert isinstance(provider, OpenAIProvider)
        timeout = provider.connection._connect().client.timeout
        await client.aclose()
        assert isinstance(timeout, httpx2.Timeout)
        assert timeout.connect == 10  # that nobody is there shows at once
        return timeout.read

    assert anyio.run(main) == 1500


@both_backends
def test_a_silent_endpoint_is_left_after_the_configured_time(backend: str):
    """An endpoint that takes a request and sends nothing fails it as `timeout`, after the time that was configured."""
    with Endpoint(lambda seen: Reply(end="hang")) as endpoint, pytest.raises(ModelError) as caught:
        with_provider(endpoint, lambda provider: provider.complete("m", ASK), backend, timeout=0.2)
    assert caught.value.kind == "timeout"


def test_there_are_as_many_connections_as_requests_may_be_under_way():
    """A concurrency above the usual number of connections is not held back by them."""
    provider = OpenAIProvider(Access(base_url="http://127.0.0.1:1/v1", concurrency=1000))
    assert provider.connection._connections == 1000
