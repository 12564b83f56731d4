"""Event types: for each topic of the simulation's own events, a class with the data that such an event has.

An event type is defined beside the code that publishes it, and says all that there is to say of the topic: the fields
of the data in the order of their keys in JSON, what each means and in which unit, and the text of the event in lists.
What is recorded, read, shown and documented follows from the class.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import ClassVar, Final, TypeVar

import attrs

from sim.base.errors import UsageError
from sim.base.registry import Registry
from sim.base.words import EVENTS
from sim.kernel.codec import Raw, Record, converted, decode, json_keys, reader

E = TypeVar("E", bound="EventData")


class EventData(Record, frozen=True, gc=False, kw_only=True):
    """The data of an event of the simulation itself; base class of event types.

    Attributes:
        TOPIC: the topic, or the pattern of the topics, of the events that have such data.
        FACT: whether the fields are only numbers and text that is valid JSON. Such data cannot change or fail to be
            encoded, so they are encoded when they are stored, not when they are published.
    """

    TOPIC: ClassVar[str] = ""
    FACT: ClassVar[bool] = False

    def describe(self, topic: str, agent: str | None) -> tuple[str, ...] | None:
        """Return the text of the event, in parts of which some can be empty; None: its topic and its data as JSON.

        Args:
            topic: the topic of the event.
            agent: the agent in whose history the text appears; its name is omitted. None: a list of all events.
        """
        return None


class Published(EventData, frozen=True, gc=False, kw_only=True):
    """The data of an event that agents and other subscribers see; the other events are only on record."""


class OpenData(EventData, frozen=True, gc=False, kw_only=True):
    """Data whose keys are no fields but data, such as the names of metrics; base class of event types.

    An event type of this form has one field, `values`: the mapping that is recorded.
    """


@attrs.frozen
class Malformed:
    """What was read in place of the data of an event that are not what its topic requires.

    Attributes:
        topic: the topic.
        problem: what is wrong, in a sentence.
    """

    topic: str
    problem: str


EVENT_TYPES: Final[Registry[type[EventData]]] = Registry("events", EVENTS)
"""Event types by topic. A pattern such as `action.*` stands for all topics with one more word."""


def event_type(topic: str) -> Callable[[type[E]], type[E]]:
    """Define the class below as the event type of a topic.

    Args:
        topic: the topic, or for topics that others complete, a pattern whose last word is `*`.

    Raises:
        UsageError: if the topic has an event type already, the fields are not in the order of their keys in JSON, or
            one is not described in the docstring, under `Attributes:`.
    """

    def define(cls: type[E]) -> type[E]:
        where = f"the event type {cls.__name__} of {topic}"
        keys = json_keys(cls)
        if list(keys.values()) != sorted(keys.values()):
            raise UsageError(
                f"{where}: the fields must be in the order of their keys in JSON",
                hint=f"write them as {', '.join(sorted(keys, key=keys.__getitem__))}",
            )
        described = described_fields(cls)
        lacking = [name for name in keys if name not in described]
        if lacking and cls.__doc__ is not None:  # Python can run without docstrings
            raise UsageError(
                f"{where}: the field {lacking[0]!r} has no description",
                hint="add it under `Attributes:` in the docstring of the class",
            )
        if not EVENT_TYPES.is_free(topic, cls.__module__):
            raise UsageError(f"{where}: the topic has another event type already", hint="choose another topic")
        cls.TOPIC = topic
        EVENT_TYPES[topic] = cls
        return cls

    return define


def type_of(topic: str) -> type[EventData] | None:
    """Return the event type of a topic; None: agents or host programs publish under it, with any data."""
    exact = EVENT_TYPES.get(topic)
    return exact if exact is not None else EVENT_TYPES.get(f"{topic.rpartition('.')[0]}.*")


def read_data(topic: str, data: object) -> EventData | Malformed | None:
    """Return the data of a recorded event as its event type has them; None: its topic has none.

    Records are not trusted: what does not fit is `Malformed`.

    Args:
        topic: the topic.
        data: the data: a JSON value, also as `Raw`, or data of an event type, which are returned.
    """
    if isinstance(data, EventData):
        return data
    event_class = type_of(topic)
    if event_class is None:
        return None
    try:
        if isinstance(data, Raw) and not issubclass(event_class, OpenData):
            made: EventData = _reader_of(event_class)(data)
            return made
        data = decode(data) if isinstance(data, Raw) else data
        return converted({"values": data} if issubclass(event_class, OpenData) else data, event_class)
    except ValueError as error:
        return Malformed(topic, str(error))


_reader_of = cache(reader)


def data_reader(topic: str) -> Callable[[bytes], EventData | Malformed] | None:
    """Return what reads data from JSON as `read_data` does, for one topic; None: it has no event type."""
    event_class = type_of(topic)
    if event_class is None:
        return None
    kind, decode_one = event_class, reader(event_class)

    def read(raw: bytes) -> EventData | Malformed:
        try:
            made: EventData = decode_one(raw)
        except ValueError as error:
            return Malformed(topic, str(error))
        return made

    if issubclass(kind, OpenData):
        return lambda raw: read(b'{"values":' + bytes(raw) + b"}")
    return read


def series_reader(topic: str) -> Callable[[Sequence[Raw]], object] | None:
    """Return what reads the data of many events of one topic at once; None: the topic has no event type.

    It raises ValueError if one of them is malformed.
    """
    event_class = type_of(topic)
    if event_class is None:
        return None
    decode_all = reader(list[event_class])  # type: ignore[valid-type]  # a type that is known at run time alone
    if issubclass(event_class, OpenData):
        return lambda series: decode_all(b'[{"values":' + b'},{"values":'.join(series) + b"}]")
    return lambda series: decode_all(b"[" + b",".join(series) + b"]")


def described_fields(cls: type[EventData]) -> dict[str, str]:
    """Return the descriptions of the fields in the docstring of an event type, by name."""
    descriptions = dict[str, str]()
    for base in reversed(cls.__mro__[:-1]):
        if "Attributes:" in (base.__doc__ or ""):
            descriptions |= _attributes_of(base.__doc__ or "")
    return descriptions


@cache
def _attributes_of(text: str) -> Mapping[str, str]:
    section = inspect.cleandoc(text).partition("Attributes:\n")[2].partition("\n\n")[0]
    descriptions = dict[str, str]()
    for names, described in re.findall(r"^    (\w+(?:, \w+)*): (.*(?:\n     +.*)*)", section, re.MULTILINE):
        descriptions |= dict.fromkeys(names.split(", "), " ".join(described.split()))
    return descriptions
