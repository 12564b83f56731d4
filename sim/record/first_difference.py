"""The first event in which two runs differ, and the first value that differs in it.

Events are compared by their canonical bytes, as in the hash of a run. So 1, 1.0 and true are different values, and a
tuple equals the list as which it is recorded.
"""

from collections.abc import Iterable
from itertools import islice, zip_longest
from typing import Any, Final

import attrs

from sim.kernel.codec import Json, decode, encode
from sim.kernel.duration import to_text
from sim.kernel.rows import EventRow, RecordedEvent
from sim.record.hashing import encode_events

_COMPARED = ("time_ns", "actor", "topic", "data", "delta", "priority", "source", "counter", "cause")
_BATCH = 1024  # events that are encoded together: to encode them one by one takes three times as long
_LONGEST = 80  # maximum number of characters of a value in a message
_BEFORE = 20  # characters that are shown before the first one that differs

_Keys = tuple[str | int, ...]


class Absent:
    """The placeholder for a value that is missing on one side."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT: Final = Absent()


@attrs.frozen
class ValueDifference:
    """The first value that differs between two JSON values.

    Attributes:
        keys: the path to it: keys of mappings and indices of lists (from 0).
        left: the value on one side, or `ABSENT`.
        right: the value on the other side, or `ABSENT`.
    """

    keys: _Keys
    left: Any
    right: Any

    @property
    def path(self) -> str:
        """The path to the value as text, for example `arguments.items[2]`."""
        return "".join(map(_step, self.keys)).removeprefix(".")

    def texts(self) -> tuple[str, str]:
        """Return both values as JSON. A long value is shortened to the part around the first difference."""
        left, right = _text(self.left), _text(self.right)
        pairs = enumerate(zip(left, right, strict=False))
        equal = next((place for place, (one, other) in pairs if one != other), min(len(left), len(right)))
        start = max(0, equal - _BEFORE)
        return _cut(left, start), _cut(right, start)


@attrs.frozen
class FirstDifference:
    """The first event that differs between two runs.

    Attributes:
        number: the number of the event in both runs, from 1.
        left: the event of one run, None if that run has fewer events.
        right: the event of the other run, None if that run has fewer events.
    """

    number: int
    left: EventRow | None
    right: EventRow | None

    @property
    def value(self) -> ValueDifference | None:
        """The first value that differs; its path starts with a field of `RecordedEvent`. None if one run has no event.

        Time, actor, topic and data are compared first, because the other fields follow from them.
        """
        if self.left is None or self.right is None:
            return None
        left, right = _named(self.left), _named(self.right)
        for name in _COMPARED:
            difference = first_value(left[name], right[name])
            if difference is not None:
                return attrs.evolve(difference, keys=(name, *difference.keys))
        return None

    def sentence(self, left: str = "on the left", right: str = "on the right") -> str:
        """Return one sentence, without a full stop, that names the event, both sides and the field that differs.

        It contains names of agents. Escape them before they are printed to a terminal.

        Args:
            left: a description of the left side, for example `in the record`.
            right: a description of the right side, for example `in the replay`.
        """
        value = self.value
        if value is None:
            row, has, ends = (self.left, left, right) if self.left is not None else (self.right, right, left)
            return f"event {self.number:,} is {_event(row)} {has}, and there is none {ends}"
        ours, theirs = value.texts()
        here, there = _event(self.left), _event(self.right)
        if here == there:
            event = f"event {self.number:,} ({here})"
            return f"{event} differs in {value.path}, which is {ours} {left} and {theirs} {right}"
        return f"event {self.number:,} is {here} {left} and {there} {right}; they differ in {value.path}"


def first_difference(left: Iterable[EventRow], right: Iterable[EventRow], start: int = 1) -> FirstDifference | None:
    """Return the first event that differs, or None.

    Events are read in batches, so both iterators may be advanced past the first difference.

    Args:
        left: events of one run.
        right: events of the other run, from the same number on.
        start: the number of the first event of both.

    Raises:
        ActorError: if an event is not JSON. The message names its actor and topic.
    """
    lefts, rights = iter(left), iter(right)
    while True:
        ours, theirs = list(islice(lefts, _BATCH)), list(islice(rights, _BATCH))
        if encode_events(ours) != encode_events(theirs):
            for number, (one, other) in enumerate(zip_longest(ours, theirs), start):
                if not _same(one, other):
                    return FirstDifference(number, one, other)
        if len(ours) < _BATCH:
            return None
        start += _BATCH


def first_value(left: Any, right: Any) -> ValueDifference | None:
    """Return the first difference between two JSON values, with keys in sorted order, or None."""
    if _same(left, right):
        return None
    keys: _Keys = ()
    one, other = decode(encode(left)), decode(encode(right))
    while True:
        parts, others = _parts(one, other)
        for key in sorted(parts.keys() | others.keys()):
            inner, outer = parts.get(key, ABSENT), others.get(key, ABSENT)
            if inner is ABSENT or outer is ABSENT or encode(inner) != encode(outer):
                keys, one, other = (*keys, key), inner, outer
                break
        else:
            return ValueDifference(keys, one, other)


def _same(left: Any, right: Any) -> bool:
    """Return whether two values have the same canonical JSON. Raw JSON is decoded first."""
    one, other = encode(left), encode(right)
    return one == other or encode(decode(one)) == encode(decode(other))


def _parts(left: Any, right: Any) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Return the parts of two values by key or index, or no parts if only one is a mapping or a list."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left, right
    if isinstance(left, list) and isinstance(right, list):
        return dict(enumerate(left)), dict(enumerate(right))
    return {}, {}


def _named(row: EventRow) -> dict[str, Json]:
    return RecordedEvent(*row)._asdict()


def _event(row: EventRow | None) -> str:
    assert row is not None
    event = RecordedEvent(*row)
    return f"{event.topic} of {event.actor} at {to_text(event.time_ns)}"


def _step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if key.replace("-", "_").isidentifier() else f"[{_text(key)}]"


def _text(value: Any) -> str:
    return repr(value) if value is ABSENT else encode(value).decode()


def _cut(text: str, start: int) -> str:
    if len(text) <= _LONGEST:
        return text
    end = start + _LONGEST
    return f"{'...' if start else ''}{text[start:end]}{'...' if end < len(text) else ''}"
