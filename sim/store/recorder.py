"""What the kernel records through: `HashRecorder` keeps a hash, `RunRecorder` also a run file."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sim.errors import ActorError, RunError, SimError
from sim.kernel.codec import encode
from sim.kernel.ports import Durable
from sim.kernel.rows import ClosedRow, EventRow, InputRow, IntentRow, ResultRow
from sim.store.contents import split
from sim.store.hashing import CHUNK, RunHash, bad_row, encode_events, final_hash
from sim.store.reader import open_run
from sim.store.schema import Status
from sim.store.writer import Tables, Writer

_ROWS = 512  # events that are encoded at once: as many as stay in the cache until then; a divisor of CHUNK


class _Buffer(ABC):
    """Collects events, encodes them, and hands them on a chunk at a time."""

    __slots__ = ("_bodies", "_chunk", "_enough", "_rows", "_sealed", "_taken")

    def __init__(self) -> None:
        self._rows: list[EventRow] = []
        self._bodies: list[bytes] = []  # events that are encoded, and wait for their chunk to be full
        self._enough = _ROWS  # rows that are encoded at once
        self._taken = 0  # how many are encoded
        self._chunk = 0  # and of these, how many in the present chunk
        self._sealed: int | None = None  # how many of the rows are kept once the recorder is sealed

    @property
    def events(self) -> int:
        """How many events were recorded."""
        return self._taken + len(self._rows)

    def event(self, row: EventRow, /) -> None:
        """Record one event; neither the row nor anything in it may change afterwards.

        Raises:
            ActorError: when it is encoded, some events later, if it holds data that is not JSON-like.
        """
        rows = self._rows
        rows.append(row)
        if len(rows) >= self._enough:
            self._many()

    def seal(self) -> None:
        """Drop all events that are recorded from now on: the step under way is being interrupted."""
        if self._sealed is None:
            self._sealed = len(self._rows)

    def _many(self) -> None:
        """Encode what there is, since that is enough for once."""
        self._encode()
        if self._chunk >= CHUNK:
            self._full()

    def latest(self, count: int) -> list[EventRow]:
        """Return up to so many of the events that were recorded last, for who looks on; of those encoded, none."""
        return self._rows[-count:] if count else []

    @abstractmethod
    def _full(self) -> None:
        """A chunk is full."""

    def _take(self) -> tuple[list[bytes], int]:
        """Return the encoded events that were buffered, some at a time, and their number."""
        self._encode()
        taken = self._bodies, self._chunk
        self._bodies, self._chunk = [], 0
        return taken

    def _encode(self) -> None:
        """Encode the rows that wait for it."""
        rows = self._rows
        if self._sealed is not None:
            del rows[self._sealed :]
            self._sealed = 0
        if not rows:
            return
        try:
            body = encode_events(rows)
        except ActorError:
            del rows[bad_row(rows)]  # so that the rest can still be kept, and the error is raised once
            raise
        self._bodies.append(body)
        self._taken += len(rows)
        self._chunk += len(rows)
        self._rows = []


class HashRecorder(_Buffer):
    """Counts and hashes, without a file: for use as a library, and for tests.

    Args:
        keep: also keep the rows in `rows`, `inputs`, `intents`, `results` and `endings`.
    """

    def __init__(self, *, keep: bool = False) -> None:
        super().__init__()
        self._hash = RunHash()
        self._keep = keep
        self.rows: list[EventRow] = []
        self.inputs: list[InputRow] = []
        self.intents: list[IntentRow] = []
        self.results: list[ResultRow] = []
        self.endings: list[ClosedRow] = []

    @property
    def lanes(self) -> tuple[str, ...]:
        """The hashes of the lanes, of all that was flushed; `lane_of` says which is an agent's."""
        return self._hash.lanes

    def input(self, row: InputRow, /) -> None:
        """Record a call from outside."""
        if self._keep:
            self.inputs.append(row)

    def intent(self, row: IntentRow, /) -> None:
        """Record that an effect is about to start."""
        self._hash.add_effect(*row[:4])
        if self._keep:
            self.intents.append(row)

    def result(self, row: ResultRow, /) -> None:
        """Record what came of an effect outside."""
        if self._keep:
            self.results.append(row)

    def closed(self, row: ClosedRow, /) -> None:
        """Record how an effect ended for its actor."""
        if self._keep:
            self.endings.append(row)

    def durable(self, done: Durable, /) -> None:
        """Nothing is kept, so nothing has to be waited for."""
        done(None)

    def flush(self) -> None:
        """Encode and hash what is buffered."""
        self._full()

    def finish(self, status: Status, digest: Mapping[str, Any], sim_ns: int, summary: Mapping[str, Any]) -> str:
        """Return the hash of the run (64 hex digits): the one a `RunRecorder` would return."""
        self.flush()
        return final_hash(self._hash.lanes, digest)

    def close(self) -> None:
        """Nothing is open."""

    def _encode(self) -> None:
        rows = self._rows
        super()._encode()  # first: if it refuses a row, the others are encoded, and kept, the next time
        if self._keep:
            self.rows.extend(rows)

    def _full(self) -> None:
        bodies, _ = self._take()
        for body in bodies:
            self._hash.add_events(body)


