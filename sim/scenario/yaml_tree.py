"""Reads YAML text into a tree with the position of every key and value.

Only JSON's own values are typed (so `no`, `on`, `1:30`, `010` and dates stay text), and only what a scenario
needs is read: tags, anchors, aliases, merge keys, directives and a second document are refused. The tree is
built from parser events one by one, so that limits stop a hostile file before it costs memory or time.
"""

import functools
import math
import re
from collections.abc import Collection, Iterator
from typing import Any

import attrs
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from sim.base.errors import Problem

MAX_BYTES = 1_000_000
MAX_NODES = 30_000
"""The parser takes some 40,000 values a second: a file with more is refused within a second."""
MAX_DEPTH = 50
MAX_INT = 2**63 - 1
MAX_PROBLEMS = 100

_KEPT_TEXTS = 4
_KEPT_LENGTH = 50_000
"""The parser's events of the texts that were read last are kept: a loop over seeds, a replay and a branch read the same
text again, and parsing is most of the time that it takes to load a scenario."""

_UNSAFE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029"  # control characters and odd line ends
    "\ufeff\ufffe\uffff\ud800-\udfff"  # byte order marks and broken halves
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # marks that reorder what an editor shows
)
_LONG_TAG = re.compile(r"(?:^|[\s,:\[{-])!\S{256}")  # its scan takes quadratic time
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip


@attrs.frozen
class Mark:
    """A position: line and column, from 1; or the path of the key, in what a program gives."""

    file: str
    line: int
    column: int
    path: str = ""

    @property
    def where(self) -> str:
        """The position within its file, in words."""
        return self.path or f"line {self.line}"

    def problem(self, message: str, hint: str | None = None) -> Problem:
        """Return a problem at this position."""
        if self.path and not message.startswith(self.path):
            message = f"{self.path}: {message}"
        return Problem(self.file, self.line, self.column, message, hint)


class Map(dict[str, Any]):
    """A mapping with the positions of its keys and values and, after validation, the allowed keys."""

    __slots__ = ("allowed", "keys_at", "mark", "values_at")

    def __init__(self, mark: Mark) -> None:
        super().__init__()
        self.mark = mark
        self.keys_at: dict[str, Mark] = {}
        self.values_at: dict[str, Mark] = {}
        self.allowed: tuple[str, ...] = ()

    def put(self, key: str, value: Any, key_at: Mark, value_at: Mark) -> None:
        """Set an item together with its positions."""
        self[key] = value
        self.keys_at[key] = key_at
        self.values_at[key] = value_at

    def without(self, keys: Collection[str]) -> "Map":
        """Return a mapping with the same items and positions, except those with these keys."""
        rest = Map(self.mark)
        for key, value in self.items():
            if key not in keys:
                rest.put(key, value, self.keys_at[key], self.values_at[key])
        return rest


class Seq(list[Any]):
    """A list with the positions of its items."""

    __slots__ = ("mark", "values_at")

    def __init__(self, mark: Mark) -> None:
        super().__init__()
        self.mark = mark
        self.values_at: list[Mark] = []


def find_place(tree: Map, text: str) -> tuple[tuple[str | int, ...], str, Mark]:
    """Find the place with which an error begins, as in `executor.tasks.build.type: there is no type 'coderr'`.

    Args:
        tree: the part of the file that the place is in.
        text: the text of the error. Items of a list are named by their `name`.

    Returns:
        The keys of the place, the text after it, and its position: as far as the file has it.
    """
    here: Any = tree
    path: list[str | int] = []
    mark, rest = tree.mark, text
    while fits := [(name, key) for name, key in _names(here) if _begins_with(rest, name)]:
        name, key = max(fits, key=lambda fit: len(fit[0]))
        mark, here, rest = here.values_at[key], here[key], rest[len(name) :]
        path.append(key)
        if not rest.startswith("."):
            break
        rest = rest[1:]
    return tuple(path), rest.lstrip(": "), mark


