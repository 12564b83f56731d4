"""Edge: the database of a run, opened for reading only, and the limits of queries that users write.

This module uses the monotonic clock, for the time limit of a query.
"""

import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sim.base.errors import SimError, UsageError
from sim.kernel.codec import JsonObject
from sim.record.files import BUSY_SECONDS, CAUSES, failure

MOST_RESULT = 512 * 2**20
"""Bytes of the result of a query of a user: its texts and blobs, and 64 for each value. Python needs as many again."""

_OF_USERS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 2**27,  # bytes of a value: an event can have 100 MB, see `execution.max_data_bytes`
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 10**6,
    sqlite3.SQLITE_LIMIT_COLUMN: 200,
}
"""Limits of the queries of users."""

_VALUE = 64  # bytes that a value takes in Python at least, with its place in a row

_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_STEPS = 10_000  # SQLite instructions between two checks of the time limit, about 0.1 ms

Rows = list[tuple[Any, ...]]
Table = tuple[list[str], Rows]
"""The names of the columns, and the rows."""


class Database:
    """A read-only connection to a run file. The file is not trusted, because it may come from another person.

    Args:
        path: the file.
        seconds: the time limit of a query.
        immutable: whether the file does not change while it is open, so that SQLite neither needs nor creates a log.

    Raises:
        RunError: if it cannot be opened.
    """

    def __init__(self, path: Path, seconds: float, *, immutable: bool = False) -> None:
        self._path = path
        self._seconds = seconds
        self._deadline: float | None = None
        self._in_snapshot = False
        self._closed = False
        self._uri = f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if immutable else ''}"
        try:
            self._connection = sqlite3.connect(  # the garbage collector may close it, in any thread
                self._uri, uri=True, isolation_level=None, timeout=BUSY_SECONDS, check_same_thread=False
            )
            self._prepare()
        except sqlite3.Error as error:
            raise failure(path, error) from error

    def _prepare(self) -> None:
        connection = self._connection
        connection.text_factory = lambda raw: raw.decode(errors="replace")
        connection.execute("PRAGMA query_only = ON")
        connection.set_progress_handler(self._late, _STEPS)

    def pragma(self, name: str) -> int:
        """Return the value of a pragma that is a number. Allowed only before `seal`."""
        return int(self.rows(f"PRAGMA {name}")[0][0])

    def damaged_page(self) -> str | None:
        """Return what SQLite finds wrong with the pages and the indexes of the file; None if nothing is.

        An index that contradicts its table would hide rows from some queries, and not from others.
        """
        try:
            with closing(sqlite3.connect(self._uri, uri=True, timeout=BUSY_SECONDS)) as connection:
                connection.text_factory = lambda raw: raw.decode(errors="replace")
                connection.execute("PRAGMA trusted_schema = OFF")
                rows = connection.execute("PRAGMA integrity_check(1)").fetchall()
        except sqlite3.Error as error:
            raise failure(self._path, error) from error
        problem = " ".join(str(rows[0][0]).split()) if rows else "it cannot be checked"
        return None if problem == "ok" else problem

    def seal(self) -> None:
        """Refuse all statements but SELECT from now on, including ATTACH and PRAGMA."""
        self.rows("SELECT 1 FROM json_each('[]'), json_tree('[]')")  # the first use declares a table, refused below
        self._connection.set_authorizer(self._authorize)

    def _authorize(self, action: int, *_: object) -> int:
        allowed = action in _READING or (action == sqlite3.SQLITE_TRANSACTION and self._in_snapshot)
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read the same state of the file in all queries of the block, even if a writer changes it meanwhile."""
        self._in_snapshot = True
        try:
            self.rows("BEGIN")
            try:
                yield
            finally:
                self.rows("COMMIT")
        finally:
            self._in_snapshot = False

    def rows(self, sql: str, parameters: Sequence[Any] | JsonObject = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a SELECT. There is a time limit, because the log grows during a long read."""
        return self._fetch(sql, parameters, lambda cursor: cursor.fetchall())[1]

    def table(self, sql: str, parameters: Sequence[Any] | JsonObject = ()) -> Table:
        """Return the names of the columns of a SELECT, and all rows, within the same time limit.

        Raises:
            UsageError: if it has no result, or one that is larger than `MOST_RESULT`.
        """
        if self._closed:  # SQLite refuses limits with an error of its own
            raise _was_closed()
        before = {limit: self._connection.setlimit(limit, most) for limit, most in _OF_USERS.items()}
        try:
            columns, rows = self._fetch(sql, parameters, _bounded)
        finally:
            for limit, most in before.items():
                self._connection.setlimit(limit, most)
        if columns is None:
            raise UsageError("the query has no result", hint="write a SELECT")
        return columns, rows

    def _fetch(
        self, sql: str, parameters: Sequence[Any] | JsonObject, fetch: Callable[[sqlite3.Cursor], Rows]
    ) -> tuple[list[str] | None, Rows]:
        self._deadline = time.monotonic() + self._seconds
        try:
            with closing(self._connection.execute(sql, parameters)) as cursor:
                columns = None if cursor.description is None else [column[0] for column in cursor.description]
                return columns, fetch(cursor)
        except sqlite3.Error as error:
            raise self._failure(error) from error
        except OverflowError as error:
            raise UsageError(f"a parameter of the query cannot be used: {error}", hint="SQLite has 64 bits") from error
        except MemoryError as error:
            raise UsageError("the query needs more memory than there is", hint=_LESS) from error
        finally:
            self._deadline = None

    def stream(self, sql: str) -> Generator[tuple[Any, ...]]:
        """Yield the rows of a SELECT without a time limit. Not for SQL of users."""
        try:
            yield from self._connection.execute(sql)
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def close(self) -> None:
        """Close the connection. A second call is a no-op."""
        self._closed = True
        self._connection.close()

    def _late(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def _failure(self, error: sqlite3.Error) -> SimError:
        if self._closed:
            return _was_closed()
        code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
        if code == sqlite3.SQLITE_AUTH:
            return UsageError("a run is read-only: only SELECT is allowed")
        if code == sqlite3.SQLITE_INTERRUPT:
            return UsageError(f"the query took longer than {self._seconds:g} s", hint="query fewer rows")
        if code == sqlite3.SQLITE_TOOBIG:
            return UsageError(f"the query, or a value in it, is too long: {error}", hint=_LESS)
        if code in CAUSES:
            return failure(self._path, error)
        return UsageError(f"the query is not valid: {error}")


def limit_memory() -> None:
    """Limit the memory of SQLite in this process, for a query of a user: a function can make values of any length.

    Do not call it in a program of others: the limit is for all databases, and cannot be raised again.
    """
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"PRAGMA hard_heap_limit = {2 * MOST_RESULT}")


_LESS = "select fewer rows or columns, or shorter parts of them"


def _was_closed() -> UsageError:
    return UsageError("this run was closed", hint="open it again")


def _bounded(cursor: sqlite3.Cursor) -> Rows:
    """Return all rows, if they are not too large together."""
    rows, size = [], 0
    for row in cursor:
        size += _VALUE * len(row) + sum(len(value) for value in row if value.__class__ in (str, bytes))
        if size > MOST_RESULT:
            raise UsageError(f"the result of the query has more than {MOST_RESULT:,} bytes", hint=_LESS)
        rows.append(row)
    return rows
