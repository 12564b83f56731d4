"""The ways to look at a run that `sim show RUN VIEW` has beside the tables: one registry of them.

A table needs no entry: every view in the file of a run is shown by its name, also those of kinds in packages.
"""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

import attrs

from sim.base.errors import UsageError
from sim.cli.render.channel import print_channel, print_channels
from sim.cli.render.chat import print_chat, print_speakers
from sim.cli.render.event_lines import print_events
from sim.cli.render.goal import print_agents, print_history, print_runtime, print_thread
from sim.cli.render.prompts import prompts_of, repeated_rows
from sim.cli.render.rows import print_list, print_query, print_view
from sim.cli.render.table import print_table
from sim.cli.render.transcript import print_transcript, print_transcripts
from sim.cli.rights_options import REPLAY_RIGHTS
from sim.kernel.codec import Json
from sim.record import StoredRun
from sim.record.schema import TABLES
from sim.record.views import VIEWS, described

if TYPE_CHECKING:
    from sim.runner.moments import RunPosition
    from sim.tools.rights import Rights


@attrs.frozen(kw_only=True)
class PageRequest:
    """What `sim show` was asked for.

    Attributes:
        stored: the run.
        view: the name of the page or table.
        name: what of it to show; None: the list of what can be named.
        agent, topic, last, prompts, again, at: the options of these names, `again` for `--repeat`.
        limit: the most lines; None: all.
        limited: whether the user gave the limit.
        rights: what a replay may use.
        as_json: whether to print one JSON object.
    """

    stored: StoredRun
    view: str
    name: str | None
    agent: str | None
    topic: str | None
    last: int | None
    prompts: bool
    again: bool
    at: str | None
    limit: int | None
    limited: bool
    rights: "Rights"
    as_json: bool


@attrs.frozen(kw_only=True)
class Page:
    """A way to look at a run.

    Attributes:
        help: what it shows, in one line.
        show: prints it.
        named: what its NAME is, as in `AGENT`; None: it has no NAME.
        options: the options of `sim show` that mean something for it.
        topics: patterns of the events that it is made from, as SQLite's GLOB reads them.
    """

    help: str
    show: Callable[[PageRequest], None]
    named: str | None = None
    options: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()


def _events(asked: PageRequest) -> None:
    print_events(
        asked.stored, agent=asked.agent, topic=asked.topic, first=asked.limit, last=asked.last, as_json=asked.as_json
    )


def _chat(asked: PageRequest) -> None:
    if asked.name is None:
        if asked.agent is not None or asked.prompts:
            raise UsageError("--agent and --prompts need to know whose chat it is", hint="add the name: chat AGENT")
        print_speakers(asked.stored, as_json=asked.as_json)
        return
    prompts = prompts_of(asked.stored, asked.rights) if asked.prompts else None
    limit = asked.limit if asked.limited else None  # by default, nothing that was said is left out
    print_chat(asked.stored, asked.name, asked.agent, limit, prompts, as_json=asked.as_json)


def _conversation(asked: PageRequest) -> None:
    if asked.name is None:
        print_transcripts(asked.stored, asked.limit, asked.as_json)
    else:
        print_transcript(asked.stored, asked.name, asked.limit, asked.as_json)


def _channel(asked: PageRequest) -> None:
    if asked.name is None:
        print_channels(asked.stored, asked.as_json)
    else:
        print_channel(asked.stored, asked.name, asked.limit, asked.as_json)


def _task(asked: PageRequest) -> None:
    from sim.cli.render.task import print_tasks, show_task  # the import is slow

    if asked.name is None:
        print_tasks(asked.stored, asked.limit, as_json=asked.as_json)
    else:
        show_task(asked.stored, asked.name, as_json=asked.as_json)


def _workspace(asked: PageRequest) -> None:
    from sim.cli.render.story import show_files  # the import is slow

    show_files(asked.stored, asked.name, as_json=asked.as_json)


def _thread(asked: PageRequest) -> None:
    if asked.name is None:
        print_agents(asked.stored, as_json=asked.as_json)
    else:
        print_thread(asked.stored, asked.name, asked.limit, asked.as_json)


def _history(asked: PageRequest) -> None:
    if asked.name is None:
        print_agents(asked.stored, as_json=asked.as_json)
    else:
        print_history(asked.stored, asked.name, asked.limit, asked.as_json)


def _runtime(asked: PageRequest) -> None:
    if asked.name is None:
        print_agents(asked.stored, as_json=asked.as_json)
    else:
        print_runtime(asked.stored, asked.name, asked.as_json)


def _state(asked: PageRequest) -> None:
    from sim.cli.render.moment import print_moment  # the import is slow

    print_moment(asked.stored, _place(asked), asked.name, _replayed(asked), asked.limit, as_json=asked.as_json)