def _names(value: Any) -> list[tuple[str, Any]]:
    """Return the names of the parts of a value with their keys."""
    if isinstance(value, Map):
        return [(key, key) for key in value]
    parts = enumerate(value) if isinstance(value, Seq) else ()
    return [(str(one.get("name")), index) for index, one in parts if isinstance(one, Map)]


def _begins_with(text: str, name: str) -> bool:
    return bool(name) and text.startswith(name) and text[len(name) : len(name) + 1] in (".", ":", " ")


class RefusedValue:
    """Stands for a value that was refused already, so that it causes no second problem."""


REFUSED_VALUE = RefusedValue()
_DROPPED = object()  # the key of an item that was refused


class _Stop(Exception):
    """The rest of the file cannot be read after this problem."""


def read_tree(text: str, file: str) -> tuple[Any, list[Problem]]:
    """Return the tree of a YAML text and the problems in it; the tree is `REFUSED_VALUE` if it could not be read.

    Args:
        text: the text.
        file: its name, for positions.
    """
    text = text.removeprefix("\ufeff")  # the byte order mark that some editors put at the beginning
    match = _UNSAFE.search(text)
    if match:
        mark = _mark_at(text, match.start(), file)
        return REFUSED_VALUE, [mark.problem(f"the character U+{ord(match[0]):04X} is not allowed in a scenario file")]
    match = _LONG_TAG.search(text)
    if match:
        mark = _mark_at(text, match.start(), file)
        return REFUSED_VALUE, [mark.problem("a word that starts with ! is too long; only plain values are read")]
    builder = _Builder(file)
    try:
        for event in _events(text):
            builder.take(event)
    except _Stop:
        return REFUSED_VALUE, builder.problems
    except MarkedYAMLError as error:
        return REFUSED_VALUE, [*builder.problems, _syntax_problem(error, file)]
    except (YAMLError, ValueError, RecursionError, MemoryError) as error:
        return REFUSED_VALUE, [*builder.problems, Problem(file, 1, 1, f"not valid YAML: {_one_line(error)}")]
    if not builder.documents:
        return REFUSED_VALUE, [Problem(file, 1, 1, "the file is empty; a scenario needs at least a name and one agent")]
    return builder.root, builder.problems


@functools.lru_cache(_KEPT_TEXTS)
def _kept(_: str) -> list[list[Any]]:
    """Return where the events of a text are kept: an empty list until all of them were taken."""
    return []


def _events(text: str) -> Iterator[Any]:
    """Yield the parser's events. They are kept only once all were taken, so that limits stop the parser, too."""
    kept = _kept(text) if len(text) <= _KEPT_LENGTH else []
    if kept:
        yield from kept[0]
        return
    events = []
    for event in YAML(typ="safe", pure=True).parse(text):
        events.append(event)
        yield event
    kept.append(events)


def _mark_at(text: str, index: int, file: str) -> Mark:
    return Mark(file, text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index))


def _one_line(error: object) -> str:
    return " ".join(str(error).split())[:200]


