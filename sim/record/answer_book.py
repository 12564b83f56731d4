"""Edge: answers of language models that several runs of an experiment share, so that each is asked for once.

A file of its own, beside the results of the experiment. Processes that want the same answer at the same time are
serialised by a lock of the operating system on one byte of a file beside it, which a killed process does not keep.
"""

import errno
import os
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import anyio
import attrs

from sim.base.errors import RunError
from sim.kernel.codec import decode, encode
from sim.record.files import BUSY_SECONDS, failure, private_file

if sys.platform != "win32":  # on Windows, two processes can ask for the same answer; one of both is kept
    import fcntl

ANSWERS: Final = "answers.db"

_TABLE: Final = "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, outcome BLOB NOT NULL) WITHOUT ROWID"
_POLL: Final = 0.05  # real seconds
_HELD: Final = (errno.EACCES, errno.EAGAIN)  # the errors by which a system says that another process has a lock


@attrs.define
class _Locks:
    """The locks of the answers of one file, for all books of this process.

    The operating system gives a lock to a process, not to a book, and takes all of them back as soon as the process
    closes the file once. So the books share one descriptor, and the places that are locked.
    """

    path: Path
    descriptor: int
    books: int = 0
    places: set[int] = attrs.field(factory=set)

    @classmethod
    def of(cls, path: Path) -> "_Locks":
        """Return the locks of a file, and count one more book.

        Raises:
            OSError: if the file cannot be opened.
        """
        path = path.resolve()
        with _GUARD:
            locks = _OPEN.get(path)
            if locks is None:
                locks = _OPEN[path] = cls(path, os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            locks.books += 1
            return locks

    def close(self) -> None:
        """Count one book less; after the last one, close the file."""
        with _GUARD:
            self.books -= 1
            if not self.books:
                del _OPEN[self.path]
                os.close(self.descriptor)

    def take(self, place: int) -> bool:
        """Lock a place, and return whether that was possible now.

        Raises:
            OSError: if the file cannot be locked at all.
        """
        with _GUARD:
            if place in self.places:
                return False
            if sys.platform != "win32":
                try:
                    fcntl.lockf(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                except OSError as error:
                    if error.errno in _HELD:
                        return False
                    raise
            self.places.add(place)
            return True

    def give_back(self, place: int) -> None:
        """Unlock a place."""
        with _GUARD:
            self.places.discard(place)
            if sys.platform != "win32":
                fcntl.lockf(self.descriptor, fcntl.LOCK_UN, 1, place)


_OPEN: Final[dict[Path, _Locks]] = {}
_GUARD: Final = threading.Lock()


class AnswerBook:
    """The answers of an experiment, for one process. Close it, or use it as a context manager.

    Args:
        path: the file; it is created for its owner alone if it does not exist.

    Raises:
        RunError: if it cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._locks: _Locks | None = None
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
            self._locks = _Locks.of(path.with_suffix(".lock"))
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
        kept = self._find(key)
        if kept is None:
            async with self._locked(key):
                kept = self._find(key)
                if kept is None:
                    value = await ask()
                    if keep(value):
                        self._put(key, value)
                    return value, False
        return kept, True

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
        """Keep others from asking for the same answer meanwhile."""
        locks, place = self._locks, int(key[:12], 16)
        assert locks is not None, "a closed book answers nothing"
        try:
            while True:
                if locks.take(place):
                    break
                await anyio.sleep(_POLL)
        except OSError as error:
            raise failure(locks.path, error) from error
        try:
            yield
        finally:
            locks.give_back(place)

    def close(self) -> None:
        """Close the file. A second call is a no-op."""
        self._database.close()
        locks, self._locks = self._locks, None
        if locks is not None:
            locks.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
