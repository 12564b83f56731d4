"""What the values in which a replay differs from its record say about the cause.

A run is a function of its scenario and seed, unless code of agents reads something else. The usual things leave traces:
a UUID looks like one, a clock shows these years, the order of a set moves the same items about.
"""

import re
from typing import Any, Final

from sim.base.numbers import is_number
from sim.kernel.codec import decode, encode
from sim.kernel.rows import RecordedEvent
from sim.record.first_difference import FirstDifference, ValueDifference

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}")
_DATE: Final = re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d")
_ADDRESS: Final = re.compile(r"\bat 0x[0-9a-fA-F]+")
_SINCE, _UNTIL = 1_500_000_000, 4_000_000_000  # the years 2017 to 2096, in seconds since 1970

ANY_CAUSE: Final = (
    "the usual causes in the code of agents: the order of a set, `random`, `uuid`, or the clock; draw from self.rng,"
    " read world.now, and sort a set before its items are used"
)


def usual_cause(difference: FirstDifference) -> str:
    """Return what probably makes the first different event differ, and what to write instead."""
    if difference.left is None or difference.right is None:
        return ANY_CAUSE
    left, right = (decode(encode(RecordedEvent(*row)._asdict())) for row in (difference.left, difference.right))
    value = difference.value
    for key in () if value is None else value.keys:
        if _is_reordered(left, right):
            break
        try:
            left, right = left[key], right[key]
        except (KeyError, IndexError, TypeError):
            return ANY_CAUSE
    return _cause(left, right)


def value_cause(difference: ValueDifference) -> str:
    """Return what probably makes two values differ, and what to write instead."""
    return _cause(difference.left, difference.right)


def _cause(left: Any, right: Any) -> str:
    if _is_reordered(left, right):
        return "the same items are in another order, as of a set: sort it before its items are used"
    if isinstance(left, str) and isinstance(right, str):
        for pattern, cause in (
            (_UUID, "it is a UUID: make ids from a counter, or draw them from self.rng"),
            (_DATE, "it is a date of the clock: read world.now, which is part of the run"),
            (_ADDRESS, "it is the address of an object in memory: write what the object stands for"),
        ):
            if pattern.search(left) and pattern.search(right):
                return cause
    if is_number(left) and is_number(right):
        if _is_clock(left) and _is_clock(right):
            return "it is a time of the clock: read world.now, which is part of the run"
        if isinstance(left, float) and isinstance(right, float) and min(len(repr(left)), len(repr(right))) > 12:
            return "it is probably a random number: draw it from self.rng, not from `random` or numpy"
    return ANY_CAUSE


def _is_reordered(left: Any, right: Any) -> bool:
    """Return whether two lists, or two texts of items with separators, have the same items in another order."""
    if isinstance(left, str) and isinstance(right, str):
        left, right = (re.split(r"[,;\s'\"{}\[\]()]+", text) for text in (left, right))
    if not (isinstance(left, list) and isinstance(right, list)) or len(left) < 2 or left == right:
        return False
    return sorted(map(encode, left)) == sorted(map(encode, right))


def _is_clock(value: float) -> bool:
    """Return whether a number is a time of these years, counted from 1970 in seconds, or in ms, µs or ns."""
    return any(_SINCE < value / unit < _UNTIL for unit in (1, 10**3, 10**6, 10**9))