def _syntax_problem(error: MarkedYAMLError, file: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    about = ", ".join(_one_line(part) for part in (error.context, error.problem) if part)
    return Problem(file, line, column, f"not valid YAML: {about}")


@attrs.define
class _Frame:
    """A collection that is being read; for a mapping, with the key of the next value."""

    into: Map | Seq
    key: Any = None
    key_at: Mark | None = None


class _Builder:
    """Builds the tree from parser events, without recursion."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.root: Any = None
        self.problems: list[Problem] = []
        self.documents = 0
        self._stack: list[_Frame] = []
        self._nodes = 0

    def take(self, event: Any) -> None:
        """Take the next event."""
        kind = type(event)
        if kind is ScalarEvent:
            self._value(event, self._scalar(event))
        elif kind is MappingStartEvent or kind is SequenceStartEvent:
            mark = self._mark(event)
            into = Map(mark) if kind is MappingStartEvent else Seq(mark)
            self._value(event, into)
            self._stack.append(_Frame(into))
        elif kind is MappingEndEvent or kind is SequenceEndEvent:
            self._stack.pop()
        elif kind is AliasEvent:
            self._refuse(event, f"the alias *{event.anchor[:60]} is not allowed; write the value out")
            self._value(event, REFUSED_VALUE)
        elif kind is DocumentStartEvent:
            self._document(event)

    def _mark(self, event: Any) -> Mark:
        return Mark(self.file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _refuse(self, event: Any, message: str, hint: str | None = None) -> None:
        self.problems.append(self._mark(event).problem(message, hint))
        if len(self.problems) >= MAX_PROBLEMS:
            raise _Stop

    def _document(self, event: Any) -> None:
        self.documents += 1
        if self.documents > 1:
            self._refuse(event, "a scenario file holds one document, but a second one starts here")
            raise _Stop
        if event.version or event.tags:
            self._refuse(event, "YAML directives (lines that start with %) are not allowed")

    def _value(self, event: Any, value: Any) -> None:
        """Add a value to the collection that is being read."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self._refuse(event, f"the file holds more than {MAX_NODES} values")
            raise _Stop
        if len(self._stack) >= MAX_DEPTH:
            self._refuse(event, f"the file is nested more than {MAX_DEPTH} deep")
            raise _Stop
        if type(event) is not AliasEvent and self._check_properties(event):
            value = REFUSED_VALUE
        if not self._stack:
            self.root = value
            return
        frame = self._stack[-1]
        if isinstance(frame.into, Seq):
            frame.into.append(value)
            frame.into.values_at.append(self._mark(event))
        elif frame.key is None:
            frame.key, frame.key_at = self._key(event, value, frame.into), self._mark(event)
        else:
            if frame.key is not _DROPPED and frame.key_at is not None:
                frame.into.put(frame.key, value, frame.key_at, self._mark(event))
            frame.key = None

    def _check_properties(self, event: Any) -> bool:
        """Refuse an anchor or a tag; return whether there is a tag, which would change the meaning of the value."""
        if event.anchor is not None:
            self._refuse(event, f"the anchor &{event.anchor[:60]} is not allowed")
        if event.ctag is not None:
            self._refuse(event, f"the tag {str(event.ctag)[:60]} is not allowed; only plain values are read")
        return event.ctag is not None

    def _key(self, event: Any, value: Any, into: Map) -> Any:
        if value is REFUSED_VALUE:
            return _DROPPED
        if type(event) is ScalarEvent and event.value == "<<" and event.style is None:
            self._refuse(event, "the merge key << is not allowed; write the keys out")
        elif not isinstance(value, str):
            shown = "a collection" if isinstance(value, Map | Seq) else event.value or "an empty key"
            self._refuse(event, f"keys must be text, found {shown}", "put it in quotes")
        elif value in into:
            first = into.keys_at[value].line
            again = event.start_mark.line + 1
            self._refuse(event, f"the key {value[:60]!r} appears twice: in line {first} and in line {again}")
        else:
            return value
        return _DROPPED

    def _scalar(self, event: Any) -> Any:
        """Return the value of a scalar: typed only when it is plain and reads like JSON."""
        text: str = event.value
        if event.style is not None:
            match = _UNSAFE.search(text) if event.style == '"' else None
            if match:
                self._refuse(event, f"the character U+{ord(match[0]):04X} is not allowed in a text")
                return REFUSED_VALUE
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _INT.fullmatch(text):
            return self._int(event, text)
        if _NOT_FINITE.fullmatch(text):
            self._refuse(event, f"{text} is not a finite number")
            return REFUSED_VALUE
        if _FLOAT.fullmatch(text):
            if math.isfinite(value := float(text)):
                return value
            self._refuse(event, f"{text[:40]} is too big for a number")
            return REFUSED_VALUE
        return text

    def _int(self, event: Any, text: str) -> Any:
        if len(text) < 21 and abs(value := int(text)) <= MAX_INT:
            return value
        self._refuse(event, f"the whole number {text[:20]}... does not fit into 64 bits")
        return REFUSED_VALUE
