"""`sim show`: a summary, events or tables of a run."""

from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

import sim.llm.views  # noqa: F401  # registers the views of model calls
from sim.base.errors import UsageError
from sim.cli.render.channel import print_channel, print_channels
from sim.cli.render.chat import print_chat
from sim.cli.render.event_lines import choose, event_json
from sim.cli.render.goal import print_history, print_runtime, print_thread
from sim.cli.render.output import OUT, common, print_json, reading, say
from sim.cli.render.prompts import REPEAT, Rows, prompts_of, repeated_rows
from sim.cli.render.story import show_files
from sim.cli.render.summary import print_summary
from sim.cli.render.table import print_rows
from sim.cli.render.task import show_task
from sim.cli.render.transcript import print_transcript, print_transcripts
from sim.cli.render.views import CommandWithViews
from sim.cli.rights_options import replay_rights_options
from sim.events.event_text import event_line
from sim.record import RunInfo, StoredRun
from sim.record.files import limit_memory
from sim.record.frames import json_rows
from sim.record.summary import fields_of
from sim.tools.rights import Rights

_COUNT = click.IntRange(0, 2**63 - 1)  # as SQLite and Python count


@click.command(
    "show",
    cls=CommandWithViews,
    epilog="""Examples:

    \b
      sim show queue-1
      sim show queue-1 --agent door --limit 20
      sim show queue-1 --topic 'person.*'
      sim show queue-1 --conversation conversation-1
      sim show debate-1 --chat moderator --with debater-1
      sim show office-1 --task 3
      sim show office-1 --channel '#ops-log'
      sim show houston-1 --thread goal-user-1-1
      sim show software_team-1 --files textkit
      sim show queue-1 --sql 'SELECT kind, count(*) FROM actions GROUP BY kind'""",
)
@click.argument("run")
@click.option("--events", type=_COUNT, metavar="N", help="The last N events.")
@click.option("--topic", metavar="PATTERN", help="Events of these topics, for example 'action.*'.")
@click.option("--agent", metavar="NAME", help="Events of one agent: states, actions, messages.")
@click.option("--view", metavar="NAME", help="The rows of a view; they are listed below.")
@click.option("--chat", metavar="AGENT", help="What an agent or a person said and heard, in the order of time, whole.")
@click.option("--with", "other", metavar="NAME", help="With --chat: only what was said between the two.")
@click.option("--prompts", is_flag=True, help="With --chat: also the requests to models, and their answers.")
@click.option("--conversation", metavar="ID", help="A conversation as people read it; list: all conversations.")
@click.option("--channel", metavar="NAME", help="The posts of a channel; list: all channels.")
@click.option("--thread", metavar="AGENT", help="What the person of a goal, task or user agent sees.")
@click.option("--history", metavar="AGENT", help="What the model of a goal, task or user agent sees, entry by entry.")
@click.option("--runtime", metavar="AGENT", help="The runtime state, the tools and the runs of such an agent.")
@click.option("--sql", metavar="QUERY", help="A SELECT over the views.")
@click.option(
    "--task", type=_COUNT, metavar="ID", help="A task: what it is, and its history; of executors, as a story."
)
@click.option("--files", metavar="PROJECT", help="The files of a project of executors; list: their names.")
@REPEAT
@replay_rights_options
@click.option("--limit", type=_COUNT, default=50, show_default=True, help="The most lines to print; 0: all.")
@OUT
@common
def command(
    run: str, events: int | None, topic: str | None, agent: str | None, view: str | None,
    conversation: str | None, channel: str | None, thread: str | None, history: str | None, runtime: str | None,
    task: int | None, files: str | None, sql: str | None, chat: str | None, other: str | None, prompts: bool,
    limit: int, again: bool, out: Path, as_json: bool, rights: Rights,
) -> None:  # fmt: skip
    """Show a summary of RUN, some of its events, or a table. RUN is a folder, or the beginning of a name in
    `sim list`.
    """
    wants_events = events is not None or topic is not None or agent is not None
    others = {
        "--view": view, "--chat": chat, "--conversation": conversation, "--channel": channel, "--thread": thread,
        "--history": history, "--runtime": runtime, "--files": files, "--task": task, "--sql": sql,
    }  # fmt: skip
    if wants_events + sum(given is not None for given in others.values()) > 1:
        *most, last = others
        raise UsageError(f"events, {', '.join(most)} and {last} cannot be combined", hint="use one of them")
    if chat is None and (other is not None or prompts):
        raise UsageError("--with and --prompts belong to --chat", hint="give --chat AGENT")
    if again and view is None:
        raise UsageError("--repeat belongs to --view prompts", hint="--chat AGENT --prompts repeats them too")
    first = limit or None
    with reading(out, run) as stored:
        if task is not None:
            show_task(stored, task, as_json=as_json)
        elif files is not None:
            show_files(stored, files, as_json=as_json)
        elif wants_events:
            _events(stored, agent, topic, first, events, as_json)
        elif chat is not None:
            asked = prompts_of(stored, rights) if prompts else None
            print_chat(stored, chat, other, _given(first), asked, as_json=as_json)
        elif view is not None:
            found = repeated_rows(stored, view, rights) if again else None
            _view(stored, view, first, found, as_json)
        elif conversation is not None or channel is not None:
            _places(stored, conversation, channel, first, as_json)
        elif thread is not None or history is not None or runtime is not None:
            _goal(stored, thread, history, runtime, first, as_json)
        elif sql is not None:
            limit_memory()
            columns, rows = stored.table(sql)
            _rows(columns, rows[:first], len(rows), as_json)
        else:
            fields = {**timed_fields_of(stored.info), "damaged": list(stored.integrity.damaged)}
            print_json(fields) if as_json else print_summary(fields)


