"""What one agent or person of a run said and heard, in the order of time."""

from collections import Counter
from collections.abc import Sequence
from typing import TypedDict, cast

import click

from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.cli.render.output import plain, print_json, say
from sim.cli.render.prompts import Rows
from sim.cli.render.rows import print_list
from sim.cli.render.transcript import clock_of, print_text
from sim.kernel.codec import Json
from sim.record import StoredRun
from sim.record.frames import json_rows

_WIDTH = 120
_AGENTS = "SELECT DISTINCT agent FROM transitions"


class _Call(TypedDict, total=False):
    """A call of a tool in a prompt or an answer."""

    name: str
    arguments: Json


class _Message(TypedDict, total=False):
    """A message of a prompt."""

    role: str
    content: Json
    tool_calls: list[_Call]


class ChatRow(TypedDict, total=False):
    """A row of the view `conversations`, or of the view `prompts`: the last seven."""

    id: int | None
    time_ns: int
    form: str
    speaker: str | None
    listener: str | None
    conversation: str | None
    topic: str | None
    text: str | None
    agent: str
    model: str
    use: str
    status: str
    request: list[_Message] | None
    answer: str | None
    tool_calls: list[_Call] | None


def print_chat(
    stored: StoredRun, name: str, other: str | None, last: int | None, prompts: Rows | None, *, as_json: bool
) -> None:
    """Print what somebody said and heard: time, speaker, listener and the whole text.

    Args:
        stored: the run.
        name: an agent, or a person as others see the name.
        other: only what was said between the two; None: everything.
        last: the most things said, the latest; None: all.
        prompts: the rows of the view `prompts`, to print the model calls of the agents too; None: not to.
        as_json: whether to print one JSON object.

    Raises:
        UsageError: if the run has no agent or user of a name.
    """
    rows = _table(stored, "conversations", stored.stream("conversations"))
    _check(stored, rows, [name] if other is None else [name, other])
    said = [row for row in rows if _concerns(row, name, other)]
    shown = said[-last:] if last else said
    all_asked = [] if prompts is None else _table(stored, "prompts", prompts)
    asked = [row for row in all_asked if row["agent"] in (name, other)]
    if as_json:
        document = {"agent": name, "with": other, "total": len(said), "said": shown}
        print_json(document if prompts is None else {**document, "prompts": asked})
        return
    clock = clock_of(stored)
    for row in sorted([*shown, *asked], key=lambda row: (row["time_ns"], row["id"] or 0)):
        when = f"{clock(row['time_ns']):>10}  "
        if "request" in row:
            _print_prompt(row, when)
            continue
        to = row["listener"] if row["form"] in ("message", "interview") else row["conversation"]
        about = f" ({row['topic']})" if row["form"] == "message" and row["topic"] else ""
        print_text(f"{when}{row['speaker']} to {to}{about}: ", str(row["text"] or ""), _WIDTH)
    if not said:
        say("sim: nothing was said")
    elif len(shown) < len(said):
        say(f"sim: the latest {len(shown):,} of {len(said):,} shown; without --limit all are")


def _table(stored: StoredRun, view: str, rows: Rows) -> list[ChatRow]:
    columns = stored.columns(view)
    return [cast("ChatRow", dict(zip(columns, row, strict=True))) for row in json_rows(columns, rows)]


def _concerns(row: ChatRow, name: str, other: str | None) -> bool:
    """Return whether something was said by `name` or to it; with `other`, between the two."""
    pair = (row["speaker"], row["listener"])
    return name in pair if other is None else pair in ((name, other), (other, name))


def print_speakers(stored: StoredRun, *, as_json: bool) -> None:
    """Print the agents and people of a run, with how much each said and heard."""
    rows = _table(stored, "conversations", stored.stream("conversations"))
    said = Counter(row["speaker"] for row in rows)
    heard = Counter(row["listener"] for row in rows)
    names = _people(stored, rows)
    print_list(("name", "said", "heard"), [(name, said[name], heard[name]) for name in names], as_json=as_json)


def _people(stored: StoredRun, rows: Sequence[ChatRow]) -> dict[str, None]:
    people = dict.fromkeys(agent for (agent,) in stored.query(_AGENTS))
    return people | dict.fromkeys(who for row in rows for who in (row["speaker"], row["listener"]) if who is not None)


def _check(stored: StoredRun, rows: Sequence[ChatRow], names: Sequence[str]) -> None:
    people = _people(stored, rows)
    for name in names:
        if name not in people:
            hint = did_you_mean(name, people) or "`sim show RUN chat` lists who can be named"
            raise UsageError(f"the run has no agent or person {name[:80]!r}", hint=hint)


def _print_prompt(row: ChatRow, when: str) -> None:
    click.echo(plain(f"{when}{row['agent']} asks {row['model']} for {row['use']}: {row['status']}"))
    if row["request"] is None:
        click.echo(" " * 12 + "(the request to a model in the core is not on record)")
        return
    for message in row["request"]:
        print_text(f"{'':>12}{message.get('role')}: ", str(message.get("content")), _WIDTH)
        _print_calls(message.get("tool_calls") or ())
    print_text(f"{'':>12}answer: ", str(row["answer"] or ""), _WIDTH)
    _print_calls(row["tool_calls"] or ())


def _print_calls(calls: Sequence[_Call]) -> None:
    for call in calls:
        print_text(f"{'':>12}calls ", f"{call.get('name')}: {call.get('arguments')}", _WIDTH)
