"""Edge: the thread that owns the only writing connection of a run.

Jobs come through a bounded queue, so that a producer that is faster than the disk waits. Many jobs share a commit. Each
transaction first checks the epoch in the row of the run. A process that was suspended and replaced by another one fails
this check (fencing). After an error, nothing is written any more and nothing is retried, because the hashes would not
match the file. The error is kept and raised at the next call.
"""

import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from sim.base.crashpoints import reach
from sim.base.errors import RunError, SimError
from sim.kernel.codec import JsonObject, encode
from sim.kernel.levels import Level
from sim.kernel.rows import IntentRow, ResultRow
from sim.record.audit_chain import AuditFile, hashes_in
from sim.record.contents import content_hash
from sim.record.files import BUSY_SECONDS, DATABASE, failure, lock_folder, recover, unlock, wall_label
from sim.record.hashing import CHUNK, RunHash, Written, arrival_hash, final_hash, result_hash
from sim.record.head import HEAD, Head, HeadFile, UnsafeEffect, read_head, read_unsafe
from sim.record.schema import Status
from sim.record.seal import FACTS, RUN_COLUMNS, Seal, commit_hash, run_row_hash

T = TypeVar("T")
_Job = tuple["Future[Any] | None", Callable[..., Any], tuple[Any, ...]]
_Added = tuple[Callable[..., None], tuple[Any, ...]]

_JOBS = 256
"""Maximum number of jobs in the queue. A larger number makes commits cheaper per job but takes more memory.

A job may hold a chunk of events, about half a megabyte.
"""

_CONTENTS: Final = 4096
"""Of how many parts of requests the ids are kept: conversations repeat theirs. After a failure nothing is written."""


