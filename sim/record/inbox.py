"""Edge: the inbox of a run, in which people outside put what they ask of a run that is under way.

It is a database of its own beside the run file, so a person who writes never waits for the writer of the run, nor the
writer for a person. It has one row for each request. The process of the run reads new rows and answers them.

Whether a request was applied is decided by the record of the run alone, which has the key of the row: an answer here
is only for the person who asked. A process reads and answers only as long as no later process has claimed the inbox, by
its epoch, which is checked in the same transaction.
"""

import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

import attrs

from sim.base.errors import ActorError, RunError, UsageError
from sim.kernel.codec import encode
from sim.record.files import BUSY_SECONDS, failure, private_file, wall_label
from sim.record.reader import open_run

INBOX: Final = "inbox.db"

LARGEST: Final = 2**20
"""Maximum length in bytes of a request as JSON: it is kept in memory, in the record, and in each replay."""

MOST_WAITING: Final = 1000
"""Maximum number of requests that wait. A program that writes in a loop is refused before it fills the disk."""

MOST: Final = 100_000
"""Maximum number of requests to one run: a process keeps the keys of all of them, to apply none twice."""

Verb = Literal[
    "set", "publish", "tell", "approve", "answer", "answer_for", "pause", "pause_all", "resume", "resume_all", "stop",
    "stop_all",
]  # fmt: skip
"""What a person can ask: the methods of `Control` of these names."""

POLL: Final = 0.075
"""Real seconds between two looks into the inbox: too short to notice, and a look takes less than a thousandth of it."""

_LOOK: Final = 0.5  # real seconds between two looks whether the run is still under way

Outcome = Literal["done", "refused", "wrong"]
"""The outcome of a request: it was applied, refused inside the run, or could not be passed on to it (wrong usage)."""

_TABLES = (
    """CREATE TABLE IF NOT EXISTS requests (
        id INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,
        epoch INTEGER NOT NULL,
        kind TEXT NOT NULL,
        data TEXT NOT NULL,
        written_at TEXT NOT NULL,
        outcome TEXT CHECK (outcome IN ('done', 'refused', 'wrong')),
        time_ns INTEGER,
        reason TEXT,
        hint TEXT
    ) STRICT""",
    "CREATE TABLE IF NOT EXISTS reader (id INTEGER PRIMARY KEY CHECK (id = 1), epoch INTEGER NOT NULL) STRICT",
    "INSERT OR IGNORE INTO reader VALUES (1, 0)",
)


@attrs.frozen
class InboxAnswer:
    """The answer to a request.

    Attributes:
        outcome: whether it was applied; see `Outcome`.
        time_ns: when it was applied, in simulated nanoseconds; None if it was not passed on to the run.
        reason: why it was not done; None if it was.
        hint: what to do instead, or None.
    """

    outcome: Outcome
    time_ns: int | None = None
    reason: str | None = None
    hint: str | None = None


@attrs.frozen
class InboxRequest:
    """A row of the inbox.

    Attributes:
        id: its place in the order of the rows.
        key: its name in the record of the run, unique for all inboxes.
        kind: what is asked.
        data: with which arguments, as JSON text.
        answer: the answer that it has, or None.
    """

    id: int
    key: str
    kind: str
    data: bytes
    answer: InboxAnswer | None


