"""Conversion of recorded values to expected types. They are not trusted: an agent can publish any data on any topic."""

import sys
from collections.abc import Mapping
from typing import Any, cast

from sim.kernel.codec import JsonObject

_NOTHING: JsonObject = {}


def mapping(data: Any) -> JsonObject:
    """Return data if it is a mapping, otherwise an empty mapping."""
    if data.__class__ is dict:  # nearly always, and the fastest question
        return cast("JsonObject", data)
    return data if isinstance(data, Mapping) else _NOTHING


def figure(value: Any) -> float | None:
    """Return a value if it is a number, otherwise None. A whole number that is too large for a float is none."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value if isinstance(value, float) or abs(value) <= sys.float_info.max else None


def whole(value: Any) -> int:
    """Return a value if it is a whole number above 0, otherwise 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
