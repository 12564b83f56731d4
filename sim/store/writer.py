"""Edge: the one thread that owns the one writing connection of a run.

Jobs come through a bounded queue, so a producer that is faster than the disk waits. Many jobs share a commit.
Each transaction first looks at the epoch in the run row: a process that was paused and replaced loses there
(fencing). An error ends all writing: the hashes would no longer match the file, so nothing is ever tried
again; the error is kept and raised at the next call.
"""

import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from sim.crashpoints import reach
from sim.errors import RunError, SimError
from sim.kernel.codec import encode
from sim.kernel.rows import IntentRow
from sim.store.contents import content_hash
from sim.store.files import BUSY_SECONDS, DATABASE, failure, lock_folder, recover, unlock, wall_label
from sim.store.hashing import CHUNK, RunHash, arrival_hash, final_hash, result_hash
from sim.store.head import HEAD, Head, HeadFile, UnsafeEffect, read_head, read_unsafe
from sim.store.schema import Status
from sim.store.seal import FACTS, RUN_COLUMNS, Seal, commit_hash, run_row_hash

T = TypeVar("T")
Done = Future[None]
_Job = tuple["Future[Any] | None", Callable[..., Any], tuple[Any, ...]]

_JOBS = 256
"""Jobs in the queue. More make a commit cheaper for each; one is up to a chunk of events, half a megabyte."""