def _events(
    stored: StoredRun, agent: str | None, topic: str | None, first: int | None, last: int | None, as_json: bool
) -> None:
    rows, count = choose(stored.events(), agent=agent, topic=topic, first=first, last=last)
    if as_json:
        print_json({"count": count, "events": [event_json(row) for row in rows]})
        return
    for row in rows:
        click.echo(event_line(row, agent))
    if last is None:
        _say_rest(len(rows), count)


def _given(first: int | None) -> int | None:
    """Return the limit that the user has given; None: by default, nothing that was said is left out."""
    by_user = click.get_current_context().get_parameter_source("limit") is ParameterSource.COMMANDLINE
    return first if by_user else None


def _places(stored: StoredRun, conversation: str | None, channel: str | None, first: int | None, as_json: bool) -> None:
    """Show a conversation or a channel, or the list of them."""
    if conversation == "list":
        print_transcripts(stored, first, as_json)
    elif conversation is not None:
        print_transcript(stored, conversation, first, as_json)
    elif channel == "list":
        print_channels(stored, as_json)
    elif channel is not None:
        print_channel(stored, channel, first, as_json)


def _goal(
    stored: StoredRun, thread: str | None, history: str | None, runtime: str | None, last: int | None, as_json: bool
) -> None:
    """Show one of the pages about a goal, task or user agent."""
    if thread is not None:
        print_thread(stored, thread, last, as_json)
    elif history is not None:
        print_history(stored, history, last, as_json)
    elif runtime is not None:
        print_runtime(stored, runtime, as_json)


def _view(stored: StoredRun, view: str, first: int | None, found: Rows | None, as_json: bool) -> None:
    columns = stored.columns(view)
    with closing(stored.stream(view) if found is None else found) as stream:
        rows = list(islice(stream, first))
    _rows(columns, rows, None, as_json, view=view)


def _rows(
    columns: list[str], rows: Sequence[tuple[Any, ...]], count: int | None, as_json: bool, *, view: str | None = None
) -> None:
    if as_json:
        found = list(json_rows(columns, rows, mixed=view is None, view=view))
        print_json({"columns": columns, "rows": found})
        return
    print_rows(columns, rows)
    _say_rest(len(rows), count)


def _say_rest(shown: int, count: int | None) -> None:
    if count is not None and shown < count:
        say(f"sim: {shown:,} of {count:,} shown; --limit 0 shows all")


def timed_fields_of(info: RunInfo) -> dict[str, Any]:
    """Return the fields of a run, with the real time that it took."""
    return {**fields_of(info), "wall_seconds": _wall_seconds(info)}


def _wall_seconds(info: RunInfo) -> float | None:
    try:
        return (datetime.fromisoformat(info.ended_at or "") - datetime.fromisoformat(info.started_at)).total_seconds()
    except ValueError:  # the run has not ended
        return None
