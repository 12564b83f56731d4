"""`sim show`: what a run holds: its summary, and pages and tables by name."""

from datetime import datetime
from pathlib import Path

import click
from click.core import ParameterSource

import sim.llm.views  # noqa: F401  # registers the views of model calls
from sim.base.errors import UsageError
from sim.cli.render.output import OUT, common, plain, print_json, reading, say
from sim.cli.render.pages import OPTIONS, PageRequest, holdings, print_holdings, show, users_of
from sim.cli.render.prompts import REPEAT
from sim.cli.render.summary import print_summary
from sim.cli.render.views import CommandWithPages
from sim.cli.rights_options import replay_rights_options
from sim.kernel.codec import Json
from sim.record import RunInfo, StoredRun
from sim.record.summary import fields_of
from sim.tools.rights import Rights

_COUNT = click.IntRange(0, 2**63 - 1)  # as SQLite and Python count
MOST_COMPARED = 200_000
"""The most events that a summary compares with the types of their topics, in about 0.3 s."""


@click.command(
    "show",
    cls=CommandWithPages,
    epilog="""Examples:

    \b
      sim show queue-1
      sim show queue-1 events --agent door --limit 20
      sim show queue-1 events --topic 'person.*'
      sim show queue-1 actions --agent door
      sim show queue-1 state --at 1h
      sim show queue-1 state door --at 1h
      sim show queue-1 causes 1234
      sim show queue-1 influence 1234
      sim show queue-1 conversation 1
      sim show debate-1 chat moderator --agent debater-1
      sim show office-1 task 3
      sim show office-1 channel '#ops-log'
      sim show houston-1 thread goal-user-1-1
      sim show software_team-1 workspace textkit
      sim show queue-1 sql 'SELECT kind, count(*) FROM actions GROUP BY kind'""",
)
@click.argument("run")
@click.argument("view", required=False)
@click.argument("name", required=False)
@click.option(
    "--agent",
    metavar="NAME",
    help="With events or a table: only those of one agent; with chat: only what the two said.",
)
@click.option("--topic", metavar="PATTERN", help="With events: only of these topics, for example 'action.*'.")
@click.option("--last", type=_COUNT, metavar="N", help="With events or a table: the last N.")
@click.option("--prompts", is_flag=True, help="With chat: also the requests to models, and their answers.")
@REPEAT
@click.option(
    "--at",
    metavar="DURATION|event:ID",
    help="With state: before what is due at a simulated time, or after the step that made an event. Default: the end.",
)
@replay_rights_options
@click.option("--limit", type=_COUNT, default=50, show_default=True, help="The most lines to print; 0: all.")
@OUT
@common
def command(
    run: str, view: str | None, name: str | None, *, agent: str | None, topic: str | None, last: int | None,
    prompts: bool, again: bool, at: str | None, limit: int, out: Path, as_json: bool, rights: Rights,
) -> None:  # fmt: skip
    """Show a summary of RUN and which views there are of it; or one VIEW. RUN is a folder, or the beginning of a name
    in `sim list`.

    Views that take a NAME list what can be named if it is left out. Tables are views, too.
    """
    options = _options_of_user()
    if view is None and options:
        option, written = next(iter(options.items()))
        raise UsageError(f"{written} needs a view of the run", hint=f"it is for {users_of(option)}")
    with reading(out, run) as stored:
        if view is not None:
            asked = PageRequest(
                stored=stored,
                view=view,
                name=name,
                agent=agent,
                topic=topic,
                last=last,
                prompts=prompts,
                again=again,
                at=at,
                limit=limit or None,
                limited="limit" in options,
                rights=rights,
                as_json=as_json,
            )
            show(asked, options)
            return
        malformed = _malformed(stored)
        fields = {**timed_fields_of(stored.info), "damaged": list(stored.integrity.damaged), "malformed": malformed}
        if as_json:
            print_json({**fields, "views": holdings(stored)})
        else:
            print_run(stored, fields)


def print_run(stored: StoredRun, fields: dict[str, Json]) -> None:
    """Print the summary of a run, and what else there is of it."""
    print_summary(fields)
    click.echo()
    print_holdings(stored)


def _malformed(stored: StoredRun) -> dict[str, Json] | None:
    """Count the malformed events of a run, say what they are, and return this; None: there are too many events."""
    if stored.counts()["events"] > MOST_COMPARED:
        many = f"more than {MOST_COMPARED:,} events"
        say(f"sim: note: {many}: `sim verify` says whether they have the form of their topic")
        return None
    malformed = stored.malformed()
    if text := malformed.sentence(stored.info.versions.get("sim")):
        say(f"sim: note: {plain(text)}")
    return malformed.to_json()


def _options_of_user() -> dict[str, str]:
    """Return the options that the user has given, as they are written, by name."""
    context = click.get_current_context()
    written = {str(option.name): option.opts[0] for option in context.command.params}
    by_user = ParameterSource.COMMANDLINE
    return {name: written[name] for name in OPTIONS if context.get_parameter_source(name) is by_user}


def timed_fields_of(info: RunInfo) -> dict[str, Json]:
    """Return the fields of a run, with the real time that it took."""
    return {**fields_of(info), "wall_seconds": _wall_seconds(info)}


def _wall_seconds(info: RunInfo) -> float | None:
    try:
        return (datetime.fromisoformat(info.ended_at or "") - datetime.fromisoformat(info.started_at)).total_seconds()
    except ValueError:  # the run has not ended
        return None