class RunRecorder(_Buffer):
    """Records a run into its folder.

    Use it as a context manager, or call `finish` or `close`. Closed without `finish`, a run is `interrupted`.

    Args:
        folder: what `create_run` returned.
        resumed: go on with a run that was recorded before; nothing may be recorded until `go_on`.
        take_over: fence out a process that has the run.

    Raises:
        RunError: if another process writes the run, it was recorded before, or it cannot be written. Every
        method raises a RunError of what went wrong in the writing thread before.
    """

    def __init__(self, folder: Path, *, resumed: bool = False, take_over: bool = False) -> None:
        super().__init__()
        self.folder = folder
        self._writer = Writer(folder, resumed=resumed, take_over=take_over)

    def input(self, row: InputRow, /) -> None:
        """Record a call from outside; it may run when `durable` has called."""
        time_ns, delta, kind, data = row
        self._writer.put(Tables.input, time_ns, delta, kind, encode(data))

    def intent(self, row: IntentRow, /) -> None:
        """Record that an effect is about to start; it may start when `durable` has called."""
        request = split(row.request)
        self._writer.put(Tables.intent, row, request, *self._take())

    def result(self, row: ResultRow, /) -> None:
        """Record what came of an effect outside; the actor may see it when `durable` has called."""
        actor, ordinal, outcome, value, attempts, stamp = row
        self._writer.put(Tables.result, actor, ordinal, outcome, encode(value), attempts, stamp)

    def closed(self, row: ClosedRow, /) -> None:
        """Record how an effect ended for its actor."""
        self._writer.put(Tables.closed, *row)

    def go_on(self, events: int) -> None:
        """A run that is recorded again has caught up with its record, which holds so many events."""
        self._taken = events
        self._writer.put(Tables.go_on)

    def flush(self) -> None:
        """Hand what is buffered to the writer, so that readers soon see it."""
        self._full()
        self._writer.put(Tables.flush)

    def durable(self, done: Durable, /) -> None:
        """Call `done`, in the writing thread, when all intents, results and inputs recorded so far are on disk.

        With a `flush` before, it covers the events too.
        """
        self._writer.submit(_nothing).add_done_callback(lambda future: done(future.exception()))  # type: ignore[arg-type]

    def finish(self, status: Status, digest: Mapping[str, Any], sim_ns: int, summary: Mapping[str, Any]) -> str:
        """Write the end of the run, close the file, check it, and return the hash of the run (64 hex digits).

        Args:
            status: how it ended.
            digest: final states, artifacts, ledger, resources and draw counters, as JSON; part of the hash.
            sim_ns: simulated time at the end, in nanoseconds.
            summary: figures for people, as JSON; not part of the hash.

        Raises:
            RunError: if what is on disk now is not what was recorded.
        """
        try:
            self._full()
            encode((dict(digest), dict(summary)))  # what is wrong with them is the caller's, not the file's
            hash = self._writer.submit(Tables.finish, status, digest, sim_ns, summary).result()
        finally:
            self._writer.close()
        self._check(hash)
        return hash

    def _check(self, hash: str) -> None:
        """Read the file once more: only what is found there has been kept. It takes a hundredth of the run's time."""
        try:
            with open_run(self.folder) as run:
                if run.info.hash == hash and run.info.lost is None:
                    return
                found = run.info.lost or f"it has hash {run.info.hash}"
        except SimError as error:
            found = str(error)
        raise RunError(
            f"the run ended with hash {hash}, but its record is not what was written: {found}",
            hint="look for a program that uses the folder, or for faults of the disk; then run the scenario again",
        )

    def close(self) -> None:
        """Write what was recorded and close the file. More than once, and after `finish`, is fine."""
        try:
            if self._rows or self._bodies:
                self._full()
        finally:
            self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
            return
        with suppress(SimError):  # what went wrong first is what the caller should see
            self.close()

    def _full(self) -> None:
        self._writer.put(Tables.events, *self._take())


def _nothing(tables: Tables) -> None:
    """Do nothing, but in the same order as everything else."""