def _place(asked: PageRequest) -> "RunPosition":
    """Return the place that `--at` names: a time, or an event."""
    from sim.runner.edited import EVENT_IDS  # the import is slow
    from sim.runner.moments import place_of

    what, _, number = (asked.at or "").partition(":")
    if what != "event":
        return place_of(asked.stored, asked.at, None)
    if not number.isdecimal():
        raise UsageError(f"--at event:ID needs the id of an event, not {number!r:.60}", hint=EVENT_IDS)
    return place_of(asked.stored, None, int(number))


def _replayed(asked: PageRequest) -> dict[str, Json]:
    """Return the options of a replay that shows something: changed code is reported, and compared with the record."""
    return {"allow_change": True, **asked.rights.keywords}


_STEPS: Final = 20
"""The most steps that are shown if the user does not say how many."""


def _causes(asked: PageRequest) -> None:
    from sim.cli.render.causes import print_causes  # the import is slow

    limit = asked.limit if asked.limited else _STEPS
    print_causes(asked.stored, _event(asked), _replayed(asked), limit, as_json=asked.as_json)


def _influence(asked: PageRequest) -> None:
    from sim.cli.render.causes import print_influence  # the import is slow

    limit = asked.limit if asked.limited else _STEPS
    print_influence(asked.stored, _event(asked), _replayed(asked), limit, as_json=asked.as_json)


def _event(asked: PageRequest) -> int:
    from sim.runner.edited import EVENT_IDS  # the import is slow

    if asked.name is None or not asked.name.isdecimal():
        raise UsageError(f"{asked.view} needs the id of an event", hint=EVENT_IDS)
    return int(asked.name)


def _sql(asked: PageRequest) -> None:
    if asked.name is None:
        rows = [(name, ", ".join(asked.stored.columns(name))) for name in tables_of(asked.stored)]
        print_list(("table", "columns"), rows, as_json=asked.as_json)
    else:
        print_query(asked.stored, asked.name, asked.limit, as_json=asked.as_json)


_GOALS: Final = ("goals.created",)

PAGES: Final[Mapping[str, Page]] = {
    "events": Page(
        help="The events, one a line: of an agent (states, actions, messages), or of topics.",
        show=_events,
        options=("agent", "topic", "last", "limit"),
        topics=("*",),
    ),
    "chat": Page(
        help="What an agent or a person said and heard, in the order of time, whole.",
        show=_chat,
        named="AGENT",
        options=("agent", "prompts", "limit", *REPLAY_RIGHTS),
        topics=("message.sent", "conversation.message", "channel.post", "survey.answer"),
    ),
    "conversation": Page(
        help="A conversation as people read it.",
        show=_conversation,
        named="ID",
        options=("limit",),
        topics=("conversation.started",),
    ),
    "channel": Page(
        help="The posts of a channel.", show=_channel, named="CHANNEL", options=("limit",), topics=("channel.post",)
    ),
    "task": Page(
        help="A task: what it is, and its history; of executors, as a story.",
        show=_task,
        named="ID",
        options=("limit",),
        topics=("task.created", "execution.added"),
    ),
    "workspace": Page(
        help="The files of a project of executors.", show=_workspace, named="PROJECT", topics=("execution.file",)
    ),
    "thread": Page(
        help="What the person of a goal, task or user agent sees.",
        show=_thread,
        named="AGENT",
        options=("limit",),
        topics=_GOALS,
    ),
    "history": Page(
        help="What the model of a goal, task or user agent sees, entry by entry.",
        show=_history,
        named="AGENT",
        options=("limit",),
        topics=_GOALS,
    ),
    "runtime": Page(
        help="The runtime state, the tools and the runs of a goal, task or user agent.",
        show=_runtime,
        named="AGENT",
        topics=_GOALS,
    ),
    "state": Page(
        help="The state at one moment, from a replay: of all agents and what they share, or of one, whole.",
        show=_state,
        named="AGENT",
        options=("at", "limit", *REPLAY_RIGHTS),
        topics=("*",),
    ),
    "causes": Page(
        help="What led to an event, from a replay: steps, messages and the state that was read.",
        show=_causes,
        named="EVENT",
        options=("limit", *REPLAY_RIGHTS),
        topics=("*",),
    ),
    "influence": Page(
        help="What an event may have influenced, from a replay, and what differs without it.",
        show=_influence,
        named="EVENT",
        options=("limit", *REPLAY_RIGHTS),
        topics=("*",),
    ),
    "sql": Page(help="A SELECT over the tables.", show=_sql, named="QUERY", options=("limit",)),
}
"""What `sim show RUN VIEW` prints that is no table, by the name of the VIEW."""

_TABLE: Final = ("agent", "last", "limit")
_REPEATED: Final = ("again", *REPLAY_RIGHTS)  # of the table of prompts

OPTIONS: Final = tuple(
    dict.fromkeys((*(option for page in PAGES.values() for option in page.options), *_TABLE, *_REPEATED))
)
"""The options of `sim show` that mean something for some views only."""


