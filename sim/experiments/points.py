"""Points: combinations of values, one for each varied key of a scenario."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean

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


def number_or_text(text: str) -> str | float:
    """Return the number that a value is, or its text if it is none."""
    number = as_number(text)
    return text if number is None else number


def number_text(value: float) -> str:
    """Return a number as text, without the noise of the last digits: 0.3, not 0.30000000000000004."""
    return f"{value:.12g}"


def named(points: Sequence[Point], texts: Sequence[str]) -> int:
    """Return the index of the one combination that has some values.

    Args:
        points: the combinations.
        texts: `key=value` texts. A key can be its last parts, such as `beta`.

    Raises:
        UsageError: if no combination has them, or several have.
    """
    wanted: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        keys = [one for one in points[0] if f".{one}".endswith(f".{key.strip()}")]
        if not separator or len(keys) != 1:
            hint = did_you_mean(key.strip(), points[0]) or f"there are {', '.join(points[0]) or 'none'}"
            raise UsageError(f"{text!r:.80} names no varied key, or several", hint=hint)
        wanted[keys[0]] = value.strip()
    places = [
        place for place, point in enumerate(points) if all(_same(point[key], value) for key, value in wanted.items())
    ]
    if len(places) != 1:
        count = f"{len(places):,} combinations have" if places else "no combination has"
        hint = "give a value of each varied key" if places else f"there is {label_of(points[0])}"
        raise UsageError(f"{count} {', '.join(texts):.80}", hint=hint)
    return places[0]


def _same(left: str, right: str) -> bool:
    """Return whether two texts are the same value: 0.10 is 0.1."""
    number = as_number(left)
    return left == right or (number is not None and number == as_number(right))
