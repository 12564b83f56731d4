"""The views of a run file, for queries with any SQLite client (3.38 or newer).

Events are stored in chunks as JSON text. The views extract them with the JSON functions of SQLite. A package that
publishes its own topics can add a view to `VIEWS`. A run file contains the views that are registered when the run
starts.
"""

import contextlib
import re
import sqlite3
from collections.abc import Mapping
from typing import Final

from sim.base.errors import UsageError
from sim.base.registry import Registry
from sim.base.words import VIEWS as OF_SIM
from sim.events.event_type import EventData
from sim.kernel.codec import json_kinds
from sim.record.schema import TABLES

NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
"""The names of views."""


def whole_text(value: str, path: str) -> str:
    """Return the SQL of a text in JSON: as `value ->> path`, which ends at the first NUL character, but whole.

    Args:
        value: the SQL of the JSON.
        path: the path of the text in it.
    """
    pieces = rf"replace(replace({value} -> '{path}', '\\', '\u005c'), '\u0000', '\",\"')".replace('\\"', '"')
    return rf"""CASE WHEN json_type({value}, '{path}') IS NOT 'text' OR instr({value} -> '{path}', '\u0000') = 0
        THEN {value} ->> '{path}'
        ELSE (SELECT group_concat(value, char(0)) FROM json_each('[' || {pieces} || ']')) END"""  # noqa: S608 - constants