class Tables:
    """The writing connection with the hashes that belong to it. Lives in the writer's thread alone."""

    def __init__(self, folder: Path, *, resumed: bool) -> None:
        self._folder = folder
        recover(folder / DATABASE)
        self._connection = sqlite3.connect(folder / DATABASE, isolation_level=None, timeout=BUSY_SECONDS)
        self._execute = self._connection.execute
        self._hash = RunHash()
        self._seal = Seal()
        self._events = 0
        self._effects = 0
        self._last_effect = 0  # id
        self._pending: list[bytes] = []
        self._pending_events = 0
        self._unsafe: list[UnsafeEffect] = []  # begun in the present transaction
        self._ended = resumed  # until it goes on, a run that is resumed stays as it was
        self._head: HeadFile | None = None
        try:
            self._set_durable()
            self._head = HeadFile(folder)
            self._identity = _identity(folder)
            self._open(resumed)
        except Exception:
            self._disconnect()
            raise

    def _set_durable(self) -> None:
        journal = self._execute("PRAGMA journal_mode = WAL").fetchone()[0]  # it is, unless another program changed it
        self._execute("PRAGMA synchronous = FULL")
        synchronous = self._execute("PRAGMA synchronous").fetchone()[0]
        if (journal, synchronous) != ("wal", 2):
            raise RunError(
                f"{self._folder} cannot be written safely: journal {journal}, synchronous {synchronous}",
                hint="use a local disk",
            )

    def _open(self, resumed: bool) -> None:
        """Claim the run for this process, and take up the hashes where the file ends."""
        self._execute("BEGIN IMMEDIATE")
        recorded = "EXISTS (SELECT 1 FROM chunks) OR EXISTS (SELECT 1 FROM effects)"
        columns = f"uid, status, epoch, {recorded}"
        self._uid, status, epoch, used = self._execute(f"SELECT {columns} FROM run").fetchone()  # noqa: S608 - constant
        if resumed and status == "finished":
            raise RunError(f"{self._folder} has finished: there is nothing to go on with", hint="branch from it")
        if not resumed and (status != "running" or used or epoch):
            raise RunError(
                f"{self._folder} was already recorded (status {status})", hint="start a new run, or resume it"
            )
        self._catch_up()
        head = read_head(self._folder).head
        (number,) = self._execute("SELECT number FROM commits").fetchone()
        self._number = max(number, 0 if head is None else head.commit)  # numbers of lost commits are not used again
        self._epoch = epoch + 1
        self._set_run(epoch=self._epoch)
        self.commit()
        reach("resume.claimed") if resumed else None

    def _catch_up(self) -> None:
        """Bring the hashes to where the file ends."""
        for count, data in self._execute("SELECT count, CAST(data AS BLOB) FROM chunks ORDER BY id"):
            self._hash.add_events(data[1:-1])
            self._events += count
        for id, *effect in self._execute("SELECT id, actor, ordinal, kind, request_hash FROM effects ORDER BY id"):
            self._hash.add_effect(*effect)
            self._effects += 1
            self._last_effect = id
        unsafe, _ = read_unsafe(self._folder)
        # A decision names an effect by its id, so the ids of lost effects are not used again.
        self._last_effect = max([self._last_effect, *(effect.id for effect in unsafe)])
        for kind, select in FACTS.items():
            for fact in self._execute(select):
                self._seal.add(kind, *fact)

    def _set_run(self, **values: Any) -> None:
        """Change columns of the row of the run, and its hash with them."""
        names = ", ".join(
            f"{name} = {'CAST(? AS TEXT)' if isinstance(values[name], bytes) else '?'}" for name in values
        )
        self._execute(f"UPDATE run SET {names}", [*values.values()])  # noqa: S608 - names of ours
        row = self._execute(f"SELECT {', '.join(RUN_COLUMNS)} FROM run").fetchone()  # noqa: S608 - constant
        self._run_hash = run_row_hash(row)

    def go_on(self) -> None:
        """A resumed run has caught up with its record: from here on it is written again."""
        self._ended = False
        self._set_run(status="running", ended_at=None, sim_ns=None, events=None, hash=None, digest=None, summary=None)

    def begin(self) -> None:
        """Start a transaction, unless the run now belongs to another process, or is not in its folder any more."""
        if _identity(self._folder) != self._identity:
            raise RunError(
                f"{self._folder} was removed or replaced while the run was under way: its record is lost from event"
                f" {self._events - self._pending_events + 1:,} on",
                hint="leave the folder of a run in its place until the run has ended, and run the scenario again",
            )
        self._execute("BEGIN IMMEDIATE")
        (epoch,) = self._execute("SELECT epoch FROM run").fetchone()
        if epoch != self._epoch:
            raise RunError(f"{self._folder} was taken over by another process (epoch {epoch}, not {self._epoch})")

    def commit(self) -> None:
        """Make everything since `begin` durable, and then known outside the database."""
        assert self._head is not None, "open"
        self._number += 1
        mark = (self._number, self._seal.text, self._run_hash)
        whole = commit_hash(*mark)
        self._execute("UPDATE commits SET number = ?, seal = ?, run_hash = ?, hash = ?", (*mark, whole))
        self._execute("COMMIT")
        reach("writer.unnoted")
        if self._unsafe:
            self._head.note(self._unsafe)
            self._unsafe = []
        self._head.write(Head(self._uid, self._number, whole, self._effects, self._head.size))

    def rollback(self) -> None:
        """Forget everything since `begin`."""
        with suppress(sqlite3.Error):
            self._connection.rollback()

    def events(self, bodies: list[bytes], count: int) -> None:
        """Hash events; store them once they fill a chunk: late is fine, running again makes them again."""
        for body in bodies:
            self._hash.add_events(body)
        self._events += count
        self._pending += bodies
        self._pending_events += count
        if self._pending_events >= CHUNK:
            self.flush()

    def flush(self) -> None:
        """Store the events that do not fill a chunk yet."""
        if not self._pending:
            return
        first = self._events - self._pending_events + 1
        self._pending[0] = b"[" + self._pending[0]
        self._pending[-1] += b"]"
        data = b",".join(self._pending)  # a chunk is long: it is put together once
        fact = (first, self._pending_events, self._hash.stream)
        id = self._insert(
            "INSERT INTO chunks (first_event, count, hash, data) VALUES (?, ?, ?, CAST(? AS TEXT))", *fact, data
        )
        self._seal.add("chunk", id, *fact)
        self._pending.clear()
        self._pending_events = 0

    def _insert(self, sql: str, *values: Any) -> int:
        """Insert a row and return its id."""
        id = self._execute(sql, values).lastrowid
        assert id is not None, "a row was inserted"
        return id

    def input(self, time_ns: int, delta: int, kind: str, data: bytes) -> None:
        """Store one call from outside."""
        self._arrive(time_ns, delta, kind, data, None)

    def _arrive(self, time_ns: int, delta: int, kind: str, data: bytes, effect: int | None) -> None:
        hash = arrival_hash(time_ns, delta, kind, data, effect)
        sql = "INSERT INTO arrivals (time_ns, delta, kind, data, effect, hash) VALUES (?, ?, ?, CAST(? AS TEXT), ?, ?)"
        self._seal.add("arrival", self._insert(sql, time_ns, delta, kind, data, effect, hash), hash)

    def intent(self, row: IntentRow, request: tuple[bytes, list[bytes]], bodies: list[bytes], count: int) -> None:
        """Store that an effect is about to start, with the count and the hash of the events before it."""
        self.events(bodies, count)
        actor, ordinal, kind, request_hash, asked, latency, safety, time_ns = row
        skeleton, parts = request
        ids = encode([self._content(part) for part in parts])
        place = (latency, safety, time_ns, self._events, self._hash.stream)
        self._last_effect += 1
        id = self._insert(
            "INSERT INTO effects (id, actor, ordinal, kind, request_hash, request, parts, latency, safety, time_ns,"
            " events_before, hash_before) VALUES (?, ?, ?, ?, ?, CAST(? AS TEXT), CAST(? AS TEXT), ?, ?, ?, ?, ?)",
            self._last_effect, actor, ordinal, kind, request_hash, skeleton, ids, *place,
        )  # fmt: skip
        self._hash.add_effect(actor, ordinal, kind, request_hash)
        self._seal.add("intent", id, actor, ordinal, kind, request_hash, *place)
        self._effects += 1
        if safety == "unsafe":
            self._unsafe.append(UnsafeEffect(id, actor, ordinal, kind, request_hash, time_ns, shortened(asked)))

    def _content(self, part: bytes) -> int:
        """Store a part of a request, once, and return its id."""
        hash = content_hash(part)
        found = self._execute("SELECT id FROM contents WHERE hash = ?", (hash,)).fetchone()
        if found is None:
            id = self._insert("INSERT INTO contents (hash, data) VALUES (?, CAST(? AS TEXT))", hash, part)
            self._seal.add("content", id, hash)
            return id
        return int(found[0])

    def result(
        self, actor: str, ordinal: int, outcome: str, value: bytes, attempts: int, stamp: tuple[int, int] | None
    ) -> None:
        """Store what came of an effect outside. The first result counts."""
        hash = result_hash(actor, ordinal, outcome, value, attempts, stamp is not None)
        changed = self._execute(
            "UPDATE effects SET outcome = ?, result = CAST(? AS TEXT), attempts = ?, arrived = ?,"
            " result_hash = ?"
            " WHERE actor = ? AND ordinal = ? AND outcome IS NULL RETURNING id",
            (outcome, value, attempts, stamp is not None, hash, actor, ordinal),
        ).fetchone()
        if changed is None:
            raise RunError(f"effect {ordinal} of {actor} has a result but no open intent")
        self._seal.add("outcome", actor, ordinal, hash)
        if stamp is not None:
            self._arrive(*stamp, "", b"null", changed[0])

    def closed(self, actor: str, ordinal: int, ending: str, time_ns: int, delta: int) -> None:
        """Store how an effect ended for its actor."""
        self._execute(
            "UPDATE effects SET ending = ?, ended_ns = ?, ended_delta = ? WHERE actor = ? AND ordinal = ?",
            (ending, time_ns, delta, actor, ordinal),
        )
        self._seal.add("ending", actor, ordinal, ending, time_ns, delta)

    def finish(self, status: Status, digest: Mapping[str, Any], sim_ns: int, summary: Mapping[str, Any]) -> str:
        """Write the end of the run into the run row and return its hash."""
        self.flush()
        total = final_hash(self._hash.lanes, digest)
        self._set_run(
            status=status, ended_at=wall_label(), sim_ns=sim_ns, events=self._events, hash=total,
            digest=encode(dict(digest)), summary=encode(dict(summary)),
        )  # fmt: skip
        self._ended = True
        reach("run.finishing")
        return total

    def leave(self) -> None:
        """Store what is left of a run that nobody finished."""
        if not self._ended:
            self.flush()
            self._set_run(status="interrupted", ended_at=wall_label(), events=self._events)

    def close(self) -> None:
        """Fold the log into the file, so that `run.db` alone is the run, and close."""
        reach("run.finished")
        with suppress(sqlite3.Error):  # a reader keeps the log: SQLite folds it in later
            self._execute("PRAGMA busy_timeout = 0")
            self._execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._disconnect()

    def _disconnect(self) -> None:
        self._connection.close()
        if self._head is not None:
            self._head.close()


