"""Cuts the events of a run into chunks, in one pass."""

from collections import Counter
from typing import Any, Final

import attrs

from sim.events.coerce import figure, mapping
from sim.inspect.viewer.blocks import Blocks
from sim.inspect.viewer.contacts import PAYMENT, Contact, Contacts
from sim.inspect.viewer.names import NameTable, Topics
from sim.inspect.viewer.series import Series
from sim.inspect.viewer.states import STATES, NameStates
from sim.kernel.codec import encode
from sim.kernel.rows import RecordedEvent

MOST_EVENTS: Final = 8_192
MOST_BYTES: Final = 2 * 2**20
"""A chunk ends with the event that reaches one of these."""

_MOST_PAIRS: Final = 100_000
_MOST_ERRORS: Final = 2_000
_MOST_METRICS: Final = 200


@attrs.define
class _Open:
    """The chunk that events are added to.

    Attributes:
        start_ns, end_ns: the times of its first and of its last event.
        keyframe: the state of all names before its first event.
        times: for each event, the nanoseconds since `start_ns`.
        actors, topics: the numbers of the actor and of the topic of each event.
        changes: four entries for each change: event (from 0), name, field, new value.
        said: five entries for each contact: event (from 0), kind, source, target, place; see `Contact`.
        lines: the events as they are recorded: canonical JSON.
    """

    start_ns: int
    keyframe: list[list[Any]]
    end_ns: int = 0
    size: int = 0
    times: list[int] = attrs.field(factory=list)
    actors: list[int] = attrs.field(factory=list)
    topics: list[int] = attrs.field(factory=list)
    changes: list[Any] = attrs.field(factory=list)
    said: list[int] = attrs.field(factory=list)
    lines: list[bytes] = attrs.field(factory=list)

    def frame(self) -> bytes:
        """Return all but the lines, as JSON."""
        return encode(
            {
                "keyframe": self.keyframe,
                "times": self.times,
                "actors": self.actors,
                "topics": self.topics,
                "changes": self.changes,
                "said": self.said,
            }
        )


class Chunks:
    """Cuts chunks, and keeps what the page needs of the whole run.

    Args:
        blocks: takes the chunks.
        names, topics: receive the names and topics.
        states: knows the state of all names.

    Attributes:
        table: for each chunk: the block of its frame and that of its lines, the number of its first event (from 1),
            the number of its events, and the seconds at which it starts and ends.
        events: how many events were added.
        pairs: how often one name wrote to another.
        payments: how often one name paid another.
        errors: the number and the seconds of events that tell of an error.
    """

    def __init__(self, blocks: Blocks, names: NameTable, topics: Topics, states: NameStates) -> None:
        self._blocks, self._names, self._topics, self._states = blocks, names, topics, states
        self._contacts = Contacts(names)
        self._open: _Open | None = None
        self._now_ns = 0
        self._said = 0
        self._shown: tuple[int, ...] = ()
        self.table: list[list[Any]] = []
        self.events = 0
        self.pairs: Counter[tuple[int, int]] = Counter()
        self.payments: Counter[tuple[int, int]] = Counter()
        self.errors: list[list[Any]] = []
        self.state_counts = Series(list(STATES))
        self.activity = Series(["events", "messages", "errors"])
        self.metrics = Series([])
        self._error_count = 0

    def add(self, row: RecordedEvent, line: bytes) -> None:
        """Add an event, and its line as it is recorded."""
        if self._open is None:
            self._open = _Open(row.time_ns, self._states.keyframe())
        if row.time_ns != self._now_ns:
            self._pass_time(row.time_ns)
        chunk, data = self._open, mapping(row.data)
        offset = len(chunk.times)
        actor, topic = self._names.number(row.actor), self._topics.number(row.topic)
        self.events += 1
        for change in self._states.changes(actor, row.time_ns, row.topic, data, topic):
            chunk.changes += (offset, *change)
        said = self._contacts.of(actor, row.topic, data)
        if said is not None:
            self._say(said)
            chunk.said += (offset, *said)
        self._note(row, data)
        chunk.times.append(row.time_ns - chunk.start_ns)
        chunk.actors.append(actor)
        chunk.topics.append(topic)
        chunk.lines.append(line)
        chunk.size += len(line)
        chunk.end_ns = row.time_ns
        if len(chunk.times) >= MOST_EVENTS or chunk.size >= MOST_BYTES:
            self.cut()

    def cut(self) -> None:
        """End the chunk, so that all events added so far are in blocks."""
        chunk, self._open = self._open, None
        if chunk is None:
            return
        count = len(chunk.times)
        blocks = [self._blocks.add(chunk.frame()), self._blocks.add(b"\n".join(chunk.lines))]
        first = self.events - count + 1
        self.table.append([*blocks, first, count, chunk.start_ns / 1e9, chunk.end_ns / 1e9])
        self._count()

    def _pass_time(self, time_ns: int) -> None:
        self._count()
        self._now_ns = time_ns

    def _count(self) -> None:
        """Add the counts at the end of an instant to the curves."""
        seconds = self._now_ns / 1e9
        states = tuple(self._states.counts[number] for number in range(len(STATES)))
        if states != self._shown:
            self._shown = states
            self.state_counts.add(seconds, states)
        if self.events:
            self.activity.add(seconds, (self.events, self._said, self._error_count))

    def _say(self, said: Contact) -> None:
        pays = said.kind == PAYMENT
        self._said += not pays
        pairs, pair = self.payments if pays else self.pairs, (said.source, said.target)
        if said.target >= 0 and (pair in pairs or len(pairs) < _MOST_PAIRS):
            pairs[pair] += 1

    def _note(self, row: RecordedEvent, data: Any) -> None:
        """Note errors and samples."""
        topic = row.topic
        if topic in ("agent.error", "agent.crashed") or topic.startswith("alert."):
            self._error_count += 1
            if len(self.errors) < _MOST_ERRORS:
                self.errors.append([self.events, row.time_ns / 1e9])
        elif topic == "metric.sample":
            names = self.metrics.names
            names += [name for name in data if name not in names][: _MOST_METRICS - len(names)]
            self.metrics.add(row.time_ns / 1e9, [figure(data.get(name)) for name in names])
