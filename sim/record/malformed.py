"""Malformed events of a record: those whose data are not what their topic requires, count by topic.

A record that is intact can have them: another version of sim wrote it, or whoever changed it computed its hashes again.
"""

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from sim.base.text import number
from sim.events.event_type import EventData, Malformed, data_reader, series_reader
from sim.kernel.codec import Json, Raw, reader
from sim.record.files import versions
from sim.record.rows import MOST_TOPICS

_MOST_NAMED: Final = 5
"""The most topics that a sentence names."""

_MOST_COUNTED: Final = 1_000
"""The most topics that are count separately."""
_OTHERS: Final = "(others)"

_decode: Final = reader(list[tuple[Raw, Raw, Raw, Raw, Raw, Raw, str, Raw, Raw]])  # what is Raw is not decoded


@attrs.frozen
class MalformedTopic:
    """What is known of the malformed events of one topic.

    Attributes:
        events: how many there are.
        problem: what is wrong with the first of them.
    """

    events: int
    problem: str


class MalformedEvents:
    """Counts malformed events, chunk by chunk.

    Attributes:
        topics: the topics that have some, in the order of their first one; if there are very many, the last is
            `(others)`.
        read: the number of events that were read, also of topics without an event type.
    """

    def __init__(self) -> None:
        self.topics: dict[str, MalformedTopic] = {}
        self.read = 0
        self._readers: dict[str, Callable[[Sequence[Raw]], object] | None] = {}

    @property
    def total(self) -> int:
        """The number of malformed events."""
        return sum(count.events for count in self.topics.values())

    def take(self, chunk: bytes) -> None:
        """Compare the events of a chunk with the types of their topics.

        Raises:
            ValueError: if it is not a chunk of events.
        """
        by_topic: dict[str, list[Raw]] = {}
        for parts in _decode(chunk):
            by_topic.setdefault(parts[6], []).append(parts[7])
            self.read += 1
        for topic, series in by_topic.items():
            try:
                read = self._readers[topic]
            except KeyError:
                read = series_reader(topic)
                if len(self._readers) < MOST_TOPICS:
                    self._readers[topic] = read
            if read is None:
                continue
            try:
                read(series)  # all at once, because this takes a third of the time
            except ValueError:
                self._take_each(topic, series)

    def _take_each(self, topic: str, series: Sequence[Raw]) -> None:
        read = data_reader(topic)
        assert read is not None, "the topic has an event type"
        for data in map(read, series):
            if data.__class__ is Malformed:
                self._note(data)

    def add(self, data: EventData | Malformed | None) -> None:
        """Count an event that was read one by one, by its data as its event type has them."""
        self.read += 1
        if data.__class__ is Malformed:
            self._note(data)

    def _note(self, malformed: Malformed) -> None:
        topic = malformed.topic if malformed.topic in self.topics or len(self.topics) < _MOST_COUNTED else _OTHERS
        count = self.topics.get(topic, MalformedTopic(0, malformed.problem))
        self.topics[topic] = attrs.evolve(count, events=count.events + 1)

    def to_json(self) -> dict[str, Json]:
        """Return the numbers, JSON-like."""
        return {"events": self.total, "topics": {topic: attrs.asdict(count) for topic, count in self.topics.items()}}

    def sentence(self, version: object) -> str | None:
        """Return what is malformed and what to do about it; None: nothing is. Its text is not trusted.

        Args:
            version: the version of `sim` that the record names.
        """
        if not self.topics:
            return None
        named = [f"{topic} {number(count.events)} ({count.problem})" for topic, count in self.topics.items()]
        if len(named) > _MOST_NAMED:
            named[_MOST_NAMED:] = [f"{len(named) - _MOST_NAMED} more topics"]
        return (
            f"{number(self.total)} of {number(self.read)} events do not have the form of their topic:"
            f" {', '.join(named)}. Figures and views of these topics may lack them;"
            f" `sim show RUN events --topic {next(iter(self.topics))} --json` prints them as recorded. {_cure(version)}"
        )


def _cure(version: object) -> str:
    own = versions()["sim"]
    if version != own:
        return f"They were recorded by sim {version}, and this is sim {own}: read them with that version"
    return "The record names this version of sim, so the record or a package was changed: use another copy of it"
