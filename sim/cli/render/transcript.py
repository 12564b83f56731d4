"""Conversations of a run, as a person reads them."""

import shutil
import textwrap
from collections.abc import Callable

import attrs
import click

from sim.agents.conversation.transcript import Transcript, TranscriptLine, Transcripts
from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.cli.render.output import plain, print_json, say
from sim.cli.render.table import print_table
from sim.kernel import to_seconds
from sim.kernel.calendar import Calendar
from sim.kernel.codec import Json
from sim.kernel.duration import seconds_text
from sim.record import StoredRun
from sim.world.calendar import CALENDAR, CalendarSettings

_COLUMNS = ("conversation", "where", "with", "began", "last", "lines", "last line")
_NARROWEST, _WIDEST = 40, 120
_SHORT = 60


def print_transcripts(stored: StoredRun, first: int | None, as_json: bool) -> None:
    """Print a line for each conversation of a run.

    Args:
        stored: the run.
        first: the most conversations; None: all.
        as_json: whether to print one JSON object.
    """
    read = _read(stored, Transcripts(lines=1, conversations=first))
    clock = clock_of(stored)
    rows = []
    for one in read.by_id.values():
        last = one.lines[-1] if one.lines else None
        said = "" if last is None else f"{last.name}: {last.text}"
        rows.append(
            (
                one.id,
                one.place,
                read.name(one.user),
                clock(one.started_ns),
                "" if last is None else clock(last.time_ns),
                one.total,
                textwrap.shorten(said, _SHORT, placeholder="..."),
            )
        )
    if as_json:
        print_json({"columns": _COLUMNS, "rows": rows})
        return
    print_table(list(_COLUMNS), rows, exact=True)
    if len(rows) < read.total:
        say(f"sim: {len(rows):,} of {read.total:,} shown; --limit 0 shows all")


def print_transcript(stored: StoredRun, conversation: str, last: int | None, as_json: bool) -> None:
    """Print one conversation: time, name and text, and the use of tools on lines of their own.

    Args:
        stored: the run.
        conversation: the id of the conversation, or its number.
        last: the most messages, the latest; None: all.
        as_json: whether to print one JSON object.

    Raises:
        UsageError: if the run has no such conversation.
    """
    id = f"conversation-{conversation}" if conversation.isdecimal() else conversation
    read = _read(stored, Transcripts(lines=last, only=id))
    transcript = read.by_id.get(id)
    if transcript is None:
        conversations = (
            [row[0] for row in stored.query("SELECT conversation FROM conversation_list LIMIT 10000")]
            if read.total
            else []
        )
        hint = did_you_mean(id, conversations) or "`sim show RUN conversation` lists all"
        raise UsageError(f"the run has no conversation {conversation[:60]!r}", hint=hint)
    clock = clock_of(stored)
    if as_json:
        print_json(_as_json(transcript, read, clock))
        return
    width = max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size().columns))
    click.echo(plain(f"{transcript.id}: {read.name(transcript.user)} in {transcript.place}"))
    if transcript.summary:
        print_text("summary: ", transcript.summary, width)
    for line in transcript.lines:
        _print_line(line, clock, width)
    if len(transcript.lines) < transcript.total:
        say(f"sim: the latest {len(transcript.lines):,} of {transcript.total:,} messages shown; --limit 0 shows all")


def clock_of(stored: StoredRun) -> Callable[[int], str]:
    """Return the function that writes a simulated time (nanoseconds): as civil time if the run has a calendar."""
    calendar = _calendar(stored)
    if calendar is None:
        return lambda time_ns: seconds_text(to_seconds(time_ns))
    return lambda time_ns: f"{calendar.at(time_ns):%Y-%m-%d %H:%M:%S}"


def _calendar(stored: StoredRun) -> Calendar | None:
    """Return the calendar of a run; None if it has none, or its scenario was edited."""
    from sim.runner.recorded import recorded_scenario  # the import is slow

    scenario = recorded_scenario(stored)
    settings = None if scenario is None else scenario.sections.get(CALENDAR.key)
    return settings.calendar if isinstance(settings, CalendarSettings) else None


def _read(stored: StoredRun, transcripts: Transcripts) -> Transcripts:
    for row in stored.rows(("user.*", "conversation.*")):
        transcripts.add(row.time_ns, row.event)
    return transcripts


def _print_line(line: TranscriptLine, clock: Callable[[int], str], width: int) -> None:
    when = clock(line.time_ns)
    if line.kind == "tool":
        print_text(f"{when:>10}  ", f"{line.name} {line.text}", width, more="  ")
    else:
        mark = "! " if line.kind == "error" else ""
        print_text(f"{when:>10}  {mark}{plain(line.name)}: ", line.text, width)


def print_text(begin: str, text: str, width: int, more: str = "") -> None:
    """Print a text in lines of the width, each paragraph on its own, below each other."""
    indent = " " * min(len(begin), width // 3) + more
    begin = plain(begin)
    for paragraph in text.splitlines() or [""]:
        wrapped = textwrap.wrap(
            plain(paragraph), width, initial_indent=begin, subsequent_indent=indent, break_on_hyphens=False
        )
        for row in wrapped or [begin.rstrip()]:
            click.echo(row)
        begin = indent


def _as_json(transcript: Transcript, read: Transcripts, clock: Callable[[int], str]) -> dict[str, Json]:
    lines = [{**attrs.asdict(line), "at": clock(line.time_ns)} for line in transcript.lines]
    return {
        "conversation": transcript.id,
        "user": transcript.user,
        "name": read.name(transcript.user),
        "platform": transcript.platform,
        "channel": transcript.channel,
        "thread": transcript.thread,
        "summary": transcript.summary,
        "total": transcript.total,
        "lines": lines,
    }
