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
from sim.kernel.ports import IntentRow
from sim.store.contents import content_hash
from sim.store.files import (
    BUSY_SECONDS,
    DATABASE,
    LOG_FOLDED,
    LOG_IN_USE,
    failure,
    lock_folder,
    mark_log,
    wall_label,
)
from sim.store.hashing import CHUNK, RunHash, arrival_hash, final_hash, result_hash
from sim.store.schema import Status

T = TypeVar("T")
Done = Future[None]
_Job = tuple["Future[Any] | None", Callable[..., Any], tuple[Any, ...]]

_JOBS = 256
"""Jobs in the queue. More make a commit cheaper for each; one is up to a chunk of events, half a megabyte."""


class Tables:
    """The writing connection with the hashes that belong to it. Lives in the writer's thread alone."""

    def __init__(self, folder: Path, *, again: bool) -> None:
        self._folder = folder
        self._connection = sqlite3.connect(folder / DATABASE, isolation_level=None, timeout=BUSY_SECONDS)
        self._execute = self._connection.execute
        self._hash = RunHash()
        self._events = 0
        self._pending: list[bytes] = []
        self._pending_events = 0
        self._ended = again  # until it goes on, a run that is resumed stays as it was
        try:
            self._set_durable()
            self._epoch = self._claim(again)
            mark_log(folder, LOG_IN_USE)
            if again:
                self._catch_up()
        except Exception:
            self._connection.close()
            raise

    def _set_durable(self) -> None:
        journal = self._execute("PRAGMA journal_mode = WAL").fetchone()[0]
        self._execute("PRAGMA synchronous = FULL")
        synchronous = self._execute("PRAGMA synchronous").fetchone()[0]
        if (journal, synchronous) != ("wal", 2):
            raise RunError(
                f"{self._folder} cannot be written safely: journal {journal}, synchronous {synchronous}",
                hint="use a local disk",
            )

    def _claim(self, again: bool) -> int:
        self._execute("BEGIN IMMEDIATE")
        recorded = "EXISTS (SELECT 1 FROM chunks) OR EXISTS (SELECT 1 FROM effects)"
        status, epoch, used = self._execute(f"SELECT status, epoch, {recorded} FROM run").fetchone()  # noqa: S608 - constant
        if again and status == "finished":
            raise RunError(f"{self._folder} has finished: there is nothing to go on with", hint="branch from it")
        if not again and (status != "running" or used or epoch):
            raise RunError(
                f"{self._folder} was already recorded (status {status})", hint="start a new run, or resume it"
            )
        self._execute("UPDATE run SET epoch = ?", (epoch + 1,))
        self._execute("COMMIT")
        reach("resume.claimed") if again else None
        return int(epoch) + 1

    def _catch_up(self) -> None:
        """Bring the hashes to where the file ends."""
        for count, data in self._execute("SELECT count, CAST(data AS BLOB) FROM chunks ORDER BY id"):
            self._hash.add_events(data[1:-1])
            self._events += count
        for effect in self._execute("SELECT actor, ordinal, kind, request_hash FROM effects ORDER BY id"):
            self._hash.add_effect(*effect)

    def go_on(self) -> None:
        """A resumed run has caught up with its record: from here on it is written again."""
        self._ended = False
        self._execute(
            "UPDATE run SET status = 'running', ended_at = NULL, sim_ns = NULL, events = NULL, hash = NULL,"
            " digest = NULL, summary = NULL"
        )

    def begin(self) -> None:
        """Start a transaction, unless the run now belongs to another process."""
        self._execute("BEGIN IMMEDIATE")
        (epoch,) = self._execute("SELECT epoch FROM run").fetchone()
        if epoch != self._epoch:
            raise RunError(f"{self._folder} was taken over by another process (epoch {epoch}, not {self._epoch})")

    def commit(self) -> None:
        """Make everything since `begin` durable."""
        self._execute("COMMIT")

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
        self._execute(
            "INSERT INTO chunks (first_event, count, hash, data) VALUES (?, ?, ?, CAST(? AS TEXT))",
            (first, self._pending_events, self._hash.events, data),
        )
        self._pending.clear()
        self._pending_events = 0

    def input(self, time_ns: int, delta: int, kind: str, data: bytes) -> None:
        """Store one call from outside."""
        self._arrive(time_ns, delta, kind, data, None)

    def _arrive(self, time_ns: int, delta: int, kind: str, data: bytes, effect: int | None) -> None:
        self._execute(
            "INSERT INTO arrivals (time_ns, delta, kind, data, effect, hash) VALUES (?, ?, ?, CAST(? AS TEXT), ?, ?)",
            (time_ns, delta, kind, data, effect, arrival_hash(time_ns, delta, kind, data, effect)),
        )

    def intent(self, row: IntentRow, request: tuple[bytes, list[bytes]], bodies: list[bytes], count: int) -> None:
        """Store that an effect is about to start, with the count and the hash of the events before it."""
        self.events(bodies, count)
        actor, ordinal, kind, request_hash, _, latency, safety, time_ns = row
        skeleton, parts = request
        ids = encode([self._content(part) for part in parts])
        self._execute(
            "INSERT INTO effects (actor, ordinal, kind, request_hash, request, parts, latency, safety, time_ns,"
            " events_before, hash_before) VALUES (?, ?, ?, ?, CAST(? AS TEXT), CAST(? AS TEXT), ?, ?, ?, ?, ?)",
            (
                actor, ordinal, kind, request_hash, skeleton, ids, latency, safety, time_ns, self._events,
                self._hash.events,
            ),
        )  # fmt: skip
        self._hash.add_effect(actor, ordinal, kind, request_hash)

    def _content(self, part: bytes) -> int:
        """Store a part of a request, once, and return its id."""
        hash = content_hash(part)
        found = self._execute("SELECT id FROM contents WHERE hash = ?", (hash,)).fetchone()
        if found is None:
            sql = "INSERT INTO contents (hash, data) VALUES (?, CAST(? AS TEXT)) RETURNING id"
            found = self._execute(sql, (hash, part)).fetchone()
        return int(found[0])

    def result(
        self, actor: str, ordinal: int, outcome: str, value: bytes, attempts: int, stamp: tuple[int, int] | None
    ) -> None:
        """Store what came of an effect outside. The first result counts."""
        changed = self._execute(
            "UPDATE effects SET outcome = ?, result = CAST(? AS TEXT), attempts = ?, arrived = ?,"
            " result_hash = ?"
            " WHERE actor = ? AND ordinal = ? AND outcome IS NULL RETURNING id",
            (
                outcome,
                value,
                attempts,
                stamp is not None,
                result_hash(actor, ordinal, outcome, value, attempts, stamp is not None),
                actor,
                ordinal,
            ),
        ).fetchone()
        if changed is None:
            raise RunError(f"effect {ordinal} of {actor} has a result but no open intent")
        if stamp is not None:
            self._arrive(*stamp, "", b"null", changed[0])

    def closed(self, actor: str, ordinal: int, ending: str, time_ns: int, delta: int) -> None:
        """Store how an effect ended for its actor."""
        self._execute(
            "UPDATE effects SET ending = ?, ended_ns = ?, ended_delta = ? WHERE actor = ? AND ordinal = ?",
            (ending, time_ns, delta, actor, ordinal),
        )

    def finish(self, status: Status, digest: Mapping[str, Any], sim_ns: int, summary: Mapping[str, Any]) -> str:
        """Write the end of the run into the run row and return its hash."""
        self.flush()
        total = final_hash(self._hash.events, self._hash.effects, digest)
        self._execute(
            "UPDATE run SET status = ?, ended_at = ?, sim_ns = ?, events = ?, hash = ?,"
            " digest = CAST(? AS TEXT), summary = CAST(? AS TEXT)",
            (status, wall_label(), sim_ns, self._events, total, encode(dict(digest)), encode(dict(summary))),
        )
        self._ended = True
        reach("run.finishing")
        return total

    def leave(self) -> None:
        """Store what is left of a run that nobody finished."""
        if not self._ended:
            self.flush()
            self._execute(
                "UPDATE run SET status = 'interrupted', ended_at = ?, events = ?",
                (wall_label(), self._events),
            )

    def close(self) -> None:
        """Fold the log into the file, so that `run.db` alone is the run, and close."""
        reach("run.finished")
        with suppress(sqlite3.Error):  # a reader keeps the log: SQLite folds it in later
            self._execute("PRAGMA busy_timeout = 0")
            busy = self._execute("PRAGMA wal_checkpoint(FULL)").fetchone()[0]
            if not busy and self._execute("SELECT epoch FROM run").fetchone() == (self._epoch,):
                mark_log(self._folder, LOG_FOLDED)  # before the log goes
            self._execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._execute("PRAGMA journal_mode = DELETE")
        self._connection.close()


class Writer:
    """Gives jobs for `Tables` to the thread that owns them. Not for use after a fork."""

    def __init__(self, folder: Path, *, again: bool = False, take_over: bool = False) -> None:
        """Open the run in `folder` for writing.

        Args:
            folder: of the run.
            again: go on with a run that was recorded before.
            take_over: do not wait for a process that has the run; it can write nothing more.

        Raises:
            RunError: if another process writes it, it was recorded before (or, again, has finished), or it cannot be
                written.
        """
        self._folder = folder
        self._again = again
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
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _run(self, opened: "Future[None]") -> None:
        try:
            tables = Tables(self._folder, again=self._again)
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
