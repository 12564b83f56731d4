"""Answers in parts, and what is left of one that is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.llm.streaming import cut, parts_of
from sim.llm.types import Completion, TokenUsage, ToolCall


@pytest.mark.slow
@given(st.text(max_size=50), st.lists(st.text(max_size=30), max_size=3), st.floats(0, 1, exclude_max=True))
def test_what_is_cut_is_a_beginning(text, arguments, share):
    """A cut answer is what had come until then: the text, then call after call."""
    whole = Completion(text, tuple(ToolCall("", "t", part) for part in arguments), "end_turn", TokenUsage(0, 0), "m")
    part = cut(whole, share)
    joined = "".join([text, *arguments])
    assert "".join([part.text, *(call.arguments for call in part.tool_calls)]) == joined[: int(len(joined) * share)]


@given(st.text(max_size=40), st.lists(st.text(max_size=20), max_size=4), st.integers(1, 12))
def test_parts_make_up_the_answer(text, arguments, count):
    """In however many parts: all text comes in order, each call begins, has its arguments, and is complete."""
    calls = tuple(ToolCall(f"{i}", f"tool{i}", part) for i, part in enumerate(arguments))
    parts = list(parts_of(Completion(text, calls, "end_turn", TokenUsage(0, 0), "m"), count))
    deltas = [delta for part in parts for delta in part]
    assert len(parts) == count
    assert "".join(delta.text for delta in deltas if delta.kind == "text") == text
    for index, part in enumerate(arguments):
        kinds = [delta.kind for delta in deltas if delta.tool == f"tool{index}"]
        assert kinds == ["tool_start", *["tool_arguments"] * bool(part), "tool_complete"]
