"""Where two runs part: the first event that differs, and the first value in it that does.

Events are compared by their canonical bytes, as the hash of a run is made: 1, 1.0 and true are three values, while a
tuple is the list that it is recorded as.
"""

from collections.abc import Iterable
from itertools import islice, zip_longest
from typing import Any, Final

import attrs

from sim.kernel.codec import decode, encode
from sim.kernel.duration import to_text
from sim.kernel.rows import EventRow, RecordedEvent
from sim.store.hashing import encode_events

_TOLD = ("time_ns", "actor", "topic", "data", "delta", "priority", "source", "counter", "cause")
_BATCH = 1024  # events that are encoded at once; encoding them one by one takes three times as long
_LONGEST = 80  # signs of a value in a sentence
_BEFORE = 20  # signs that are kept before the first one that differs

_Keys = tuple[str | int, ...]


class Absent:
    """Stands for a value that one side does not have."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT: Final = Absent()


@attrs.frozen
class ValueDifference:
    """The first value that differs between two JSON values.

    Attributes:
        keys: the way to it: keys of mappings and places in lists, from 0.
        left: the value on one side, or `ABSENT`.
        right: the value on the other side, or `ABSENT`.
    """

    keys: _Keys
    left: Any
    right: Any

    @property
    def path(self) -> str:
        """The way to the value as text, for instance `arguments.items[2]`."""
        return "".join(map(_step, self.keys)).removeprefix(".")

    def texts(self) -> tuple[str, str]:
        """Return both values as JSON; of long ones, only what surrounds the first sign that differs."""
        left, right = _text(self.left), _text(self.right)
        pairs = enumerate(zip(left, right, strict=False))
        equal = next((place for place, (one, other) in pairs if one != other), min(len(left), len(right)))
        start = max(0, equal - _BEFORE)
        return _cut(left, start), _cut(right, start)


@attrs.frozen
class Difference:
    """The first event that differs between two runs.

    Attributes:
        number: of the event in both runs, from 1.
        left: the event of one run, None if that run ends before it.
        right: the event of the other run, None if that run ends before it.
    """

    number: int
    left: EventRow | None
    right: EventRow | None

    @property
    def value(self) -> ValueDifference | None:
        """The first value that differs, its path beginning with a name of `RecordedEvent`; None if a run ends there.

        Time, actor, topic and data are looked at before the numbers that merely follow from them.
        """
        if self.left is None or self.right is None:
            return None
        left, right = _named(self.left), _named(self.right)
        for name in _TOLD:
            found = first_value(left[name], right[name])
            if found is not None:
                return attrs.evolve(found, keys=(name, *found.keys))
        return None

    def sentence(self, left: str = "on the left", right: str = "on the right") -> str:
        """Return one sentence, without its full stop, that names the event, both sides and the field that differs.

        Names in it are those of the agents: make it harmless before it goes to a terminal.

        Args:
            left: where the left side is, for instance `in the record`.
            right: where the right side is, for instance `in the replay`.
        """
        found = self.value
        if found is None:
            row, has, ends = (self.left, left, right) if self.left is not None else (self.right, right, left)
            return f"event {self.number:,} is {_event(row)} {has}, and there is none {ends}"
        ours, theirs = found.texts()
        here, there = _event(self.left), _event(self.right)
        if here == there:
            event = f"event {self.number:,} ({here})"
            return f"{event} differs in {found.path}, which is {ours} {left} and {theirs} {right}"
        return f"event {self.number:,} is {here} {left} and {there} {right}; they differ in {found.path}"


def first_difference(left: Iterable[EventRow], right: Iterable[EventRow], start: int = 1) -> Difference | None:
    """Return the first event that differs, or None.

    Both sides are read some events ahead of what is compared.

    Args:
        left: events of one run.
        right: events of the other run, from the same place on.
        start: number of the first event of both.

    Raises:
        ActorError: if an event holds what is not JSON; names its actor and topic.
    """
    lefts, rights = iter(left), iter(right)
    while True:
        ours, theirs = list(islice(lefts, _BATCH)), list(islice(rights, _BATCH))
        if encode_events(ours) != encode_events(theirs):
            for number, (one, other) in enumerate(zip_longest(ours, theirs), start):
                if not _same(one, other):
                    return Difference(number, one, other)
        if len(ours) < _BATCH:
            return None
        start += _BATCH


def first_value(left: Any, right: Any) -> ValueDifference | None:
    """Return the first difference of two JSON values, keys in sorted order, or None."""
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
    """Tell whether two values are recorded alike; raw bytes count by what they stand for."""
    one, other = encode(left), encode(right)
    return one == other or encode(decode(one)) == encode(decode(other))


def _parts(left: Any, right: Any) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Return the parts of two values by key, none if they are not of the same form."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left, right
    if isinstance(left, list) and isinstance(right, list):
        return dict(enumerate(left)), dict(enumerate(right))
    return {}, {}


def _named(row: EventRow) -> dict[str, Any]:
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
