"""Compares the results of an experiment with those of its repetition: every value of every trial, and what people read.

The results may come from anybody, and from an older version of sim. So tables are read as they are, and no definition
in the file is trusted.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import attrs

from sim.base.errors import RunError
from sim.experiments.bench.files import PAGE as BENCH
from sim.experiments.folder import PAGE
from sim.experiments.page_notes import without_times
from sim.experiments.results import FILE, OF_ITS_OWN, read_connection
from sim.record.files import failure

_KEYS: Final = {"points": 2, "trials": 2, "outcomes": 3, "reached": 3}
"""The tables that are compared, and how many of their first columns say which row it is."""

_NOT_VALUES: Final = (*OF_ITS_OWN, "seal")  # a seal covers what two experiments do not have in common


def results_difference(before: Path, after: Path) -> str | None:
    """Return the first difference between two experiments in one sentence; None if there is none.

    Args:
        before: the folder of the experiment.
        after: the folder of its repetition.

    Raises:
        RunError: if the results of one cannot be read.
    """
    for table, keys in _KEYS.items():
        with _rows(before / FILE, table) as (columns, was), _rows(after / FILE, table) as (others, repeated):
            if columns != others:
                return f"the table {table} of {FILE} has the columns {', '.join(others)}, and had {', '.join(columns)}"
            difference = _first(_Table(table, columns, keys), was, repeated)
            if difference is not None:
                return difference
    if (before / BENCH).is_file():
        return None  # the page of a bench has the times of its runs, which are no values
    pages = [folder / PAGE for folder in (before, after)]
    if not all(page.is_file() for page in pages) or len({without_times(page.read_bytes()) for page in pages}) > 1:
        return f"the values are the same, but {PAGE} is another one"
    return None


@attrs.frozen
class _Table:
    """A table that is compared: its name, its columns, and how many of them say which row it is."""

    name: str
    columns: list[str]
    keys: int

    def where(self, row: tuple[Any, ...]) -> str:
        """Return which row it is."""
        return ", ".join(f"{name} {value!s:.60}" for name, value in zip(self.columns[: self.keys], row, strict=False))


def _first(table: _Table, was: Iterator[tuple[Any, ...]], repeated: Iterator[tuple[Any, ...]]) -> str | None:
    for one, other in zip_longest(was, repeated):
        if one is None or other is None or one[: table.keys] != other[: table.keys]:
            shown = one if other is None or (one is not None and one[: table.keys] < other[: table.keys]) else other
            there = "was not there" if shown is other else "is not there any more"
            return f"{table.name} of {FILE}: the row with {table.where(shown)} {there}"
        for name, value, again in zip(table.columns, one, other, strict=True):
            if value != again:
                return f"{table.name} of {FILE}: {name} of {table.where(one)} is {again!r:.100}, and was {value!r:.100}"
    return None


@contextlib.contextmanager
def _rows(path: Path, table: str) -> Iterator[tuple[list[str], Iterator[tuple[Any, ...]]]]:
    """Yield the columns of a table that are compared, and its rows in the order of their keys."""
    try:
        with contextlib.closing(read_connection(path)) as database:
            kinds = dict(database.execute("SELECT name, type FROM sqlite_schema"))
            if kinds.get(table) != "table":
                raise RunError(f"{path} has no table {table}")
            columns = [name for (name,) in database.execute("SELECT name FROM pragma_table_info(?)", (table,))]
            columns = [name for name in columns if name not in _NOT_VALUES]
            chosen = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
            order = ", ".join(str(number) for number in range(1, _KEYS[table] + 1))
            yield columns, database.execute(f"SELECT {chosen} FROM {table} ORDER BY {order}")  # noqa: S608 - quoted
    except sqlite3.Error as error:
        raise failure(path, error) from error
