"""Values of the record as what they should be. They may be anything: an agent can publish under every topic."""

from collections.abc import Mapping
from typing import Any

_NOTHING: Mapping[str, Any] = {}


def mapping(data: Any) -> Mapping[str, Any]:
    """Return data if it is a mapping, else an empty one."""
    return data if isinstance(data, Mapping) else _NOTHING


def figure(value: Any) -> float | None:
    """Return a value if it is a number, else None."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def whole(value: Any) -> int:
    """Return a value if it is a whole number above 0, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
