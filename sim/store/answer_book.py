"""Edge: answers of language models that several runs of an experiment share, so that each is asked for once.

A file of its own, beside the results of the experiment. Processes that want the same answer at the same time are
serialised by a lock of the operating system on one byte of the file, which a killed process does not keep.
"""

import os
import sqlite3
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import anyio

from sim.errors import RunError
from sim.kernel.codec import decode, encode
from sim.store.files import BUSY_SECONDS, failure, private_file

if sys.platform != "win32":  # on Windows, two processes can ask for the same answer; one of both is kept
    import fcntl

ANSWERS: Final = "answers.db"

_TABLE: Final = "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, outcome BLOB NOT NULL) WITHOUT ROWID"
_POLL: Final = 0.05  # real seconds


class AnswerBook:
    """The answers of an experiment, for one process. Close it, or use it as a context manager.

    Args:
        path: the file; it is created for its owner alone if it does not exist.

    Raises:
        RunError: if it cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._locks = -1
        try:
            if not path.exists():
                private_file(path)
        except FileExistsError:
            pass  # another process was faster
        except OSError as error:
            raise failure(path, error) from error
        try:
            self._database = sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS, check_same_thread=False)
        except sqlite3.Error as error:
            raise failure(path, error) from error
        try:
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            self._database.execute(_TABLE)
            self._locks = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except (sqlite3.Error, OSError) as error:
            self._database.close()
            raise failure(path, error) from error

    async def answer(
        self, key: str, ask: Callable[[], Awaitable[Any]], *, keep: Callable[[Any], bool]
    ) -> tuple[Any, bool]:
        """Return the kept value of a key; without one, ask for it, and keep it.

        Args:
            key: what identifies the answer (hex digits).
            ask: asks for the answer, which is a JSON value.
            keep: whether an answer is kept; a failure is not.

        Returns:
            The value, and whether it was there already.

        Raises:
            RunError: if the file cannot be used.
        """
        found = self._find(key)
        if found is None:
            async with self._locked(key):
                found = self._find(key)
                if found is None:
                    value = await ask()
                    if keep(value):
                        self._put(key, value)
                    return value, False
        return found, True

    def _find(self, key: str) -> Any:
        try:
            row = self._database.execute("SELECT outcome FROM answers WHERE key = ?", (key,)).fetchone()
            return None if row is None else decode(row[0])
        except (sqlite3.Error, ValueError) as error:
            raise RunError(f"{self._path} cannot be read: {error}") from error

    def _put(self, key: str, value: Any) -> None:
        try:
            self._database.execute("INSERT OR IGNORE INTO answers VALUES (?, ?)", (key, encode(value)))
        except sqlite3.Error as error:
            raise failure(self._path, error) from error

    @asynccontextmanager
    async def _locked(self, key: str) -> AsyncIterator[None]:
        """Keep other processes from asking for the same answer meanwhile."""
        if sys.platform == "win32":
            yield
            return
        place = int(key[:12], 16)
        while True:
            try:
                fcntl.lockf(self._locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                break
            except OSError:
                await anyio.sleep(_POLL)
        try:
            yield
        finally:
            fcntl.lockf(self._locks, fcntl.LOCK_UN, 1, place)

    def close(self) -> None:
        """Close the file. A second call is a no-op."""
        self._database.close()
        if self._locks >= 0:
            os.close(self._locks)
            self._locks = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