class Tables:
    """The writing connection and the hashes of its rows. Only the writer's thread may use it."""

    def __init__(self, folder: Path, *, resumed: bool) -> None:
        self._folder = folder
        recover(folder / DATABASE)
        self._connection = sqlite3.connect(folder / DATABASE, isolation_level=None, timeout=BUSY_SECONDS)
        self._execute = self._connection.execute
        self._hash = RunHash()
        self._seal = Seal()
        self._events = 0
        self._effects = 0
        self._last_effect = 0  # the highest id of an effect
        self._pending: list[bytes] = []
        self._pending_events = 0
        self._contents: dict[str, int] = {}  # the ids of parts that were stored lately, by their hash
        self._unsafe: list[UnsafeEffect] = []  # unsafe effects of the present transaction
        self.ended = resumed  # the record of a resumed run is not changed before `continue_record`
        self._head: HeadFile | None = None
        self._audit: AuditFile | None = None
        self._audited: list[str] = []  # the hashes of the audit records that are on file when the run is opened
        try:
            self._set_durable()
            self._head = HeadFile(folder)
            self._identity = _identity(folder)
            self._open(resumed)
        except Exception:
            self._disconnect()
            raise

    def _set_durable(self) -> None:
        journal = self._execute("PRAGMA journal_mode = WAL").fetchone()[0]  # another program may have changed it
        self._execute("PRAGMA synchronous = FULL")
        synchronous = self._execute("PRAGMA synchronous").fetchone()[0]
        if (journal, synchronous) != ("wal", 2):
            raise RunError(
                f"{self._folder} cannot be written safely: SQLite uses journal mode {journal} and synchronous"
                f" {synchronous}, but it needs wal and 2",
                hint="use a local disk",
            )

    def _open(self, resumed: bool) -> None:
        """Claim the run for this process, and compute the hashes of the existing rows."""
        self._execute("BEGIN IMMEDIATE")
        recorded = "EXISTS (SELECT 1 FROM chunks) OR EXISTS (SELECT 1 FROM effects)"
        columns = f"uid, status, epoch, {recorded}"
        self._uid, status, epoch, used = self._execute(f"SELECT {columns} FROM run").fetchone()  # noqa: S608 - constant
        if resumed and status == "finished":
            raise RunError(f"{self._folder} has finished, so it cannot be resumed", hint="branch from it")
        if not resumed and (status != "running" or used or epoch):
            raise RunError(
                f"{self._folder} was already recorded (status {status})", hint="start a new run, or resume it"
            )
        self._catch_up()
        head = read_head(self._folder).head
        (number,) = self._execute("SELECT number FROM commits").fetchone()
        noted = 0 if head is None else head.commit
        self._audit = AuditFile(self._folder, self._audited, shortened=noted > number)
        self._audited = []
        self._number = max(number, noted)  # numbers of lost commits are not used again
        self._epoch = epoch + 1
        self._set_run(epoch=self._epoch)
        self.commit()
        reach("resume.claimed") if resumed else None

    def _catch_up(self) -> None:
        """Compute the hashes of the existing rows."""
        for count, data in self._execute("SELECT count, CAST(data AS BLOB) FROM chunks ORDER BY id"):
            self._hash.add_events(data[1:-1], count)
            self._events += count
            self._audited += hashes_in(data)
        for id, *effect in self._execute("SELECT id, actor, ordinal, kind, request_hash FROM effects ORDER BY id"):
            self._hash.add_effect(*effect)
            self._effects += 1
            self._last_effect = id
        unsafe, _ = read_unsafe(self._folder)
        # The ids of lost effects are not used again, because a decision of a person names an effect by its id.
        self._last_effect = max([self._last_effect, *(effect.id for effect in unsafe)])
        for kind, select in FACTS.items():
            for fact in self._execute(select):
                self._seal.add(kind, *fact)

    @property
    def epoch(self) -> int:
        """The epoch of this process."""
        return int(self._epoch)

    def _set_run(self, **values: Any) -> None:
        """Change columns of the row of the run, and update its hash."""
        names = ", ".join(
            f"{name} = {'CAST(? AS TEXT)' if isinstance(values[name], bytes) else '?'}" for name in values
        )
        self._execute(f"UPDATE run SET {names}", [*values.values()])  # noqa: S608 - constant names
        row = self._execute(f"SELECT {', '.join(RUN_COLUMNS)} FROM run").fetchone()  # noqa: S608 - constant
        self._run_hash = run_row_hash(row)

    def continue_record(self) -> None:
        """Reopen the record of a resumed run: it was replayed and continues live."""
        self.ended = False
        self._set_run(status="running", ended_at=None, sim_ns=None, events=None, hash=None, digest=None, summary=None)

    def begin(self) -> None:
        """Start a transaction.

        Raises:
            RunError: if another process has taken the run over, or its folder was removed or replaced.
        """
        if _identity(self._folder) != self._identity:
            raise RunError(
                f"{self._folder} was removed or replaced during the run: its record is lost from event"
                f" {self._events - self._pending_events + 1:,} on",
                hint="do not move a run folder before the run has ended, and run the scenario again",
            )
        self._execute("BEGIN IMMEDIATE")
        (epoch,) = self._execute("SELECT epoch FROM run").fetchone()
        if epoch != self._epoch:
            raise RunError(f"{self._folder} was taken over by another process (epoch {epoch}, not {self._epoch})")

    def commit(self) -> None:
        """Commit the transaction, then write the commit to `run.head`."""
        assert self._head is not None, "open"
        assert self._audit is not None, "open"
        self._number += 1
        mark = (self._number, self._seal.text, self._run_hash)
        whole = commit_hash(*mark)
        self._execute("UPDATE commits SET number = ?, seal = ?, run_hash = ?, hash = ?", (*mark, whole))
        self._execute("COMMIT")
        reach("writer.unnoted")
        self._audit.write()  # before the head: a database that has the commit of its head has all lines of `run.audit`
        if self._unsafe:
            self._head.note(self._unsafe)
            self._unsafe = []
        self._head.write(Head(self._uid, self._number, whole, self._effects, self._head.size))

    def rollback(self) -> None:
        """Roll back the transaction."""
        with suppress(sqlite3.Error):
            self._connection.rollback()

    def events(self, bodies: list[bytes], count: int) -> None:
        """Hash events, and store them when they fill a chunk. This may be late, because a replay reproduces events."""
        self._hash.add_events(b",".join(bodies), count)
        self._events += count
        self._pending += bodies
        self._pending_events += count
        if self._pending_events >= CHUNK:
            self.flush()

    def flush(self) -> None:
        """Store all pending events as a chunk, even if they do not fill it."""
        if not self._pending:
            return
        first = self._events - self._pending_events + 1
        self._pending[0] = b"[" + self._pending[0]
        self._pending[-1] += b"]"
        data = b",".join(self._pending)  # joined once, because a chunk is long
        fact = (first, self._pending_events, self._hash.stream)
        id = self._insert(
            "INSERT INTO chunks (first_event, count, hash, data) VALUES (?, ?, ?, CAST(? AS TEXT))", (*fact, data)
        )
        self._seal.add("chunk", id, *fact)
        if self._audit is not None:
            self._audit.add(hashes_in(data))
        self._pending.clear()
        self._pending_events = 0

    def _insert(self, sql: str, values: tuple[Any, ...]) -> int:
        """Insert a row and return its id."""
        id = self._execute(sql, values).lastrowid
        assert id is not None, "a row was inserted"
        return id

    def input(self, time_ns: int, delta: int, kind: str, data: bytes) -> None:
        """Store an input."""
        self._arrive(time_ns, delta, kind, data, None)

    def _arrive(self, time_ns: int, delta: int, kind: str, data: bytes, effect: int | None) -> None:
        hash = arrival_hash(time_ns, delta, kind, data, effect)
        sql = "INSERT INTO arrivals (time_ns, delta, kind, data, effect, hash) VALUES (?, ?, ?, CAST(? AS TEXT), ?, ?)"
        self._seal.add("arrival", self._insert(sql, (time_ns, delta, kind, data, effect, hash)), hash)

    def intent(self, row: IntentRow, request: tuple[bytes, list[bytes]], bodies: list[bytes], count: int) -> None:
        """Store the intent to start an effect, with the count and the hash of the events before it."""
        self.events(bodies, count)
        actor, ordinal, kind, request_hash, asked, latency, safety, time_ns = row
        skeleton, parts = request
        ids = encode([self._content(part) for part in parts])
        place = (latency, safety, time_ns, self._events, self._hash.stream)
        self._last_effect += 1
        id = self._insert(
            "INSERT INTO effects (id, actor, ordinal, kind, request_hash, request, parts, latency, safety, time_ns,"
            " events_before, hash_before) VALUES (?, ?, ?, ?, ?, CAST(? AS TEXT), CAST(? AS TEXT), ?, ?, ?, ?, ?)",
            (self._last_effect, actor, ordinal, kind, request_hash, skeleton, ids, *place),
        )
        self._hash.add_effect(actor, ordinal, kind, request_hash)
        fact = (id, actor, ordinal, kind, request_hash, *place)
        self._seal.add("intent", *fact)
        self._effects += 1
        if safety == "unsafe":
            self._unsafe.append(
                UnsafeEffect(
                    id=id,
                    actor=actor,
                    ordinal=ordinal,
                    kind=kind,
                    request_hash=request_hash,
                    time_ns=time_ns,
                    request=shortened(asked),
                )
            )

    def _content(self, part: bytes) -> int:
        """Store a part of a request, unless it is stored already, and return its id."""
        hash = content_hash(part)
        id = self._contents.get(hash)
        if id is None:
            row = self._execute("SELECT id FROM contents WHERE hash = ?", (hash,)).fetchone()
            if row is None:
                id = self._insert("INSERT INTO contents (hash, data) VALUES (?, CAST(? AS TEXT))", (hash, part))
                self._seal.add("content", id, hash)
            else:
                id = int(row[0])
            if len(self._contents) >= _CONTENTS:
                self._contents.clear()
            self._contents[hash] = id
        return id

    def result(self, row: ResultRow, value: bytes) -> None:
        """Store the outcome of an effect, with its encoded value.

        Raises:
            RunError: if the effect has an outcome already, or no intent.
        """
        actor, ordinal, outcome, _, attempts, stamp = row
        hash = result_hash(actor, ordinal, outcome, value, attempts, stamp is not None)
        changed = self._execute(
            "UPDATE effects SET outcome = ?, result = CAST(? AS TEXT), attempts = ?, arrived = ?, result_hash = ?"
            " WHERE actor = ? AND ordinal = ? AND outcome IS NULL",
            (outcome, value, attempts, stamp is not None, hash, actor, ordinal),
        )
        if not changed.rowcount:
            raise RunError(f"effect {ordinal} of {actor} got an outcome, but it has one already or was not started")
        self._seal.add("outcome", actor, ordinal, hash)
        if stamp is not None:
            sql = "SELECT id FROM effects WHERE actor = ? AND ordinal = ?"
            self._arrive(*stamp, "", b"null", self._execute(sql, (actor, ordinal)).fetchone()[0])

    def closed(self, actor: str, ordinal: int, ending: str, time_ns: int, delta: int) -> None:
        """Store how an effect ended for its actor."""
        self._execute(
            "UPDATE effects SET ending = ?, ended_ns = ?, ended_delta = ? WHERE actor = ? AND ordinal = ?",
            (ending, time_ns, delta, actor, ordinal),
        )
        self._seal.add("ending", actor, ordinal, ending, time_ns, delta)

    def finish(
        self, status: Status, digest: JsonObject, sim_ns: int, summary: JsonObject, level: Level
    ) -> tuple[str, Written]:
        """Write the end of the run into its row, and return the hash of the run, and those of its events."""
        self.flush()
        total = final_hash(self._hash.lanes, digest, level)
        self._set_run(
            status=status,
            ended_at=wall_label(),
            sim_ns=sim_ns,
            events=self._events,
            hash=total,
            digest=encode(dict(digest)),
            summary=encode(dict(summary)),
        )
        self.ended = True
        reach("run.finishing")
        return total, Written(self._hash.stream, self._hash.lanes)

    def leave(self) -> None:
        """Store the pending events of a run that was closed without `finish`, as interrupted."""
        self.flush()
        self._set_run(status="interrupted", ended_at=wall_label(), events=self._events)

    def close(self) -> None:
        """Checkpoint the log, so that `run.db` alone contains the run, and close the files."""
        reach("run.finished")
        with suppress(sqlite3.Error):  # an open reader prevents the checkpoint; SQLite does it later
            self._execute("PRAGMA busy_timeout = 0")
            self._execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._disconnect()

    def _disconnect(self) -> None:
        self._connection.close()
        for file in (self._head, self._audit):
            if file is not None:
                file.close()