def shortened(request: Any, most: int = 200) -> str:
    """Return a request as JSON text of at most about so many characters, for people."""
    text = encode(request).decode()
    return text if len(text) <= most else text[:most] + "..."


def _identity(folder: Path) -> tuple[tuple[int, int], ...]:
    """Return what tells the files of a run from others under the same names.

    Raises:
        RunError: if one is missing.
    """
    try:
        found = [(folder / name).stat() for name in (DATABASE, HEAD)]
    except OSError as error:
        raise RunError(
            f"{folder} was removed while the run was under way: {error.filename} is missing",
            hint="leave the folder of a run in its place until the run has ended, and run the scenario again",
        ) from error
    return tuple((status.st_dev, status.st_ino) for status in found)


class Writer:
    """Gives jobs for `Tables` to the thread that owns them. Not for use after a fork."""

    def __init__(self, folder: Path, *, resumed: bool = False, take_over: bool = False) -> None:
        """Open the run in `folder` for writing.

        Args:
            folder: of the run.
            resumed: go on with a run that was recorded before.
            take_over: do not wait for a process that has the run; it can write nothing more.

        Raises:
            RunError: if another process writes it, it was recorded before (or, resumed, has finished), or it cannot be
                written.
        """
        self._folder = folder
        self._resumed = resumed
        self._pid = os.getpid()
        self._error: SimError | None = None
        self._told = False
        self._closed = False
        self._queue: queue.Queue[_Job | None] = queue.Queue(_JOBS)
        self._lock = lock_folder(folder, take_over=take_over)
        opened: Future[None] = Future()
        # A daemon: a program that forgets to close must still be able to end.
        self._thread = threading.Thread(target=self._run, args=(opened,), name=f"sim-store {folder.name}", daemon=True)
        self._thread.start()
        try:
            opened.result()
        except BaseException:
            self._thread.join()
            self._unlock()
            raise

    def put(self, method: Callable[..., None], *args: Any) -> None:
        """Have the thread call `method(tables, *args)`; waits while the queue is full.

        Raises:
            RunError: if writing has failed before, the writer is closed, or this is a forked process.
        """
        self.check()
        self._queue.put((None, method, args))

    def submit(self, method: Callable[..., T], *args: Any) -> "Future[T]":
        """As `put`; the future gets what the method returned once that is committed, or the error."""
        self.check()
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # from here on nobody can cancel it: only stop waiting
        self._queue.put((future, method, args))
        return future

    def check(self) -> None:
        """Raise what went wrong in the thread, if anything did."""
        if os.getpid() != self._pid:
            raise RunError(f"{self._folder} was opened before a fork and cannot be written after it")
        if self._error is not None:
            self._told = True
            raise self._error
        if self._closed:
            raise RunError(f"{self._folder} is closed and takes nothing more")

    def close(self) -> None:
        """Write what was handed over, fold the log in and end the thread. More than once is fine.

        Raises:
            RunError: if writing failed and no call has said so yet, or this is a forked process.
        """
        if self._closed:
            return
        if os.getpid() != self._pid:
            self.check()
        self._closed = True
        self._queue.put((None, Tables.leave, ()))
        self._queue.put(None)
        self._thread.join()
        self._unlock()
        if self._error is not None and not self._told:
            self._told = True
            raise self._error

    def _unlock(self) -> None:
        unlock(self._lock)
        self._lock = None

    def _run(self, opened: "Future[None]") -> None:
        try:
            tables = Tables(self._folder, resumed=self._resumed)
        except Exception as error:
            opened.set_exception(failure(self._folder / DATABASE, error))
            return
        opened.set_result(None)
        last = False
        while not last:
            batch, last = self._take()
            self._write(tables, batch)
        tables.close()

    def _take(self) -> tuple[list[_Job], bool]:
        """Wait for a job and return it with all that wait behind it, and whether it is the last batch."""
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
            except Exception as error:  # whatever it is, the thread must live on to empty the queue
                tables.rollback()
                self._error = failure(self._folder / DATABASE, error)
        for position, (future, _, _) in enumerate(batch):
            if future is None:
                continue
            if self._error is not None:
                future.set_exception(self._error)
            else:
                future.set_result(results[position])
