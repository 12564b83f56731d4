"""Points: combinations of values, one for each varied key of a scenario."""

import math
from collections.abc import Mapping
from typing import Final

Point = Mapping[str, str]
"""One combination of varied values: the text of the value by key."""


MODE: Final = "mode"
"""The key under which each point of a bench has its mode. No scenario has such a key."""


def overrides_of(point: Point) -> tuple[str, ...]:
    """Return a combination as overrides of a scenario. The mode of a point of a bench is none."""
    return tuple(f"{key}={value}" for key, value in point.items() if key != MODE)


def label_of(point: Point) -> str:
    """Return the name of a combination."""
    return ", ".join(f"{short(key, point)}={value}" for key, value in point.items())


def short(key: str, among: Point) -> str:
    """Return the last two parts of a key, or the whole key if another key ends with them."""
    end = ".".join(key.split(".")[-2:])
    return end if sum(f".{other}".endswith(f".{end}") for other in among) == 1 else key


def as_number(text: str) -> float | None:
    """Return the number that a value is; None if it is none, or not finite."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