def shortened(request: Any, most: int = 200) -> str:
    """Return a request as JSON text for display, cut off after `most` characters."""
    text = encode(request).decode()
    return text if len(text) <= most else text[:most] + "..."


def _each(
    tables: Tables, added: list[_Added], method: Callable[..., T] | None = None, args: tuple[Any, ...] = ()
) -> T | None:
    """Do the added jobs, then another one, and return what that returns."""
    for one, own in added:
        one(tables, *own)
    return None if method is None else method(tables, *args)


def _identity(folder: Path) -> tuple[tuple[int, int], ...]:
    """Return device and inode of the files of a run, which differ if the folder was replaced.

    Raises:
        RunError: if one is missing.
    """
    try:
        statuses = [(folder / name).stat() for name in (DATABASE, HEAD)]
    except OSError as error:
        raise RunError(
            f"{folder} was removed during the run: {error.filename} is missing",
            hint="do not move a run folder before the run has ended, and run the scenario again",
        ) from error
    return tuple((status.st_dev, status.st_ino) for status in statuses)


class _Process:
    """Stands for one process: to ask the system for its number takes longer than to add a job.

    Attributes:
        own: stands for this process.
    """

    own: ClassVar["_Process"]


def _begin_process() -> None:
    _Process.own = _Process()