def show(asked: PageRequest, options: Mapping[str, str]) -> None:
    """Print a page or a table of a run.

    Args:
        asked: what to print.
        options: the options that the user gave, by name, as they are written.

    Raises:
        UsageError: if there is no such view, or an option or a name means nothing for it.
    """
    page = PAGES.get(asked.view)
    if page is None and asked.view not in (tables := (*tables_of(asked.stored), *TABLES)):
        raise _unknown(asked.view, (*PAGES, *tables))
    _refuse(asked.view, page, options)
    if asked.name is not None and (page is None or page.named is None):
        hint = f"for what one agent did: {asked.view} --agent {asked.name[:40]}"
        raise UsageError(f"{asked.view} is shown whole, so it takes no name such as {asked.name[:40]!r}", hint=hint)
    if page is not None:
        page.show(asked)
        return
    repeated = repeated_rows(asked.stored, asked.view, asked.rights) if asked.again else None
    print_view(
        asked.stored, asked.view, repeated, agent=asked.agent, first=asked.limit, last=asked.last, as_json=asked.as_json
    )


def _refuse(view: str, page: Page | None, options: Mapping[str, str]) -> None:
    meant = page.options if page is not None else (*_TABLE, *(_REPEATED if view == "prompts" else ()))
    for name, option in options.items():
        if name not in meant:
            raise UsageError(f"{option} means nothing for {view}", hint=f"it is for {users_of(name)}")


def users_of(option: str) -> str:
    """Return for which views an option of `sim show` means something, in words."""
    names = [name for name, page in PAGES.items() if option in page.options]
    if option in _TABLE:
        names.append("tables")
    elif option in _REPEATED:
        names.append("prompts")
    return ", ".join(names)


def _unknown(view: str, views: tuple[str, ...]) -> UsageError:
    near = get_close_matches(view, views, 1)
    hint = f"did you mean {near[0]}?" if near else "`sim show RUN` lists what there is; `sim show --help` lists all"
    return UsageError(f"a run has no view {view[:60]!r}", hint=hint)


def tables_of(stored: StoredRun) -> dict[str, str]:
    """Return what each table of a run has, in one line, by its name; those of packages too."""
    own = {name: sql.partition(" AS ")[2] for name, sql in stored.query(_DEFINED)}
    return described({**own, **VIEWS})


_DEFINED: Final = "SELECT name, sql FROM sqlite_master WHERE type = 'view' ORDER BY name"
_BY_TOPIC: Final = "SELECT topic, count(*) FROM events GROUP BY topic"
_TOPIC: Final = re.compile(r"\btopic\s*(?:=|GLOB)\s*'([^']+)'|\btopic\s+IN\s*\(([^)]*)\)")
_LITERAL: Final = re.compile(r"'([^']+)'")
_FROM: Final = re.compile(r"\b(?:FROM|JOIN)\s+([a-z_]+)")


def holdings(stored: StoredRun) -> dict[str, int]:
    """Return the number of events that each view of a run is made of, by its name. Views without events are left out.

    The events are counted once, by topic; a table is made of the events of the topics that its SELECT names. For one
    that reads other tables of the file, as `calls` does, the number is that of its rows.
    """
    topics = dict(stored.query(_BY_TOPIC))

    def count(patterns: Mapping[str, None]) -> int:
        return sum(many for topic, many in topics.items() if any(fnmatchcase(topic, one) for one in patterns))

    counts = {name: count(dict.fromkeys(page.topics)) for name, page in PAGES.items() if page.topics}
    selects = {**dict(stored.query(_DEFINED)), **VIEWS}
    for name in tables_of(stored):
        if name in PAGES:
            continue
        named = topics_of(name, selects)
        rows = f"SELECT count(*) FROM ({stored.select(name)})"  # noqa: S608 - SQL of a definition
        counts[name] = count(named) if named else stored.query(rows)[0][0]
    return {name: many for name, many in counts.items() if many}


def topics_of(view: str, selects: Mapping[str, str]) -> dict[str, None]:
    """Return the patterns of topics that a SELECT names, also those of the views that it reads.

    Args:
        view: the name of the view.
        selects: the SELECT of each view.
    """
    todo, seen, patterns = [view], {view}, dict[str, None]()
    while todo:
        select = selects[todo.pop()]
        for one, several in _TOPIC.findall(select):
            patterns |= dict.fromkeys([one] if one else _LITERAL.findall(several))
        for name in _FROM.findall(select):
            if name in selects and name != "events" and name not in seen:
                seen.add(name)
                todo.append(name)
    return patterns


def print_holdings(stored: StoredRun) -> None:
    """Print which views there are of a run, with the number of events that each is made of."""
    tables = tables_of(stored)
    rows = []
    for name, many in holdings(stored).items():
        page = PAGES.get(name)
        named = "" if page is None or page.named is None else f" [{page.named}]"
        rows.append((f"{name}{named}", many, tables.get(name, "") if page is None else page.help))
    print_table(("sim show RUN ...", "made of events", "what it shows"), rows, named=True)
