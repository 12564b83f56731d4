"""The views of a run file, for queries with any SQLite client (3.38 or newer).

Events are stored in chunks as JSON text. The views extract them with the JSON functions of SQLite. A package that
publishes its own topics can add a view to `VIEWS` when it is imported. A run file contains the views that are
registered when the run starts.
"""

import contextlib
import re
import sqlite3
from collections.abc import Mapping
from typing import Final

from sim.errors import UsageError
from sim.store.schema import TABLES

NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
"""The names of views."""

VIEWS: dict[str, str] = {
    "events": """
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
    "transitions": """
        SELECT id, time, time_ns, actor AS agent,
               data ->> '$.from' AS from_state,
               data ->> '$.to' AS to_state,
               data ->> '$.reason' AS reason
        FROM events WHERE topic = 'agent.state'
    """,
    "actions": """
        SELECT id, time, time_ns, actor AS agent, substr(topic, 8) AS kind,
               data -> '$.arguments' AS arguments,
               data ->> '$.success' AS success,
               data ->> '$.result' AS result,
               data ->> '$.error' AS error,
               data ->> '$.reasoning' AS reasoning
        FROM events WHERE topic GLOB 'action.*'
    """,
    "messages": """
        SELECT id, time, time_ns,
               data ->> '$.sender' AS sender,
               data ->> '$.to' AS receiver,
               data ->> '$.topic' AS topic,
               data -> '$.data' AS data
        FROM events WHERE topic = 'message.sent'
    """,
    "inputs": """
        SELECT id, time_ns / 1e9 AS time, time_ns, delta, kind, data FROM arrivals WHERE effect IS NULL
    """,
    "calls": """
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
        SELECT events.id AS id, time, time_ns, s.key AS name, s.value AS value
        FROM events, json_each(events.data) AS s WHERE topic = 'metric.sample'
    """,
    "observations": """
        SELECT id, time, time_ns, actor,
               data ->> '$.name' AS name,
               data ->> '$.value' AS value
        FROM events WHERE topic = 'observation'
    """,
}
"""SELECT statements by name of the view. The columns `data` and `arguments` are JSON text."""


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
