"""Text patterns of scripted rules. A match takes time linear in the length of the text.

`*` matches any text. `{name}` captures one word, and `{name*}` captures any text. All other text matches itself; the
letters A to Z match in either case. A pattern can match anywhere in the text.

There is no backtracking. Stars divide a pattern into pieces. Each piece is searched once, from the end of the last
match, and takes the first position that fits. A word is as long as possible, and at most `MAX_WORD` characters, so a
test of one position takes a bounded number of steps.
"""

import re
from collections.abc import Mapping
from typing import Literal

import attrs

from sim.base.errors import UsageError

MAX_WORD = 64
"""The longest word in characters; a longer run of characters matches no word."""

# Each expression uses one character class, so it cannot backtrack.
_BEGINNING = re.compile(r"(?<![\w-])[\w-]")
_WORD = re.compile(rf"[\w-]{{1,{MAX_WORD + 1}}}")
_TOKEN = re.compile(r"\*|\{([A-Za-z][A-Za-z0-9_]{0,63})(\*?)\}")
_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}  # one for one: positions stay the same


@attrs.frozen
class _Part:
    """Literal text, or a named word."""

    kind: Literal["text", "word"]
    value: str


@attrs.frozen
class _Piece:
    """Consecutive parts, and the capture name of the star before them, if it has one."""

    parts: tuple[_Part, ...]
    keep: str | None


@attrs.frozen
class Pattern:
    """A parsed pattern.

    Attributes:
        text: the text of the pattern.
        names: the names of its captures.
    """

    text: str
    names: tuple[str, ...]
    _pieces: tuple[_Piece, ...]

    @classmethod
    def parse(cls, text: str) -> "Pattern":
        """Parse a pattern.

        Raises:
            UsageError: if the text is empty, has a brace that is not part of a name, or a name twice.
        """
        pieces, names, parts = list[_Piece](), list[str](), list[_Part]()
        keep, at = None, 0
        for token in _TOKEN.finditer(text):
            parts += _literal(text, at, token.start())
            at = token.end()
            if token[1] is not None:
                names.append(token[1])
            if token[1] is not None and not token[2]:
                parts.append(_Part("word", token[1]))
            else:  # a star ends the piece
                pieces.append(_Piece(tuple(parts), keep))
                parts, keep = [], token[1]
        parts += _literal(text, at, len(text))
        pieces.append(_Piece(tuple(parts), keep))
        if not text:
            raise UsageError("a pattern must not be empty")
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"the pattern has the name {name!r} twice")
        return cls(text, tuple(names), tuple(pieces))

    def match(self, text: str) -> Mapping[str, str] | None:
        """Return the captures of a text, or None if the text does not match."""
        kept: dict[str, str] = {}
        lower, at = text.translate(_LOWER), 0
        last = len(self._pieces) - 1
        for number, piece in enumerate(self._pieces):
            if number == last and number and not piece.parts:
                span = (len(text), len(text))  # a star at the end matches the rest
            else:
                place = _find(piece.parts, lower, text, at, kept)
                if place is None:
                    return None
                span = place
            if piece.keep is not None:
                kept[piece.keep] = text[at : span[0]].strip()
            at = span[1]
        return kept


def _literal(text: str, start: int, end: int) -> list[_Part]:
    part = text[start:end]
    if "{" in part or "}" in part:
        raise UsageError(f"{part[:40]!r} has a brace outside a name", hint="write {name} for a word, {name*} for text")
    return [_Part("text", part.translate(_LOWER))] if part else []


def _find(parts: tuple[_Part, ...], lower: str, text: str, at: int, kept: dict[str, str]) -> tuple[int, int] | None:
    """Return the first match (start, end) of consecutive parts at or after `at`; captures words in `kept`."""
    if not parts:
        return at, at
    first = parts[0]
    start = at
    while start <= len(text):
        start = lower.find(first.value, start) if first.kind == "text" else _word_start(text, start)
        if start < 0:
            return None
        words: dict[str, str] = {}
        end = _fits(parts, lower, text, start, words)
        if end is not None:
            kept.update(words)
            return start, end
        start = start + 1 if first.kind == "text" else _word_end(text, start)
    return None


def _fits(parts: tuple[_Part, ...], lower: str, text: str, start: int, words: dict[str, str]) -> int | None:
    """Return the end of parts that begin at `start`, or None if they do not match there."""
    at = start
    for part in parts:
        if part.kind == "text":
            if not lower.startswith(part.value, at):
                return None
            at += len(part.value)
        else:
            end = _word_end(text, at)
            if not 0 < end - at <= MAX_WORD:
                return None
            words[part.value] = text[at:end]
            at = end
    return at


def _word_start(text: str, start: int) -> int:
    """Return the start of the next whole word, or -1."""
    match = _BEGINNING.search(text, start)
    return -1 if match is None else match.start()


def _word_end(text: str, start: int) -> int:
    """Return the end of the word at `start`; of a word that is too long, one character past the limit."""
    match = _WORD.match(text, start)
    return start if match is None else match.end()
