"""The spans of a YAML text: where its parts are, and how to change some of them so that the rest stays as written."""

import json
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, Literal

import attrs
from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

Path = tuple[str | int, ...]
"""The keys and numbers that lead to a part."""

_SIMPLE: Final = re.compile(r"-?[A-Za-z0-9_=./~](?:[A-Za-z0-9_=./ ()+*<>~-]|:(?! ))*(?<![ :])")
"""A text that may stand without quotation marks within brackets."""


@attrs.frozen
class Span:
    """A part of a text.

    Attributes:
        kind: a mapping, a list, or a single value.
        start, end: its positions in the text. Comments and blank lines after its last value are not part of it.
        flow: whether it is a mapping or a list in brackets.
        entries: the entries of a mapping or list.
        text: a single value, without quotation marks.
        quoted: whether it has quotation marks.
    """

    kind: Literal["map", "list", "value"]
    start: int
    end: int
    flow: bool = False
    entries: "tuple[Entry, ...]" = ()
    text: str = ""
    quoted: bool = False

    def at(self, path: Path) -> "Span | None":
        """Return the part at a path; None if there is none."""
        here: Span | None = self
        for step in path:
            parts = [entry.value for entry in here.entries if entry.key == step] if here is not None else []
            here = parts[0] if parts else None
        return here

    def walk(self, path: Path = ()) -> Iterator[tuple[Path, "Span"]]:
        """Yield this part and all parts in it with their paths."""
        yield path, self
        for entry in self.entries:
            yield from entry.value.walk((*path, entry.key))


@attrs.frozen
class Entry:
    """An entry of a mapping or list.

    Attributes:
        key: its key, or its number in a list.
        start: the position of its key, or of the `-` before it; in brackets, of the item.
        value: its value.
    """

    key: str | int
    start: int
    value: Span


def spans(text: str) -> Span:
    """Return the parts of a text that `read_tree` has accepted."""
    return _span(text, YAML(typ="safe", pure=True).compose(text))


def _span(text: str, node: Node) -> Span:
    start, end = node.start_mark.index, node.end_mark.index
    if isinstance(node, MappingNode):
        entries = tuple(Entry(str(key.value), key.start_mark.index, _span(text, value)) for key, value in node.value)
        return Span("map", start, end if node.flow_style else _last(entries, end), bool(node.flow_style), entries)
    if isinstance(node, SequenceNode):
        entries = tuple(_items(text, node))
        return Span("list", start, end if node.flow_style else _last(entries, end), bool(node.flow_style), entries)
    quoted = getattr(node, "style", None) is not None
    shown = text[start:end] if quoted else text[start:end].rstrip()
    return Span("value", start, start + len(shown), text=str(node.value), quoted=quoted)


def _items(text: str, node: SequenceNode) -> Iterator[Entry]:
    dash, before = re.compile(rf"(?m)^ {{{node.start_mark.column}}}-(?=\s)"), node.start_mark.index
    for number, item in enumerate(node.value):
        value = _span(text, item)
        match = None if node.flow_style or number == 0 else dash.search(text, before)
        at = value.start if node.flow_style else before if match is None else match.end() - 1
        yield Entry(number, at, value)
        before = value.end


def _last(entries: tuple[Entry, ...], end: int) -> int:
    return entries[-1].value.end if entries else end


def without(text: str, part: Span, removed: Collection[int]) -> str:
    """Return a text without some entries of a mapping or list, but with at least one of them.

    Comments above an entry in lines of their own, and at the end of its lines, go with it. All others stay.

    Args:
        text: the text.
        part: the mapping or list.
        removed: the numbers of the entries to remove.
    """
    kept = [number for number in range(len(part.entries)) if number not in removed]
    entries = part.entries
    if part.flow:
        new = text[part.start : entries[0].start]
        for place, number in enumerate(kept):
            before = text[entries[number - 1].value.end : entries[number].start] if place else ""
            new += before + text[entries[number].start : entries[number].value.end]
        tail = text[entries[-1].value.end : part.end]
        return text[: part.start] + new + tail + text[part.end :]
    ends = [_line_end(text, entry.value.end) for entry in entries]
    pieces = []
    for place, number in enumerate(kept):
        begin = entries[number].start if number == 0 else ends[number - 1]
        piece = text[begin : ends[number]]
        if place == 0 and number > 0:  # it comes to where the first one was, perhaps behind a `-`
            lead = text[ends[number - 1] : entries[number].start]
            piece = text[entries[number].start : ends[number]]
            if lead.strip():
                own_line = text[_line_start(text, entries[0].start) : entries[0].start].strip() == ""
                piece = lead.lstrip("\n ") + piece if own_line else "\n" + lead.rstrip(" ") + _indent(lead) + piece
        pieces.append(piece)
    return text[: entries[0].start] + "".join(pieces) + text[ends[-1] :]


def _indent(lead: str) -> str:
    return lead[len(lead.rstrip(" ")) :]


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    newline = text.find("\n", at)
    return len(text) if newline < 0 else newline + 1


def replaced(text: str, part: Span, new: str) -> str:
    """Return a text with another value at a part."""
    return text[: part.start] + new + text[part.end :]


def joined(text: str, longest: int, same: Callable[[str], bool]) -> str:
    """Return a text in which small mappings and lists without comments are written on one line, in brackets.

    Args:
        text: the text.
        longest: the most characters of a line.
        same: whether a text means the same as this one.
    """
    tried: set[Path] = set()
    while True:
        root = spans(text)
        candidates = [
            (path, part)
            for path, part in root.walk()
            if path and not part.flow and part.entries and path not in tried and "\n" in text[part.start : part.end]
        ]
        if not candidates:
            return text
        path, part = max(candidates, key=lambda one: len(one[0]))  # the innermost ones first
        tried.add(path)
        inside = text[part.start : part.end]
        parent = root.at(path[:-1])
        entry = next(one for one in parent.entries if one.key == path[-1]) if parent is not None else None
        if "#" in inside or entry is None:
            continue
        begin = _value_begin(text, entry)
        new = f"{text[:begin]} {_in_brackets(part)}{text[part.end :]}"
        if "#" in text[begin : part.start] or not same(new):
            continue
        line = new[_line_start(new, begin) : _line_end(new, begin)]
        if len(line.rstrip()) <= longest:
            text = new


def _value_begin(text: str, entry: Entry) -> int:
    """Return the position behind the colon, or the dash, before the value of an entry."""
    if isinstance(entry.key, int):
        return entry.start + 1
    return text.index(":", entry.start + len(entry.key)) + 1


def _in_brackets(part: Span) -> str:
    if part.kind == "value":
        plain = not part.quoted and (_SIMPLE.fullmatch(part.text) is not None or part.text == "")
        return part.text or "null" if plain else json.dumps(part.text, ensure_ascii=False)
    if part.kind == "map":
        return "{" + ", ".join(f"{_in_key(entry.key)}: {_in_brackets(entry.value)}" for entry in part.entries) + "}"
    return "[" + ", ".join(_in_brackets(entry.value) for entry in part.entries) + "]"


def _in_key(key: str | int) -> str:
    return str(key) if _SIMPLE.fullmatch(str(key)) else json.dumps(key, ensure_ascii=False)


def plain_value(value: Any) -> str:
    """Return a number or text as it is written as a value."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)