_begin_process()
if hasattr(os, "register_at_fork"):  # where processes can be forked
    os.register_at_fork(after_in_child=_begin_process)


class Writer:
    """Passes jobs to the thread that owns the `Tables`. It cannot be used after a fork."""

    def __init__(self, folder: Path, *, resumed: bool = False, take_over: bool = False) -> None:
        """Open the run in `folder` for writing.

        Args:
            folder: the run folder.
            resumed: whether to continue a run that was recorded before.
            take_over: whether to take the run over from another process, which can then write nothing more.

        Raises:
            RunError: if another process writes it, or it cannot be written. Without `resumed`: if it was recorded
                before. With `resumed`: if it has finished.
        """
        self._folder = folder
        self._resumed = resumed
        self._process = _Process.own
        self._error: SimError | None = None
        self._error_raised = False
        self._closed = False
        self._queue: queue.Queue[_Job | None] = queue.Queue(_JOBS)
        self._added: list[_Added] = []  # jobs that are passed on with the next one
        self._passing = threading.Lock()  # answers of models on shards are recorded from another thread than events
        self._lock = lock_folder(folder, take_over=take_over)
        self.epoch = 0
        opened: Future[None] = Future()
        # A daemon thread, because a program that forgets to close the writer must be able to end.
        self._thread = threading.Thread(target=self._run, args=(opened,), name=f"sim-store {folder.name}", daemon=True)
        self._thread.start()
        try:
            opened.result()
        except BaseException:  # after Ctrl-C, the run is open, or will be
            self._end()
            raise

    def put(self, method: Callable[..., None], *args: Any) -> None:
        """Let the thread call `method(tables, *args)`. Blocks while the queue is full.

        Raises:
            RunError: if writing has failed before, the writer is closed, or this is a forked process.
        """
        self.check()
        with self._passing:
            self._pass_on()
            self._queue.put((None, method, args))

    def add(self, method: Callable[..., None], *args: Any) -> None:
        """Like `put`, but with the next `submit`, `put` or `close`, so that the thread wakes once for all such jobs.

        Raises:
            RunError: as `put`.
        """
        self.check()
        with self._passing:
            self._added.append((method, args))
            if len(self._added) >= _JOBS:
                self._pass_on()

    def _pass_on(self) -> None:
        """Pass on the added jobs; `_passing` is locked, so that all jobs keep their order."""
        if self._added:
            added, self._added = self._added, []
            self._queue.put((None, _each, (added,)))

    def submit(self, method: Callable[..., T], *args: Any) -> "Future[T]":
        """Like `put`. After the commit, the future gets the return value of the method; after a failure, the error."""
        self.check()
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # from now on the future cannot be cancelled
        with self._passing:
            added, self._added = self._added, []
            self._queue.put((future, _each, (added, method, args)))  # as one job: nothing of it is committed alone
        return future

    def check(self) -> None:
        """Raise the error of the thread, if there is one.

        Raises:
            RunError: also if the writer is closed, or this is a forked process.
        """
        if self._process is not _Process.own:
            raise RunError(f"{self._folder} was opened before a fork and cannot be written after it")
        if self._error is not None:
            self._error_raised = True
            raise self._error
        if self._closed:
            raise RunError(f"the record of {self._folder} is closed, so nothing can be recorded any more")

    def close(self) -> None:
        """Process the remaining jobs, close the files and end the thread. A second call is a no-op.

        Raises:
            RunError: if writing failed and no call has raised the error yet, or if this is a forked process.
        """
        if self._closed:
            return
        if self._process is not _Process.own:
            self.check()
        with self._passing:
            self._pass_on()
        self._end()
        if self._error is not None and not self._error_raised:
            self._error_raised = True
            raise self._error

    def _end(self) -> None:
        """Let the thread close the run, and wait for its end."""
        self._closed = True
        self._queue.put(None)
        self._thread.join()
        self._unlock()

    def _unlock(self) -> None:
        unlock(self._lock)
        self._lock = None

    def _run(self, opened: "Future[None]") -> None:
        try:
            tables = Tables(self._folder, resumed=self._resumed)
        except Exception as error:
            opened.set_exception(failure(self._folder / DATABASE, error))
            return
        self.epoch = tables.epoch
        opened.set_result(None)
        last = False
        while not last:
            batch, last = self._take()
            self._write(tables, batch)
        if not tables.ended:  # else there is nothing to write, and what writes nothing cannot fail
            self._write(tables, [(None, Tables.leave, ())])
        tables.close()

    def _take(self) -> tuple[list[_Job], bool]:
        """Wait for a job. Return it with all further jobs in the queue, and whether this is the last batch."""
        batch: list[_Job] = []
        job = self._queue.get()
        while job is not None:
            batch.append(job)
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True

    def _write(self, tables: Tables, batch: list[_Job]) -> None:
        results: list[Any] = []
        if self._error is None and batch:
            try:
                reach("writer.before")
                tables.begin()
                results = [method(tables, *args) for _, method, args in batch]
                reach("writer.written")
                tables.commit()
                reach("writer.committed")
            except Exception as error:  # any error, because the thread must continue to empty the queue
                tables.rollback()
                self._error = failure(self._folder / DATABASE, error)
        for position, (future, _, _) in enumerate(batch):
            if future is None:
                continue
            if self._error is not None:
                future.set_exception(self._error)
            else:
                future.set_result(results[position])
