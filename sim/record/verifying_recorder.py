"""A recorder that compares a replayed run with its record."""

from collections.abc import Callable
from itertools import islice
from typing import Any, Literal

from sim.base.errors import DivergenceError
from sim.kernel.codec import JsonObject, decode
from sim.kernel.duration import to_text
from sim.kernel.levels import level_of
from sim.kernel.ports import Durable, NullRecorder, Recorder
from sim.kernel.rows import ClosedRow, EventRow, InputRow, IntentRow, ResultRow
from sim.record.divergence_causes import ANY_CAUSE, usual_cause, value_cause
from sim.record.first_difference import FirstDifference, first_difference, first_value
from sim.record.hashing import CHUNK, RunHash, encode_events, final_hash
from sim.record.history import Intent, RunHistory
from sim.record.recorder import HashRecorder, RunRecorder
from sim.record.schema import Status

Part = Literal["events", "requests", "digest"]
"""The parts that can be compared: all events, the requests of effects, the state at the end."""

PARTS: frozenset[Part] = frozenset(("events", "requests", "digest"))

_RECORD, _NOW = "on record", "now"


class VerifyingRecorder:
    """Compares a run with its history, and passes new rows to another recorder.

    Args:
        history: the record.
        live: a function that is called when the replay is over, so that the run continues live.
        then: the recorder for the rows after the replay, used after the call of `proceed`; None records nothing.
        copy: whether to pass the replayed rows to `then` too, because it records a new run. A `HashRecorder` needs it.
        parts: the parts to compare.

    Attributes:
        compared: the number of events in the chunks that were found to be equal.

    Raises:
        DivergenceError: in every method, if the replay differs. The message names the first event or effect that does.
    """

    def __init__(
        self,
        history: RunHistory,
        live: Callable[[], None],
        then: RunRecorder | HashRecorder | None = None,
        *,
        copy: bool = False,
        parts: frozenset[Part] = PARTS,
    ) -> None:
        self.compared = 0
        self._history = history
        self._on_live = live
        self._then = then
        self._copy = copy
        self._out: Recorder = then if copy and then is not None else NullRecorder()  # the recorder to pass rows to
        self._parts = parts
        self._hash = RunHash()
        self._rows: list[EventRow] = []  # the events since the beginning of the present chunk
        self._hashed = 0  # how many of them are hashed
        self._open: set[tuple[str, int]] = set()  # effects whose ending is not on record; never iterated over
        self._closed: list[ClosedRow] = []
        self._live = False
        self._held: _HeldRecorder | None = None  # keeps new rows until `proceed`
        history.on_over = self._go_live
        self._wait = CHUNK if history.chunk is None else history.chunk.count
        history.start()

    @property
    def events(self) -> int:
        """The number of events so far, replayed and new."""
        if self._live and self._held is None and self._then is not None:
            return self._then.events
        return self.compared + len(self._rows)

    # -- calls of the kernel

    def event(self, row: EventRow, /) -> None:
        """Add an event to the present chunk, and compare the chunk when it is complete."""
        self._out.event(row)
        if self._live:
            return
        self._rows.append(row)
        if len(self._rows) >= self._wait:
            self._full()

    def intent(self, row: IntentRow, /) -> None:
        """Compare an effect and its request, and all events before it."""
        if not self._live:
            self._compare_intent(row)
            if not self._copy:
                return  # it is on record, even if the comparison has just ended the replay
        self._out.intent(row)

    def result(self, row: ResultRow, /) -> None:
        """Pass on the outcome of an effect, unless it is on record."""
        self._out.result(row)

    def input(self, row: InputRow, /) -> None:
        """Pass on an input, unless it is on record."""
        self._out.input(row)

    def closed(self, row: ClosedRow, /) -> None:
        """Pass on how an effect ended, and keep it if the record lacks it, as it may for the last effects."""
        self._out.closed(row)
        if self._live:
            return
        if row[:2] in self._open:
            self._closed.append(row)
        else:
            self._history.ending_made()

    def flush(self) -> None:
        """Flush the recorder that rows are passed to."""
        self._out.flush()

    def durable(self, done: Durable, /) -> None:
        """Ask the recorder that rows are passed to."""
        self._out.durable(done)

    def finish(self, status: Status, digest: JsonObject, sim_ns: int, summary: JsonObject) -> str:
        """Compare the end of the run, close the recorder, if any, and return the hash of the run (64 hex digits)."""
        if not self._live and status != "failed":
            self._compare_end(status, digest)
        if self._held is not None:
            if status != "finished":  # it waits for a person, or failed before `proceed`: the record stays unchanged
                self.close()
                return self._final(digest)
            self.proceed()
        if self._then is not None:
            self._history.run.close()  # an open reader would prevent the checkpoint of the write-ahead log
            return self._then.finish(status, digest, sim_ns, summary)
        self._feed()
        return self._final(digest)

    def _final(self, digest: JsonObject) -> str:
        return final_hash(self._hash.lanes, digest, level_of(self._history.run.info.options))

    def close(self) -> None:
        """Close the recorder, if any."""
        if self._then is not None:
            self._history.run.close()  # for the same reason as in `finish`
            self._then.close()

    def seal(self) -> None:
        """Ignore all events from now on."""
        if self._then is not None:
            self._then.seal()

    def proceed(self) -> None:
        """Record the new rows from here on. Called after the replay, when the run is about to continue live."""
        held, self._held = self._held, None
        self._rows, self._closed = [], []
        if held is not None and isinstance(self._then, RunRecorder):  # a `HashRecorder` only gets copies
            self._then.continue_record(self.compared)
            self._out = self._then
            held.hand_on(self._then)

    # -- events

    def _feed(self) -> None:
        """Hash the rows that have not been hashed yet."""
        rows = self._rows[self._hashed :]
        self._hash.add_events(encode_events(rows), len(rows))
        self._hashed = len(self._rows)

    def _full(self) -> None:
        self._feed()
        chunk = self._history.chunk
        if chunk is None:
            if "events" in self._parts and not self._history.partial:
                self._differ()
            self._wait += CHUNK
            return
        if self._hash.stream != chunk.hash and "events" in self._parts:
            self._differ()
        self.compared += chunk.count
        self._rows = []
        self._hashed = 0
        self._history.chunk_made()
        self._wait = CHUNK if self._history.chunk is None else self._history.chunk.count

    def _differ(self) -> None:
        """Raise an error that names the first event that differs."""
        difference = self._first_difference()
        if difference is None:
            raise DivergenceError("the events are equal, but their hash is not the one on record")
        raise _divergence(difference)

    def _first_difference(self) -> FirstDifference | None:
        chunk = self._history.chunk
        stored = [] if chunk is None else [tuple(row) for row in decode(chunk.data)]
        if chunk is not None and len(self._rows) < chunk.count:
            stored = stored[: len(self._rows)]  # the other events of this chunk have not been replayed yet
        return first_difference(stored, self._rows, self.compared + 1)

    # -- effects

    def _compare_intent(self, row: IntentRow) -> None:
        actor, ordinal, kind, request_hash, request, latency, safety, time_ns = row
        self._feed()
        there = self._history.intent
        name = f"effect {ordinal} of {actor} ({kind}) at {to_text(time_ns)}"
        if there is None:
            self.compare_so_far()
            raise DivergenceError(f"{name} starts now, but is not on record")
        now = (self.compared + len(self._rows), self._hash.stream)
        if (there.events_before, there.hash_before) != now and "events" in self._parts:
            self.compare_so_far()
            raise self._out_of_step(name, there)
        same = (there.actor, there.ordinal, there.kind, there.latency, there.safety, there.time_ns)
        if same != (actor, ordinal, kind, latency, safety, time_ns):
            raise DivergenceError(
                f"{name}, {latency} and {safety}, starts now, but effect {there.ordinal} of {there.actor}"
                f" ({there.kind}) at {to_text(there.time_ns)}, {there.latency} and {there.safety}, is on record"
            )
        if there.request_hash != request_hash and "requests" in self._parts:
            difference = first_value(self._history.run.request(actor, ordinal), request)
            where = ""
            if difference is not None:
                texts = " on record and ".join(difference.texts())
                where = f": it differs in {difference.path or 'its value'}, which is {texts} now"
            raise DivergenceError(f"{name} has a different request than on record{where}", hint=ANY_CAUSE)
        self._hash.add_effect(actor, ordinal, kind, request_hash)
        if not there.ended:
            self._open.add((actor, ordinal))
        self._history.intent_made()

    def _out_of_step(self, name: str, there: Intent) -> DivergenceError:
        """Return the error for an effect that has more or fewer events before it than on record."""
        chunk, made, kept = self._history.chunk, self.compared + len(self._rows), there.events_before
        if made < kept and chunk is not None:
            row: EventRow = tuple(decode(chunk.data)[len(self._rows)])
            difference = FirstDifference(made + 1, row, None)
        elif self.compared <= kept < made:
            difference = FirstDifference(kept + 1, None, self._rows[kept - self.compared])
        else:
            return DivergenceError(
                f"{name} comes after {made:,} events now, and effect {there.ordinal} of {there.actor} after {kept:,} on"
                " record"
            )
        return DivergenceError(f"{difference.sentence(_RECORD, _NOW)} before {name}", hint=ANY_CAUSE)

    def compare_so_far(self) -> None:
        """Compare the events of a chunk that is not complete, where the replay is within an instant."""
        difference = self._first_difference()
        if difference is not None:
            raise _divergence(difference)

    # -- the end of the history

    def _go_live(self) -> None:
        """End the comparison: the replay is over, and all further rows are new."""
        if self._history.cut:
            self.compare_until(self._history.until_ns)
        self._live = True
        self._on_live()
        if self._then is None or self._copy:
            return
        self._feed()
        self._held = self._out = _HeldRecorder(self._closed, self._rows)

    def compare_until(self, until: int) -> None:
        """Compare what there is of a chunk that is not complete: the replay has come to a time (nanoseconds)."""
        chunk = self._history.chunk
        if self._history.intent is not None and self._history.intent.time_ns < until:
            raise _not_begun(self._history.intent)
        if chunk is None and self._history.partial:
            return  # the record lacks its last events; their effects have been compared already
        before = [] if chunk is None else [tuple(row) for row in decode(chunk.data) if row[0] < until]
        difference = first_difference(before, self._rows, self.compared + 1)
        if difference is not None:
            raise _divergence(difference)

    def _compare_end(self, status: Status, digest: JsonObject) -> None:
        self._feed()
        history, info = self._history, self._history.run.info
        if "events" in self._parts and (self._rows or history.chunk is not None):
            chunk = history.chunk
            stored = [] if chunk is None else [tuple(row) for row in islice(decode(chunk.data), len(self._rows) + 1)]
            difference = first_difference(stored, self._rows, self.compared + 1)
            if difference is not None:
                raise _divergence(difference)
        if history.intent is not None:
            raise _not_begun(history.intent)
        if info.status == "finished" and info.digest is not None and "digest" in self._parts:
            value_difference = first_value(info.digest, dict(digest))
            if value_difference is not None:
                there_text, now_text = value_difference.texts()
                raise DivergenceError(
                    f"all events are equal, but the final state differs in {value_difference.path}, which is"
                    f" {there_text} on record and {now_text} now",
                    hint=value_cause(value_difference),
                )


