"""Requests, answers and failures take the way through JSON and back."""

from typing import Any

import attrs
import pytest

from sim.kernel.codec import decode, encode
from sim.llm.serialization import (
    answer_from_json,
    answer_to_json,
    error_from_json,
    error_to_json,
    request_from_json,
    request_to_json,
)
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
    varied,
)

CALL = ToolCall("c1", "vote", '{"choice": "yes"}')
ATTEMPTS = (
    Attempt("openai", "m", "rate_limit", 0.5, 2.0, "slow down"),
    Attempt("openai", "m", "incomplete", 1.0, usage=TokenUsage(3, 1, estimated=True)),
)


def through(value):
    """Return a JSON-like value after it was recorded."""
    return decode(encode(value))


def test_requests():
    """Every field of a request survives; what is at its default is not written."""
    plain = ModelRequest((ChatMessage("user", "hello"),))
    full = ModelRequest(
        (
            ChatMessage("system", "be brief"),
            ChatMessage("assistant", "", (CALL,)),
            ChatMessage("tool", "done", (), "c1"),
        ),
        tools=(ToolSpec("vote", "Vote.", {"type": "object"}),),
        sampling=Sampling(0.5, 0.9, 100, ("END",), 7),
        use="judge",
        tier="large",
        stream=True,
    )
    assert request_to_json(plain) == {"messages": [{"role": "user", "content": "hello"}]}
    for request in (plain, full):
        assert request_from_json(through(request_to_json(request))) == request


def test_messages_and_tools_are_lists_at_the_top():
    """A store can keep each message and tool once, by its content."""
    value = request_to_json(ModelRequest((ChatMessage("user", "x"),), tools=(ToolSpec("t", "", {}),)))
    assert [type(value[name]) for name in ("messages", "tools")] == [list, list]


def test_answers():
    """Completion, attempts, cost and fallbacks survive."""
    completion = Completion("yes", (CALL,), "tool_use", TokenUsage(10, 5, 2), "m-1")
    answer = Answer(completion, ATTEMPTS, 42, ("a → b: quota after 1 try",))
    assert answer_from_json(through(answer_to_json(answer))) == answer


def test_failures():
    """A failure keeps its class, its attempts, what it asks to wait and what it cost."""
    error = ModelError("quota", "no money", retry_after=3.0, attempts=ATTEMPTS, usage=TokenUsage(1, 2), hint="pay")
    back = error_from_json(through(error_to_json(error)))
    fields = ("kind", "retry_after", "attempts", "usage", "hint")
    assert [getattr(back, name) for name in fields] == [getattr(error, name) for name in fields]
    assert str(back) == str(error)


@pytest.mark.parametrize("field", [field.name for field in attrs.fields(ModelRequest)])
def test_a_varied_request_differs_in_what_was_given(field):
    """`varied` does as `attrs.evolve`, for each field."""
    request = ModelRequest((ChatMessage("user", "hello"),), use="judge", texts=("a",), sampling=Sampling(seed=3))
    changes: Any = {field: "other"}
    assert varied(request, **changes) == attrs.evolve(request, **changes)
    assert varied(request) == request