class InboxFile:
    """A connection to the inbox of a run, in one thread. Close it, or use it as a context manager.

    Args:
        folder: the run folder.
        create: whether to create the inbox if it does not exist. Its file has mode 0600.

    Attributes:
        identity: which file it is. Another one of the same name has another identity.

    Raises:
        RunError: if it cannot be used.
    """

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        self._path = folder / INBOX
        try:
            if create and not self._path.exists():
                _create(self._path)
            self.identity = _identity(self._path)
            uri = f"{self._path.resolve().as_uri()}?mode=rw"
            self._connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_SECONDS)
        except (OSError, sqlite3.Error) as error:
            raise failure(self._path, error) from error
        try:
            with self._transaction() as execute:
                for statement in _TABLES:  # the one who created the file may have been killed before this
                    execute(statement)
            if self.replaced:  # before it was open
                raise _removed(self._path)
        except BaseException:
            self.close()
            raise

    @property
    def replaced(self) -> bool:
        """Whether the file was removed, or another one is in its place, so that no other process sees this one."""
        try:
            return _identity(self._path) != self.identity
        except OSError:
            return True

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection.execute
            except BaseException:
                self._connection.rollback()
                raise
            self._connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            raise failure(self._path, error) from error

    # -- for the person

    def put(self, epoch: int, kind: str, data: Any) -> str:
        """Add a request, durably, and return its key.

        Args:
            epoch: the epoch of the process that is asked. A later one takes the request over.
            kind: what is asked.
            data: with which arguments, as a JSON value.

        Raises:
            UsageError: if the data is not JSON or is too large.
            RunError: if too many requests wait, or the inbox cannot be written.
        """
        try:
            text = encode(data)
        except (ActorError, UnicodeError) as error:
            raise UsageError("the text has characters that are not Unicode", hint="write it in UTF-8") from error
        if len(text) > LARGEST:
            raise UsageError(f"a request can have {LARGEST:,} bytes, and this one has {len(text):,}")
        key = secrets.token_hex(8)
        with self._transaction() as execute:
            waiting, rows = execute("SELECT count(*) FILTER (WHERE outcome IS NULL), count(*) FROM requests").fetchone()
            if waiting >= MOST_WAITING:
                raise RunError(f"{waiting:,} requests wait already, the most that an inbox holds", hint="try it later")
            if rows >= MOST:
                raise RunError(f"this run has had {rows:,} requests, the most that an inbox holds")
            execute(
                "INSERT INTO requests (key, epoch, kind, data, written_at) VALUES (?, ?, ?, CAST(? AS TEXT), ?)",
                (key, epoch, kind, text, wall_label()),
            )
        return key

    def answer_to(self, key: str) -> InboxAnswer | None:
        """Return the answer to a request, or None if it has none yet.

        Raises:
            RunError: if the request is not in the inbox any more, or the inbox cannot be read.
        """
        try:
            sql = "SELECT outcome, time_ns, reason, hint FROM requests WHERE key = ?"
            row = self._connection.execute(sql, (key,)).fetchone()
        except sqlite3.Error as error:
            raise failure(self._path, error) from error
        if row is None or self.replaced:
            raise _removed(self._path)
        return _answer(*row)

    # -- for the process of the run

    def take(self, epoch: int, after: int) -> list[InboxRequest] | None:
        """Claim the inbox for a process, and return some of the requests after a row.

        Args:
            epoch: the epoch of the process.
            after: the id of a row.

        Returns:
            None if a later process has claimed the inbox, so that this one must not read it any more.
        """
        with self._transaction() as execute:
            (claimed,) = execute("SELECT epoch FROM reader").fetchone()
            if claimed > epoch:
                return None
            if claimed < epoch:  # a write costs a sync of the disk, so there is none in most calls
                execute("UPDATE reader SET epoch = ?", (epoch,))
            columns = "id, key, kind, CAST(data AS BLOB), outcome, time_ns, reason, hint"
            rows = execute(
                f"SELECT {columns} FROM requests WHERE id > ? AND epoch <= ? ORDER BY id LIMIT 256",  # noqa: S608 - constant
                (after, epoch),
            ).fetchall()
        return [InboxRequest(id, key, kind, data, _answer(*answer)) for id, key, kind, data, *answer in rows]

    def answer(self, epoch: int, key: str, answer: InboxAnswer) -> None:
        """Answer a request, unless a later process has claimed the inbox."""
        with self._transaction() as execute:
            execute(
                "UPDATE requests SET outcome = ?, time_ns = ?, reason = ?, hint = ?"
                " WHERE key = ? AND (SELECT epoch FROM reader) = ?",
                (*attrs.astuple(answer), key, epoch),
            )

    def close(self) -> None:
        """Close the connection. A second call is a no-op."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _create(path: Path) -> None:
    """Create an empty file for its owner alone, unless it exists.

    It gets its name once it is closed: a process that closes a file loses the locks that its other threads have on it.
    """
    draft = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    private_file(draft)
    try:
        with suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        draft.unlink()


def _identity(path: Path) -> tuple[int, int]:
    facts = path.stat()
    return facts.st_dev, facts.st_ino


def _removed(path: Path) -> RunError:
    return RunError(
        f"{path} was removed or replaced, and with it the request; the run may have taken it in before",
        hint="see whether it did with: sim show RUN inputs; otherwise ask again",
    )


def _answer(outcome: Outcome | None, time_ns: int | None, reason: str | None, hint: str | None) -> InboxAnswer | None:
    return None if outcome is None else InboxAnswer(outcome, time_ns, reason, hint)


def ask(folder: Path, verb: Verb, **arguments: Any) -> str:
    """Ask something of a run that is under way, and return the key of the request.

    Args:
        folder: the run folder.
        verb: what is asked.
        arguments: those of the method of `Control`.

    Raises:
        UsageError: if the run is not under way, or the arguments are not valid.
        RunError: if the inbox cannot be used, or is full.
    """
    epoch = _epoch_of(folder)
    with InboxFile(folder, create=True) as inbox:
        return inbox.put(epoch, verb, arguments)


def await_answer(folder: Path, key: str, seconds: float) -> InboxAnswer | None:
    """Wait until the run has answered a request.

    Args:
        folder: the run folder.
        key: the request.
        seconds: how long to wait at most, in real seconds.

    Returns:
        None if there was no answer in this time, or the run ended first.

    Raises:
        RunError: if the inbox, or the request in it, was removed, so that no answer can come.
    """
    limit = time.monotonic() + seconds
    looked = time.monotonic()
    with InboxFile(folder) as inbox:
        while (answer := inbox.answer_to(key)) is None and (now := time.monotonic()) < limit:
            if now - looked > _LOOK:
                looked = now
                if status_of(folder) != "running":
                    return inbox.answer_to(key)  # it may have been the last thing that the run did
            time.sleep(POLL / 2)
    return answer


def status_of(folder: Path) -> str:
    """Return the status of a run, `running` if it is under way."""
    with open_run(folder, verify=False) as stored:
        return stored.info.status


def paused_by_people(folder: Path) -> bool:
    """Return whether the run, or one of its agents, was paused from outside and not resumed."""
    paused: set[str] = set()
    with open_run(folder, verify=False) as stored:
        rows = stored.query(
            "SELECT iif(kind = 'person', data ->> '$.kind', kind),"
            " coalesce(data ->> '$.data.agent', data ->> '$.agent')"
            " FROM arrivals WHERE effect IS NULL ORDER BY id"
        )
    for verb, agent in rows:
        if verb in ("pause", "pause_all"):
            paused.add(agent or "")
        elif verb == "resume":
            paused.discard(agent)
        elif verb in ("resume_all", "stop_all"):
            paused.clear()
    return bool(paused)


def _epoch_of(folder: Path) -> int:
    with open_run(folder, verify=False) as stored:
        info = stored.info
    if info.status == "running":
        return info.epoch
    if info.status == "finished":
        raise UsageError(f"{folder} is not under way: it has finished", hint="sim branch makes a new run from it")
    hint = f"continue it first with: sim resume {folder}"
    raise UsageError(f"{folder} is not under way: it was {info.status}", hint=hint)
