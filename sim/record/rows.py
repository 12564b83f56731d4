"""The rows of a record as readers get them: events whose data are decoded when they are needed."""

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from sim.events.event_type import EventData, Malformed, data_reader
from sim.events.topic import matches
from sim.kernel.codec import Raw, decode, reader
from sim.kernel.rows import RecordedEvent

_Parts = tuple[int, int, int, int, int, str, str, Raw, Any]

MOST_TOPICS: Final = 10_000
"""The most topics of which readers keep how they are read. Agents can invent topics."""

_decode: Final = reader(list[_Parts])


class Wanted:
    """Which events a reader gets, and how their data are read.

    Args:
        topics: patterns of topics; None: all.
        actors: names of actors; None: all.
    """

    def __init__(self, topics: Collection[str] | None = None, actors: Collection[str] | None = None) -> None:
        self._patterns = topics
        self._actors = None if actors is None else frozenset(actors)
        self._wanted_topics: dict[str, bool] = {}
        self._readers: dict[str, Callable[[bytes], EventData | Malformed] | None] = {}

    def of(self, first: int, chunk: bytes, after: int) -> "Iterator[Row]":
        """Yield the events of a chunk.

        Args:
            first: the number of its first event.
            chunk: the chunk, as it is stored.
            after: only events with a higher number.

        Raises:
            ValueError: if it is not a chunk of events.
        """
        wanted_topics, actors = self._wanted_topics, self._actors
        for id, parts in enumerate(_decode(chunk), first):
            if id <= after or (actors is not None and parts[5] not in actors):
                continue
            topic = parts[6]
            wanted = wanted_topics.get(topic)
            if wanted is None:
                wanted = self._patterns is None or any(matches(one, topic) for one in self._patterns)
                if len(wanted_topics) < MOST_TOPICS:
                    wanted_topics[topic] = wanted
            if wanted:
                yield Row(id, parts, self)

    def read(self, topic: str, raw: bytes) -> EventData | Malformed | None:
        """Return the data of an event as its event type has them; None: it has none."""
        try:
            read = self._readers[topic]
        except KeyError:
            read = data_reader(topic)
            if len(self._readers) < MOST_TOPICS:
                self._readers[topic] = read
        return None if read is None else read(raw)


class Row:
    """A recorded event.

    Attributes:
        id: its number in the record, from 1.
        time_ns: when it happened, in simulated nanoseconds.
        actor: the name of the agent that it concerns.
        topic: its topic.
        raw: its data as JSON.
    """

    __slots__ = ("_parts", "_wanted", "actor", "id", "raw", "time_ns", "topic")

    def __init__(self, id: int, parts: _Parts, wanted: Wanted) -> None:
        self.id = id
        self.time_ns, self.actor, self.topic, self.raw = parts[0], parts[5], parts[6], parts[7]
        self._parts, self._wanted = parts, wanted

    @property
    def data(self) -> Any:
        """The data, a JSON value; decoded at each access."""
        return decode(self.raw)

    @property
    def event(self) -> EventData | Malformed | None:
        """The data as their event type has them; None: agents or host programs publish under the topic."""
        return self._wanted.read(self.topic, self.raw)

    def whole(self) -> RecordedEvent:
        """Return the event with all that is recorded of it."""
        return RecordedEvent(*self._parts[:7], self.data, self._parts[8])
