"""The recorders of the kernel: `HashRecorder` computes the hash of a run, `RunRecorder` also writes a run file.

The record is a log of events from which everything else is derived (event sourcing), with the rule of write-ahead logs
for what leaves the run: the intent to start an effect is on disk before the effect starts (Mohan and others, "ARIES",
1992). Events are only collected here, hundreds at a time; encoding them together takes less time than one by one, and
a thread of its own hashes and writes them, so that the run does not wait for the disk.

This has two prices. A process that is killed loses the events that it has collected since the latest commit; a replay
up to there (`sim resume`) produces equal ones, so only time is lost. And data that are not JSON are noticed when the
events are encoded, which can be later than the step that published them; where that would matter, they are encoded at
once (`freeze`).

A doubt: a program that can write the file can also compute its hashes again, so they show damage, but forgery only to
one who has kept the hash of the run elsewhere.

Not chosen: a file of JSON lines, which cannot be queried and tears at its end; a commit for each event, which makes the
disk the clock of the run; and a hash for each event (see `hashing`).
"""

from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from sim.base.errors import ActorError, RunError, SimError
from sim.events.event_type import EventData
from sim.kernel.codec import JsonObject, decode, encode
from sim.kernel.compiled import core
from sim.kernel.levels import Level
from sim.kernel.ports import Durable
from sim.kernel.rows import ClosedRow, EventRow, InputRow, IntentRow, ResultRow
from sim.record.contents import split
from sim.record.hashing import CHUNK, RunHash, Written, bad_row, encode_events, final_hash
from sim.record.reader import open_run
from sim.record.schema import Status
from sim.record.writer import Tables, Writer

_ROWS = 512  # events that are encoded together: few enough to stay in the CPU cache; a divisor of CHUNK


class _Buffer(ABC):
    """Collects and encodes events, and passes them on in chunks."""

    __slots__ = ("_batch", "_bodies", "_chunk", "_rows", "_sealed", "_taken")

    def __init__(self) -> None:
        self._rows: list[EventRow] = []
        self._bodies: list[bytes] = []  # encoded events of the present chunk
        self._batch = _ROWS  # number of rows that are encoded together
        self._taken = 0  # number of encoded events
        self._chunk = 0  # number of encoded events in the present chunk
        self._sealed: int | None = None  # after `seal`: the number of rows to keep

    @property
    def events(self) -> int:
        """The number of recorded events."""
        return self._taken + len(self._rows)

    def event(self, row: EventRow, /) -> None:
        """Record an event. The row and its data must not be changed afterwards.

        Raises:
            ActorError: if this call encodes the collected events and the data of one of them is not JSON.
        """
        rows = self._rows
        rows.append(row)
        if len(rows) >= self._batch:
            self._encode_batch()

    def seal(self) -> None:
        """Ignore all events from now on, because the present step is being interrupted."""
        if self._sealed is None:
            self._sealed = len(self._rows)

    def _encode_batch(self) -> None:
        """Encode the collected rows, and pass on the chunk if it is full."""
        self._encode()
        if self._chunk >= CHUNK:
            self._full()

    def latest(self, count: int) -> list[EventRow]:
        """Return up to `count` of the latest events for display, but none that are encoded already."""
        return self._rows[-count:] if count else []

    @abstractmethod
    def _full(self) -> None:
        """Process the present chunk, which is full or is flushed."""

    def _take(self) -> tuple[list[bytes], int]:
        """Remove and return the encoded events of the present chunk, as a list of bodies, and their number."""
        self._encode()
        taken = self._bodies, self._chunk
        self._bodies, self._chunk = [], 0
        return taken

    def _encode(self) -> None:
        """Encode the collected rows."""
        rows = self._rows
        if self._sealed is not None:
            del rows[self._sealed :]
            self._sealed = 0
        if not rows:
            return
        try:
            body = encode_events(rows)
        except ActorError:
            del rows[bad_row(rows)]  # the other rows are kept, and the error is raised once only
            raise
        self._bodies.append(body)
        self._taken += len(rows)
        self._chunk += len(rows)
        self._rows = []


if core is not None:
    core.take_over_rows(_Buffer, {"rows": vars(_Buffer)["_rows"], "batch": vars(_Buffer)["_batch"]})


class HashRecorder(_Buffer):
    """Counts and hashes the rows without a file, for use as a library and for tests.

    Args:
        keep: whether to keep the rows in `rows`, `inputs`, `intents`, `results` and `endings`.
        level: which of the events of the run it is given, for the hash.
    """

    def __init__(self, *, keep: bool = False, level: Level = "all") -> None:
        super().__init__()
        self._level = level
        self._hash = RunHash()
        self._keep = keep
        self.rows: list[EventRow] = []
        self.inputs: list[InputRow] = []
        self.intents: list[IntentRow] = []
        self.results: list[ResultRow] = []
        self.endings: list[ClosedRow] = []

    @property
    def lanes(self) -> tuple[str, ...]:
        """The hashes of the lanes over all flushed rows. `lane_of` gives the lane of an agent."""
        return self._hash.lanes

    def input(self, row: InputRow, /) -> None:
        """Record an input."""
        if self._keep:
            self.inputs.append(row)

    def intent(self, row: IntentRow, /) -> None:
        """Record the intent to start an effect."""
        self._hash.add_effect(*row[:4])
        if self._keep:
            self.intents.append(row)

    def result(self, row: ResultRow, /) -> None:
        """Record the outcome of an effect."""
        if self._keep:
            self.results.append(row)

    def closed(self, row: ClosedRow, /) -> None:
        """Record how an effect ended for its actor."""
        if self._keep:
            self.endings.append(row)

    def durable(self, done: Durable, /) -> None:
        """Call `done` immediately, because nothing is written to disk."""
        done(None)

    def flush(self) -> None:
        """Encode and hash the buffered events."""
        self._full()

    def finish(self, status: Status, digest: JsonObject, sim_ns: int, summary: JsonObject) -> str:
        """Return the hash of the run (64 hex digits). A `RunRecorder` would return the same."""
        self.flush()
        return final_hash(self._hash.lanes, digest, self._level)

    def close(self) -> None:
        """No-op: no file is open."""

    def _encode(self) -> None:
        rows = self._rows
        super()._encode()  # first: if it raises an error for a row, the other rows are encoded and kept later
        if self._keep:
            self.rows.extend(map(_plain, rows))

    def _full(self) -> None:
        bodies, count = self._take()
        self._hash.add_events(b",".join(bodies), count)