_OWN: Final = {
    "events": """
        -- One row an event, in the order of the record: identity, actor, topic, data and cause.
        SELECT c.first_event + e.key AS id,
               json_extract(e.value, '$[0]') / 1e9 AS time,
               json_extract(e.value, '$[0]') AS time_ns,
               json_extract(e.value, '$[1]') AS delta,
               json_extract(e.value, '$[2]') AS priority,
               json_extract(e.value, '$[3]') AS source,
               json_extract(e.value, '$[4]') AS counter,
               json_extract(e.value, '$[5]') AS actor,
               json_extract(e.value, '$[6]') AS topic,
               e.value -> '$[7]' AS data,
               json_extract(e.value, '$[8][0]') AS cause_source,
               json_extract(e.value, '$[8][1]') AS cause_counter
        FROM chunks AS c, json_each(c.data) AS e
    """,
    "inputs": """
        -- One row a call from outside the run.
        SELECT id, time_ns / 1e9 AS time, time_ns, delta, kind, data FROM arrivals WHERE effect IS NULL
    """,
    "calls": """
        -- One row an effect, that is work outside the simulation: what it was, and how it ended.
        SELECT id, time_ns / 1e9 AS time, actor AS agent, ordinal, kind, latency, safety,
               CASE WHEN outcome IS NULL AND ending = 'abandoned' AND safety = 'unsafe' THEN 'unknown'
                    ELSE coalesce(outcome, (
                        SELECT 'decided: ' || (a.data ->> '$.decision') FROM arrivals AS a
                        WHERE a.kind = 'effect.decision' AND a.data ->> '$.decision' <> 'retry'
                          AND a.data ->> '$.actor' = actor AND a.data ->> '$.ordinal' = ordinal
                    ), ending, 'in flight') END AS outcome,
               ending, result, attempts, ended_ns / 1e9 AS ended, (ended_ns - time_ns) / 1e9 AS seconds
        FROM effects
    """,
    "samples": """
        -- One row a sampled value of a metric. Of two samples at one time, the later one counts: that of the end.
        SELECT sampled.id AS id, time, time_ns, s.key AS name, s.value AS value
        FROM (
            SELECT id, time, time_ns, data, lead(time_ns) OVER (ORDER BY id) AS following
            FROM events WHERE topic = 'metric.sample'
        ) AS sampled, json_each(sampled.data) AS s WHERE following IS NOT time_ns
    """,
    "variables": """
        -- One row a value that a state variable has from a sample on; `recording.state` names the variables.
        SELECT e.id AS id, e.time_ns / 1e9 AS time, e.time_ns AS time_ns,
               a.key AS agent, v.key AS name, a.value AS value
        FROM events AS e, json_each(e.data) AS v, json_each(v.value) AS a WHERE e.topic = 'state.sample'
    """,
    "conversations": f"""
        -- One row for each thing said: messages, conversations with people, channels, interviews.
        WITH people AS (
            SELECT data ->> '$.user' AS user, data ->> '$.links[0].platform_username' AS name, max(id)
            FROM events WHERE topic IN ('user.created', 'user.changed') GROUP BY 1
        ), places AS (
            SELECT data ->> '$.conversation' AS conversation, data ->> '$.user' AS user, min(id)
            FROM events WHERE topic = 'conversation.started' GROUP BY 1
        ), answering AS (
            SELECT data ->> '$.conversation' AS conversation, min(data ->> '$.author') AS agent
            FROM events WHERE topic = 'conversation.message' AND data ->> '$.role' = 'assistant'
            GROUP BY 1 HAVING count(DISTINCT data ->> '$.author') = 1
        ), titles AS (
            SELECT data ->> '$.author' AS title, min(actor) AS agent FROM events
            WHERE topic = 'channel.post'
              AND actor IN (SELECT data ->> '$.agent' FROM events WHERE topic = 'sop.cycle') GROUP BY 1
        ), marked AS (
            SELECT *, CASE topic WHEN 'conversation.message' THEN data ->> '$.author'
                                 WHEN 'channel.post' THEN data ->> '$.author' ELSE actor END AS who
            FROM events
            WHERE topic IN ('message.sent', 'conversation.message', 'channel.post', 'survey.answer', 'model.call')
        ), said AS (
            SELECT *, max(iif(topic = 'model.call', id, NULL)) OVER (PARTITION BY who, time_ns ORDER BY id) AS prompt
            FROM marked
        )
        SELECT id, time, time_ns, 'message' AS form,
               min(data ->> '$.sender', data ->> '$.to') || ' and ' || max(data ->> '$.sender', data ->> '$.to')
               AS conversation,
               data ->> '$.sender' AS speaker, data ->> '$.to' AS listener,
               data ->> '$.topic' AS topic, {whole_text("data", "$.data")} AS text, prompt, source, counter
        FROM said WHERE topic = 'message.sent'
        UNION ALL
        SELECT id, time, time_ns, 'conversation', data ->> '$.conversation',
               coalesce(people.name, data ->> '$.author'),
               iif(data ->> '$.role' = 'user', answering.agent, coalesce(hearer.name, places.user)),
               data ->> '$.role', {whole_text("data", "$.content")},
               iif(data ->> '$.role' = 'user', NULL, prompt), source, counter
        FROM said
        LEFT JOIN people ON people.user = data ->> '$.author'
        LEFT JOIN places ON places.conversation = data ->> '$.conversation'
        LEFT JOIN people AS hearer ON hearer.user = places.user
        LEFT JOIN answering ON answering.conversation = data ->> '$.conversation'
        WHERE topic = 'conversation.message' AND data ->> '$.role' IN ('user', 'assistant', 'error')
          AND coalesce(data ->> '$.audience', 'all') NOT IN ('model', 'none')
        UNION ALL
        SELECT id, time, time_ns, 'channel', data ->> '$.channel', coalesce(titles.agent, data ->> '$.author'), NULL,
               NULL, {whole_text("data", "$.text")}, prompt, source, counter
        FROM said LEFT JOIN titles ON titles.title = data ->> '$.author' WHERE topic = 'channel.post'
        UNION ALL
        SELECT id, time, time_ns, 'interview', 'survey ' || (data ->> '$.survey'), 'survey ' || (data ->> '$.survey'),
               data ->> '$.agent', 'question', {whole_text("data", "$.question")}, NULL, source, counter
        FROM said WHERE topic = 'survey.answer'
        UNION ALL
        SELECT id, time, time_ns, 'interview', 'survey ' || (data ->> '$.survey'), data ->> '$.agent',
               'survey ' || (data ->> '$.survey'), 'answer', {whole_text("data", "$.answer")}, NULL, source, counter
        FROM said WHERE topic = 'survey.answer' AND data ->> '$.answer' IS NOT NULL
        ORDER BY id
    """,  # noqa: S608 - constants
    "interventions": """
        -- One row an intervention that was applied or refused.
        SELECT id, time, time_ns,
               data ->> '$.name' AS name,
               data ->> '$.does' AS does,
               data ->> '$.agents' AS agents,
               data -> '$.set' AS "set",
               data ->> '$.topic' AS topic,
               data ->> '$.reason' AS refused
        FROM events WHERE topic IN ('intervention.applied', 'intervention.refused')
    """,
}
VIEWS: Final[Registry[str]] = Registry("views", OF_SIM)
"""SELECT statements by name of the view. The columns `data` and `arguments` are JSON text."""

