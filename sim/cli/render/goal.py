"""Goals, tasks and user agents of a run: what people see, what models see, and how the agents stand."""

from typing import Any

import attrs
import click

from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.cli.render.output import plain, print_json, say
from sim.cli.render.rows import print_list
from sim.cli.render.table import print_table
from sim.cli.render.transcript import clock_of, print_transcript
from sim.kernel.codec import Json, decode
from sim.record import StoredRun

_AGENT = "SELECT agent, kind, user, parent, title, status, conversation FROM goal_agents WHERE agent = ?"
_ALL = "SELECT agent, kind, user, status, title FROM goal_agents LIMIT 100000"
_NAMES = "SELECT agent FROM goal_agents LIMIT 100000"
_HISTORY = "SELECT time_ns, session, role, type, tool, content FROM model_history WHERE agent = ? ORDER BY id"
_RUNS = 'SELECT "ending", count(*), sum(iterations), sum(tokens), sum(cost) FROM goal_runs WHERE agent = ? GROUP BY 1'
_STARTED = """
    SELECT time_ns, data FROM events
    WHERE topic = 'goals.run_started' AND data ->> '$.agent' = ? ORDER BY id DESC LIMIT 1
"""
_ENDED = "SELECT count(*) FROM goal_runs WHERE agent = ? AND job = ?"
_PENDING = "SELECT count(*) FROM thread_messages WHERE agent = ? AND NOT processed"
_HEALTH_FINDINGS = """
    SELECT data ->> '$.found', count(*) FROM events WHERE topic = 'goals.health' AND data ->> '$.agent' = ? GROUP BY 1
"""
_SHORT = 160  # characters of an entry in a line


@attrs.frozen
class _Shown:
    """An agent of the family, as the record has it at the end."""

    agent: str
    kind: str
    user: str
    parent: str | None
    title: str
    status: str | None
    conversation: str


def _find(stored: StoredRun, agent: str) -> _Shown:
    """Return an agent.

    Raises:
        UsageError: if it is no goal, task or user agent of the run.
    """
    rows = stored.query(_AGENT, (agent,))
    if rows:
        return _Shown(*rows[0])
    names = [row[0] for row in stored.query(_NAMES)]
    hint = did_you_mean(agent, names) or ("`sim show RUN thread` lists all" if names else "its scenario has none")
    raise UsageError(f"{agent[:80]!r} is no goal, task or user agent of the run", hint=hint)


def print_agents(stored: StoredRun, *, as_json: bool) -> None:
    """Print the goal, task and user agents of a run, one a line."""
    none = "the run has no goal, task or user agents: its scenario has no `goals`"
    print_list(("agent", "kind", "user", "status", "title"), stored.query(_ALL), as_json=as_json, none=none)


def print_thread(stored: StoredRun, agent: str, last: int | None, as_json: bool) -> None:
    """Print the thread of an agent: what its person sees.

    Args:
        stored: the run.
        agent: the name of the agent.
        last: the most messages, the latest; None: all.
        as_json: whether to print one JSON object.

    Raises:
        UsageError: if it is no goal, task or user agent of the run.
    """
    print_transcript(stored, _find(stored, agent).conversation, last, as_json)


def print_history(stored: StoredRun, agent: str, last: int | None, as_json: bool) -> None:
    """Print the history of an agent for its model, one entry a line. Entries of sessions that ended are marked.

    Args:
        stored: the run.
        agent: the name of the agent.
        last: the most entries, the latest; None: all.
        as_json: whether to print one JSON object.

    Raises:
        UsageError: if it is no goal, task or user agent of the run.
    """
    agent_row = _find(stored, agent)
    rows = stored.query(_HISTORY, (agent,))
    archived = {int(row[0]) for row in stored.query("SELECT session FROM sessions WHERE agent = ?", (agent,))}
    clock, columns = clock_of(stored), ("entry", "time", "session", "role", "type", "content")
    table = [
        (
            number,
            clock(time_ns),
            f"{session} (archived)" if session in archived else str(session),
            role,
            f"{type_} {tool}" if tool else type_,
            content,
        )
        for number, (time_ns, session, role, type_, tool, content) in enumerate(rows)
    ]
    shown = table[-last:] if last else table
    if as_json:
        entries = [dict(zip(columns, row, strict=True)) for row in shown]
        print_json({"agent": agent_row.agent, "total": len(table), "entries": entries})
        return
    short = [(*row[:-1], " ".join(str(row[-1]).split())[:_SHORT]) for row in shown]
    print_table(list(columns), short, exact=True)
    if len(shown) < len(table):
        say(f"sim: the latest {len(shown):,} of {len(table):,} entries shown; --limit 0 shows all")


def print_runtime(stored: StoredRun, agent: str, as_json: bool) -> None:
    """Print how an agent stands: its status, its execution lock, its tools, its runs, and what the monitor found.

    Args:
        stored: the run.
        agent: the name of the agent.
        as_json: whether to print one JSON object.

    Raises:
        UsageError: if it is no goal, task or user agent of the run.
    """
    fields = _runtime(stored, _find(stored, agent))
    if as_json:
        print_json(fields)
        return
    width = max(map(len, fields))
    for name, value in fields.items():
        click.echo(plain(f"{name:<{width}}  {_words(value)}"))


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_words(part)}" for key, part in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _runtime(stored: StoredRun, agent_row: _Shown) -> dict[str, Json]:
    """Return what is known of an agent at the end of the record."""
    agent, clock = agent_row.agent, clock_of(stored)
    started = stored.query(_STARTED, (agent,))
    state: dict[str, Json] = {"orchestrator_running": False}
    tools: list[str] = []
    if started:
        run = decode(started[0][1].encode())
        tools = run["tools"]
        if not stored.query(_ENDED, (agent, run["job"]))[0][0]:
            state = {
                "orchestrator_running": True,
                "orchestrator_started_at": clock(started[0][0]),
                "orchestrator_job_id": run["job"],
                "reason": run["reason"],
            }
    runs = stored.query(_RUNS, (agent,))
    return {
        **attrs.asdict(agent_row),
        "runtime_state": state,
        "tools": tools,
        "runs": {ending: count for ending, count, *_ in runs},
        "calls": sum(row[2] for row in runs),
        "tokens": sum(row[3] for row in runs),
        "cost": round(sum(row[4] for row in runs), 6),
        "unprocessed": stored.query(_PENDING, (agent,))[0][0],
        "health": dict(stored.query(_HEALTH_FINDINGS, (agent,))),
    }