def _plain(row: EventRow) -> EventRow:
    """Return a row whose data are as a reader of the record has them, if they are of an event type."""
    return (*row[:7], decode(encode(row[7])), row[8]) if isinstance(row[7], EventData) else row


class RunRecorder(_Buffer):
    """Records a run into its run folder.

    Use it as a context manager, or call `finish` or `close`. A run that is closed without `finish` is `interrupted`.

    Args:
        folder: the run folder, from `create_run`.
        resumed: whether to continue a run that was recorded before. Nothing may be recorded before `continue_record`.
        take_over: whether to fence out another process that writes the run.
        level: which of the events of the run it is given, for the hash.

    Attributes:
        epoch: the number of processes that have written the run, with this one.

    Raises:
        RunError: if another process writes the run, it was recorded before, or it cannot be written. Each method
            raises a RunError if the writing thread has failed.
    """

    def __init__(self, folder: Path, *, resumed: bool = False, take_over: bool = False, level: Level = "all") -> None:
        super().__init__()
        self._level = level
        self.folder = folder
        self._writer = Writer(folder, resumed=resumed, take_over=take_over)
        self.epoch = self._writer.epoch

    def input(self, row: InputRow, /) -> None:
        """Record an input. It may run after the callback of `durable`."""
        time_ns, delta, kind, data = row
        self._writer.put(Tables.input, time_ns, delta, kind, encode(data))

    def intent(self, row: IntentRow, /) -> None:
        """Record the intent to start an effect. It may start after the callback of `durable`."""
        request = split(row.request)
        self._writer.add(Tables.intent, row, request, *self._take())

    def result(self, row: ResultRow, /) -> None:
        """Record the outcome of an effect. The actor may get it after the callback of `durable`."""
        self._writer.add(Tables.result, row, encode(row.value))

    def closed(self, row: ClosedRow, /) -> None:
        """Record how an effect ended for its actor."""
        self._writer.add(Tables.closed, *row)

    def continue_record(self, events: int) -> None:
        """Continue the record of a resumed run, which was replayed and contains `events` events."""
        self._taken = events
        self._writer.put(Tables.continue_record)

    def flush(self) -> None:
        """Pass the buffered events to the writer, so that readers see them soon."""
        self._full()
        self._writer.put(Tables.flush)

    def durable(self, done: Durable, /) -> None:
        """Call `done`, in the writing thread, when all intents, results and inputs so far are on disk.

        If `flush` was called before, the events so far are on disk too.
        """
        self._writer.submit(_nothing).add_done_callback(lambda future: done(future.exception()))  # type: ignore[arg-type]

    def finish(self, status: Status, digest: JsonObject, sim_ns: int, summary: JsonObject) -> str:
        """Write the end of the run, close the file, check it, and return the hash of the run (64 hex digits).

        Args:
            status: how it ended.
            digest: the final state: agents, artifacts, ledger, resources and fingerprints of random streams, as JSON.
                It is part of the hash.
            sim_ns: simulated time at the end, in nanoseconds.
            summary: figures for display, as JSON. They are not part of the hash.

        Raises:
            RunError: if the file on disk does not match what was recorded.
        """
        try:
            self._full()
            encode((dict(digest), dict(summary)))  # raises here if they are not JSON, so that the file is not blamed
            hash, written = self._writer.submit(Tables.finish, status, digest, sim_ns, summary, self._level).result()
        finally:
            self._writer.close()
        self._check(hash, written)
        return hash

    def _check(self, hash: str, written: Written) -> None:
        """Read and verify the file, to detect lost writes.

        The bytes of the events are compared by their hash with those that were written, so the lanes, which take ten
        times as long, need not be computed a second time.
        """
        try:
            with open_run(self.folder, verify=False) as run:
                run.check(written=written)
                if run.info.hash == hash and run.info.lost is None:
                    return
                mismatch = run.info.lost or f"it has hash {run.info.hash}"
        except SimError as error:
            mismatch = str(error)
        raise RunError(
            f"the run ended with hash {hash}, but its record on disk does not match: {mismatch}",
            hint="check for another program that uses the folder, and for disk errors; then run the scenario again",
        )

    def close(self) -> None:
        """Write the buffered events and close the file. A second call, or a call after `finish`, is a no-op."""
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
        with suppress(SimError):  # the first error is the one that the caller must see
            self.close()

    def _full(self) -> None:
        self._writer.put(Tables.events, *self._take())


def _nothing(tables: Tables) -> None:
    """No-op job. Its position in the queue shows that all earlier jobs are done."""
