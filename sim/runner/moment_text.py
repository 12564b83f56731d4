"""The text of a moment: what a person reads of it, as pairs and tables, for a terminal and for a page."""

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from sim.base.text import number
from sim.kernel.codec import encode
from sim.kernel.duration import seconds_text
from sim.runner.moment import AgentThen, Moment, waits_of


@attrs.frozen
class Listed:
    """A list of an agent or of the world.

    Attributes:
        title: what is listed.
        headings: of its columns.
        rows: texts and numbers.
        total: how many there are; `rows` can have less.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str | int]]
    total: int


def shared_of(moment: Moment) -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of what agents share, and what is not empty of it."""
    for name, value in moment.world.items():
        if name not in ("time", "draws") and (part := _without_nothing(value)):
            yield name, part
    if (time := moment.metrics.get("time")) is not None:
        yield (
            f"metrics at {seconds_text(time)}",
            {name: value for name, value in moment.metrics.items() if name != "time"},
        )


def _without_nothing(value: Any) -> Any:
    """Return a value without what is 0 or empty in it."""
    if not isinstance(value, dict):
        return value
    parts = {key: _without_nothing(part) for key, part in value.items()}
    return {key: part for key, part in parts.items() if part}


def ahead_of(moment: Moment) -> Listed:
    """Return what is due that belongs to no agent."""
    rows = [(seconds_text(one["at"]), one["whose"], one["what"]) for one in moment.ahead]
    return Listed("due", ("due", "whose", "what"), rows, len(rows))


def facts_of(name: str, one: AgentThen) -> list[tuple[str, str]]:
    """Return what one agent is and does, as pairs of a title and a text; what is empty is left out."""
    facts = [
        ("agent", name + (f", of the entry {one['entry']}" if one["entry"] not in (None, name) else "")),
        ("kind", one["kind"]),
        ("state", f"{one['state']} since {seconds_text(one['since'])}"),
        ("waits for", "; ".join(waits_of(one))),
        ("iteration", f"{number(one['iterations'])}" + ("" if one["began"] is None else _since(one["began"]))),
        ("action", None if one["doing"] is None else f"{one['doing']} {text_of(one['arguments'])}"),
        ("errors in a row", one["errors"] or None),
        ("woken last by", one["woken_by"]),
        ("place", one["place"]),
        ("in space", one["space"]),
        ("holds", {**one["holds"], **one["quotas"]}),
        ("balance", one["balance"]),
    ]
    return [(key, text_of(value)) for key, value in facts if value not in (None, "", {}, [])]


def lists_of(one: AgentThen) -> Iterator[Listed]:
    """Yield the lists of one agent that are not empty."""
    letters = [(seconds_text(m["time"]), m["sender"], m["topic"], m["is"], text_of(m["data"])) for m in one["letters"]]
    more = one["more"].items() if isinstance(one["more"], dict) else []
    lists: list[tuple[str, tuple[str, ...], Sequence[Sequence[str | int]]]] = [
        ("variables", ("variable", "value"), [(key, text_of(value)) for key, value in one["variables"].items()]),
        ("messages", ("sent", "from", "topic", "read", "data"), letters),
        ("timers", ("due", "what"), [(seconds_text(t["at"]), t["what"]) for t in one["timers"]]),
        (
            "calls without an answer",
            ("number", "kind", "since", "request"),
            [(c["number"], c["kind"], seconds_text(c["since"]), text_of(c["request"])) for c in one["calls"]],
        ),
        (
            "open tasks",
            ("task", "status", "title"),
            [[text_of(task[key]) for key in ("id", "status", "title")] for task in one["tasks"]],
        ),
        ("more", ("part", "state"), [(key, text_of(value)) for key, value in more]),
    ]
    for title, headings, rows in lists:
        if rows:
            yield Listed(title, headings, rows, one["mail"] if title == "messages" else len(rows))


def text_of(value: Any) -> str:
    """Return a value as text; what is no text is JSON."""
    return value if isinstance(value, str) else encode(value).decode()


def cut(text: str, most: int, where: str = "--json has all") -> str:
    """Return the beginning of a text that is longer than a number of characters, and say where the rest is."""
    return text if len(text) <= most else f"{text[:most]} ... [{len(text) - most:,} more characters; {where}]"


def _since(seconds: float) -> str:
    return f", under way since {seconds_text(seconds)}"
