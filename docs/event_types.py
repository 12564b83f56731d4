"""Writes the reference in docs/events.md, made from the event types: `uv run python docs/event_types.py`."""

import inspect
import re
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from sim.events.event_type import EVENT_TYPES, EventData, OpenData, Published, described_fields
from sim.kernel.codec import Absent, json_keys, json_kinds

PAGE = Path(__file__).with_name("events.md")
_BEGIN = "<!-- From here on, docs/event_types.py writes this page. -->\n"
_WORDS: dict[Any, str] = {
    str: "text", int: "whole number", float: "number", bool: "true or false", Any: "any", list: "list",
    NoneType: "null",
}  # fmt: skip


def reference() -> str:
    """Return a chapter for each topic: what has happened, and the fields of its data."""
    return "\n\n".join(_chapter(topic, EVENT_TYPES[topic]) for topic in sorted(EVENT_TYPES))


def page(text: str) -> str:
    """Return the text of the page with its reference of the event types as they are now.

    Raises:
        ValueError: the page has no mark after which the reference begins.
    """
    return f"{text[: text.index(_BEGIN)]}{_BEGIN}\n{reference()}\n"


def _chapter(topic: str, kind: type[EventData]) -> str:
    about = " ".join(inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].split())
    seen = " *Published.*" if issubclass(kind, Published) else ""
    meanings, kinds = described_fields(kind), json_kinds(kind)
    if issubclass(kind, OpenData):
        return f"## {topic.replace('*', 'KIND')}\n\n{about}{seen} The data: {meanings['values']}"
    rows = (f"| `{key}` | {_words(kinds[key])} | {_cell(meanings[name])} |" for name, key in json_keys(kind).items())
    table = "\n".join(["| field | value | meaning |", "| --- | --- | --- |", *rows])
    return f"## {topic.replace('*', 'KIND')}\n\n{about}{seen}\n\n{table}"


def _words(kind: Any) -> str:
    """Return what a type allows, in words."""
    if get_origin(kind) in (UnionType, Union):
        parts = [one for one in get_args(kind) if one is not Absent]
        if int in parts and float in parts:
            parts.remove(int)
        said = " or ".join(_words(one) for one in parts)
        return f"{said}; may be missing" if Absent in get_args(kind) else said
    if get_origin(kind) is list:
        (part,) = get_args(kind)
        return "list" if part is Any else f"list of {_words(part)}"
    return _WORDS.get(kind, "object")


def _cell(text: str) -> str:
    return re.sub(r"^\w", lambda found: found[0].upper(), text.replace("|", r"\|"))


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