VIEWS.update(_OWN)


def view_of(data: type[EventData], about: str, columns: Mapping[str, str] | None = None) -> str:
    """Return the SELECT of a view that has a row for each event of one type.

    Args:
        data: the event type.
        about: what a row is, in one line.
        columns: the SQL of each column, after the number and the time of the event. In it, `$key` stands for a part of
            the data: as JSON if it can be a list or an object, otherwise as a value. By default, there is a column for
            each field of the data.

    Raises:
        UsageError: if the data have no such part.
    """
    parts = json_kinds(data)

    def part(match: re.Match[str]) -> str:
        if match[1] not in parts:
            raise UsageError(f"the events {data.TOPIC} have no {match[1]!r}", hint=f"there are {', '.join(parts)}")
        return f"data {'->' if _STRUCTURED.search(str(parts[match[1]])) else '->>'} '$.{match[1]}'"

    chosen = {key: f"${key}" for key in parts} if columns is None else columns
    shown = "".join(f""",\n       {_PART.sub(part, sql)} AS "{name}\"""" for name, sql in chosen.items())
    condition = f"GLOB '{data.TOPIC}'" if data.TOPIC.endswith("*") else f"= '{data.TOPIC}'"
    return f"-- {about}\nSELECT id, time, time_ns{shown}\nFROM events WHERE topic {condition}"


_PART: Final = re.compile(r"\$(\w+)")
_STRUCTURED: Final = re.compile(r"Any|Raw|\b(?:list|dict|Mapping)\b")


def add_views(views: Mapping[str, str]) -> None:
    """Add views to the files of runs that start from now on.

    Args:
        views: the SELECT of each view, by its name. It can use the other views.

    Raises:
        UsageError: if a name is not a plain word, or belongs to another view or to a table; or a SELECT is not valid.
    """
    for name, select in views.items():
        if not NAME.fullmatch(name) or name.startswith("sqlite_"):
            raise UsageError(f"{name[:80]!r} is not the name of a view", hint="use small letters, digits and `_`")
        if name in TABLES or VIEWS.get(name, select) != select:
            raise UsageError(f"a run file already has something else of the name {name!r}")
    if not views.keys() - VIEWS.keys():
        return
    with contextlib.closing(sqlite3.connect(":memory:")) as trial:
        for table, columns in TABLES.items():
            trial.execute(f"CREATE TABLE {table} ({columns})")
        for name, select in {**VIEWS, **views}.items():
            try:
                trial.execute(f"CREATE VIEW {name} AS {select}")
                trial.execute(f"SELECT * FROM {name} LIMIT 0")  # noqa: S608 - the name is a plain word
            except sqlite3.Error as error:
                raise UsageError(f"the view {name!r} is not valid: {error}", hint="write one SELECT") from None
    VIEWS.update(views)


def described(views: Mapping[str, str] = VIEWS) -> dict[str, str]:
    """Return what each view has, in one line: the comment at the beginning of its SELECT; empty without one."""
    first = {name: select.strip().split("\n", 1)[0].strip() for name, select in views.items()}
    return {name: line.removeprefix("--").strip() if line.startswith("--") else "" for name, line in first.items()}
