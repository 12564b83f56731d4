"""The record of a run, read in order for a replay, a resume or a branch."""

from collections.abc import Callable, Iterator
from typing import Any

import attrs

from sim.base.errors import RunError
from sim.kernel.codec import decode
from sim.kernel.duration import MAX_NS
from sim.kernel.effects import EffectHandle, Outcome
from sim.kernel.ports import Arrival
from sim.record.reader import StoredRun


@attrs.frozen
class Chunk:
    """Events that were stored together: the number of the first (from 1), their count, the hash up to the last one."""

    first: int
    count: int
    hash: str
    data: bytes


@attrs.frozen
class Intent:
    """The part of a recorded effect that a replay must reproduce. `ended`: whether its ending is on record too."""

    actor: str
    ordinal: int
    kind: str
    request_hash: str
    latency: str
    safety: str
    time_ns: int
    events_before: int
    hash_before: str
    ended: bool


class RunHistory:
    """The record of a run, read in the order of its replay.

    Args:
        run: an open, verified run.
        until_ns: the simulated time up to which the run is replayed (nanoseconds, exclusive); None for all of it.
        hold_all: whether all effects in flight at the end of the replay are held, so that none is carried out.

    Attributes:
        chunk: the next chunk of events to compare with, None after the last.
        intent: the next effect to compare with, None after the last.
        cut: whether the replay stops at `until_ns`, before the end of the record.
        partial: whether the run has not finished, so that the record may lack its last events.
        unfinished: whether the record is partial and is replayed completely.
        over: whether the replay is over. It is never set for a finished run that is replayed to its end.
        on_over: a function that is called when the replay is over.
    """

    def __init__(self, run: StoredRun, until_ns: int | None = None, *, hold_all: bool = False) -> None:
        self.run = run
        self._hold_all = hold_all
        self.until_ns = MAX_NS if until_ns is None else until_ns
        self.over = False
        self.on_over: Callable[[], None] | None = None
        self.cut = until_ns is not None
        self.partial = run.info.status != "finished"
        self.unfinished = until_ns is None and self.partial
        ((self._endings,),) = run.query("SELECT count(*) FROM effects WHERE ending IS NOT NULL")
        self._chunks = self._read_chunks()
        self._intents = self._read_intents()
        self._arrivals = self._read_arrivals()
        self.chunk = next(self._chunks, None)
        self.intent = next(self._intents, None)
        self._arrival = next(self._arrivals, None)

    def start(self) -> None:
        """Check whether the record is empty, so that the replay is over immediately."""
        self._look()

    def chunk_made(self) -> None:
        """Move to the next chunk: the present one has been replayed."""
        self.chunk = next(self._chunks, None)
        self._look()

    def intent_made(self) -> None:
        """Move to the next intent. The replay is not over yet, because the outcome may be on record too."""
        self.intent = next(self._intents, None)

    def started(self) -> None:
        """Check for the end of the replay: the latest effect has started and, if recorded, has its outcome."""
        self._look()

    def ending_made(self) -> None:
        """Count an effect that has ended, as on record."""
        self._endings -= 1
        self._look()

    def next_arrival(self) -> Arrival | None:
        """Return the next arrival on record, or None if there is no further one."""
        return self._arrival

    def arrived(self) -> None:
        """Move to the next arrival: the present one has been applied."""
        self._arrival = next(self._arrivals, None)
        self._look()

    def reached(self) -> None:
        """End the replay: simulated time has reached `until_ns`."""
        self._end()

    def answer(self, handle: EffectHandle) -> tuple[bool, Outcome | None]:
        """Return whether the outcome of an effect is on record, and the outcome if its time of delivery is fixed.

        Other outcomes are arrivals: those with measured latency, and those of effects about which a person decided.
        """
        rows = self._effect(handle)
        if not rows or rows[0][0] is None:
            return bool(rows) and rows[0][4] == "timeout", None  # no outcome arrived before the deadline
        kind, value, attempts, arrived, _ = rows[0]
        late = arrived and not (handle.modelled and self._decided_later(handle))
        return True, None if late else Outcome(kind, decode(value), attempts)

    def _decided_later(self, handle: EffectHandle) -> bool:
        """Return whether a decision about the effect is after the cut, so that its time of delivery is still fixed."""
        if not self.cut:
            return False
        sql = (
            "SELECT a.time_ns FROM arrivals AS a JOIN effects AS e ON e.id = a.effect"
            " WHERE e.actor = ? AND e.ordinal = ?"
        )
        rows = self.run.query(sql, (handle.actor.name, handle.ordinal))
        return bool(rows) and rows[0][0] >= self.until_ns

    def is_held(self, handle: EffectHandle) -> bool:
        """Return whether an effect without a recorded outcome is held, so that it is not carried out.

        It is if all effects are held (`hold_all`), or if it is in doubt: unsafe, and its start is on record.
        """
        return self._hold_all or (handle.effect.safety == "unsafe" and bool(self._effect(handle)))

    def _effect(self, handle: EffectHandle) -> list[tuple[Any, ...]]:
        return self.run.query(
            "SELECT outcome, CAST(result AS BLOB), attempts, arrived, ending FROM effects"
            " WHERE actor = ? AND ordinal = ?",
            (handle.actor.name, handle.ordinal),
        )

    def _look(self) -> None:
        rest = (self.chunk, self.intent, self._arrival)
        if self.unfinished and self._endings == 0 and rest == (None, None, None):
            self._end()

    def _end(self) -> None:
        if not self.over:
            self.over = True
            if self.on_over is not None:
                self.on_over()

    def _read_chunks(self) -> Iterator[Chunk]:
        for _, first, count, hash, data in self.run.chunks():
            yield Chunk(first, count, hash, data)

    def _read_intents(self) -> Iterator[Intent]:
        columns = (
            "actor, ordinal, kind, request_hash, latency, safety, time_ns, events_before, hash_before,"
            " ending IS NOT NULL"
        )
        last = 0
        while rows := self.run.query(
            f"SELECT id, {columns} FROM effects WHERE id > ? ORDER BY id LIMIT 256",  # noqa: S608 - constant
            (last,),
        ):
            for id, *values in rows:
                yield Intent(*values)
                last = id

    def _read_arrivals(self) -> Iterator[Arrival]:
        """Yield the arrivals before `until_ns`, and the later outcomes of effects that were started before it.

        Later outcomes are yielded only if their latency was measured; a modelled latency is computed again.
        """
        sql = (
            "SELECT a.id, a.time_ns, a.delta, a.kind, CAST(a.data AS BLOB), e.actor, e.ordinal, e.outcome,"
            " CAST(e.result AS BLOB), e.attempts, e.time_ns, e.latency FROM arrivals AS a LEFT JOIN effects AS e"
            " ON e.id = a.effect WHERE a.id > ? ORDER BY a.id LIMIT 256"
        )
        last = 0
        while rows := self.run.query(sql, (last,)):
            for row in rows:
                last = row[0]
                time_ns, delta, kind, data, actor, ordinal, outcome, value, attempts, begun, latency = row[1:]
                if begun is None and time_ns < self.until_ns:
                    yield Arrival(time_ns, delta, kind, decode(data))
                elif begun is not None and begun < self.until_ns and (time_ns < self.until_ns or latency == "measured"):
                    if outcome is None:
                        raise RunError(f"{self.run.path} is damaged: effect {ordinal} of {actor} lacks its outcome")
                    yield Arrival(
                        time_ns, delta, effect=(actor, ordinal), outcome=Outcome(outcome, decode(value), attempts)
                    )