class _HeldRecorder(NullRecorder):
    """Keeps new rows until it is known whether the run continues live.

    Args:
        closed: the replayed endings of effects that are not on record.
        rows: the replayed events that are not in a complete chunk on record.
    """

    def __init__(self, closed: list[ClosedRow], rows: list[EventRow]) -> None:
        self._calls: list[tuple[Callable[[RunRecorder, Any], None], Any]] = [
            *((RunRecorder.closed, row) for row in closed),
            *((RunRecorder.event, row) for row in rows),
        ]

    def hand_on(self, out: RunRecorder) -> None:
        """Record all rows in the order in which they were added."""
        for record, row in self._calls:
            record(out, row)

    def event(self, row: EventRow, /) -> None:
        self._calls.append((RunRecorder.event, row))

    def intent(self, row: IntentRow, /) -> None:
        self._calls.append((RunRecorder.intent, row))

    def result(self, row: ResultRow, /) -> None:
        self._calls.append((RunRecorder.result, row))

    def input(self, row: InputRow, /) -> None:
        self._calls.append((RunRecorder.input, row))

    def closed(self, row: ClosedRow, /) -> None:
        self._calls.append((RunRecorder.closed, row))

    def flush(self) -> None:
        self._calls.append((_flush, None))


def _flush(out: RunRecorder, _: None) -> None:
    out.flush()


def _divergence(difference: FirstDifference) -> DivergenceError:
    return DivergenceError(difference.sentence(_RECORD, _NOW), hint=usual_cause(difference))


def _not_begun(there: Intent) -> DivergenceError:
    return DivergenceError(
        f"effect {there.ordinal} of {there.actor} ({there.kind}) at {to_text(there.time_ns)} is on record, but does not"
        " start now"
    )
