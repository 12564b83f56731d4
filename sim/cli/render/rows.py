"""Rows of the tables of a run, and lists of what can be named, for `sim show`."""

from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.cli.render.output import print_json, say
from sim.cli.render.prompts import Rows
from sim.cli.render.table import print_rows, print_table
from sim.record import StoredRun
from sim.record.database import limit_memory
from sim.record.frames import json_rows


def print_view(
    stored: StoredRun,
    view: str,
    computed: Rows | None,
    *,
    agent: str | None,
    first: int | None,
    last: int | None,
    as_json: bool,
) -> None:
    """Print rows of a table.

    Args:
        stored: the run.
        view: the name of the table.
        computed: its rows, if they are known already.
        agent: only rows of this agent.
        first: the most rows from the beginning; None: all.
        last: the most rows from the end; overrides `first`.
        as_json: whether to print one JSON object.

    Raises:
        UsageError: if the table has no column of agents, or no row of this one.
    """
    columns = stored.columns(view)
    with closing(stored.stream(view) if computed is None else computed) as stream:
        chosen = stream if agent is None else _of_agent(stream, columns, view, agent)
        rows = list(islice(chosen, first) if last is None else deque(chosen, maxlen=last))
    _print(columns, rows, None, as_json, view=view)


def _of_agent(rows: Iterable[tuple[Any, ...]], columns: list[str], view: str, agent: str) -> Iterable[tuple[Any, ...]]:
    column = next((name for name in ("agent", "actor") if name in columns), None)
    if column is None:
        raise UsageError(f"--agent means nothing for {view}: it has no column `agent`", hint=", ".join(columns))
    place, others = columns.index(column), dict[str, None]()
    some = False
    for row in rows:
        if row[place] == agent:
            some = True
            yield row
        elif row[place] is not None:
            others[row[place]] = None
    if not some:
        raise UsageError(f"{view} has no row of an agent {agent[:80]!r}", hint=did_you_mean(agent, others))


def print_query(stored: StoredRun, sql: str, first: int | None, *, as_json: bool) -> None:
    """Print the result of a SELECT.

    Args:
        stored: the run.
        sql: the SELECT.
        first: the most rows; None: all.
        as_json: whether to print one JSON object.
    """
    limit_memory()
    columns, rows = stored.table(sql)
    _print(columns, rows[:first], len(rows), as_json)


def print_list(columns: Sequence[str], rows: Sequence[tuple[Any, ...]], *, as_json: bool, none: str = "") -> None:
    """Print what can be named, one thing a line.

    Args:
        columns: the headings.
        rows: the things.
        as_json: whether to print one JSON object.
        none: what to say if there are none.
    """
    if as_json:
        print_json({"columns": list(columns), "rows": rows})
    elif rows or not none:
        print_table(columns, rows, exact=True, named=True)
    else:
        say(f"sim: {none}")


def _print(
    columns: list[str], rows: Sequence[tuple[Any, ...]], count: int | None, as_json: bool, *, view: str | None = None
) -> None:
    if as_json:
        encoded = list(json_rows(columns, rows, mixed=view is None, view=view))
        print_json({"columns": columns, "rows": encoded})
        return
    print_rows(columns, rows)
    say_rest(len(rows), count)


def say_rest(shown: int, count: int | None) -> None:
    """Say how many rows are not shown, if that is known."""
    if count is not None and shown < count:
        say(f"sim: {shown:,} of {count:,} shown; --limit 0 shows all")
