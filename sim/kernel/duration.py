"""Conversion of durations: seconds, or text such as `90s`, `5m`, `1h30m`, to whole nanoseconds and back."""

import re
from decimal import Decimal
from functools import lru_cache
from typing import Any

from sim.base.errors import UsageError

Duration = int | float | str
"""A duration as users write it: seconds, or text with units."""

NS = 1_000_000_000
MAX_NS = 2**62  # 146 years; fits into 64 bits, and leaves larger numbers for "never"

_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": NS, "m": 60 * NS, "h": 3600 * NS, "d": 86400 * NS}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s|m|h|d)")
_TEXT = re.compile(rf"(?:{_PART.pattern})+")


def to_ns(value: Duration) -> int:
    """Convert a duration to nanoseconds.

    Args:
        value: seconds (int or float), or text of numbers with units: ns, us, ms, s, m, h, d. `0` needs no unit.

    Raises:
        UsageError: if it is not a duration, not finite, negative, or longer than 146 years.
    """
    unchecked: Any = value
    nanoseconds: int | float | Decimal
    if unchecked.__class__ is float or unchecked.__class__ is int:  # most durations
        nanoseconds = unchecked * NS
    elif isinstance(value, str):
        nanoseconds = _from_text(value.strip())
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"a duration is seconds or text such as 90s, not {value!r}")
    else:
        nanoseconds = value * NS
    if not 0 <= nanoseconds <= MAX_NS:  # also true for NaN
        raise UsageError(f"a duration must lie between 0 and 146 years, not {value!r}")
    return round(nanoseconds)


def to_seconds(nanoseconds: int) -> float:
    """Convert nanoseconds to seconds, for reports."""
    return nanoseconds / NS


def to_duration(nanoseconds: int) -> Duration:
    """Return the duration that `to_ns` reads as these nanoseconds: seconds, or text if no float is exact."""
    seconds = nanoseconds / NS
    return seconds if round(seconds * NS) == nanoseconds else f"{nanoseconds}ns"


def to_text(nanoseconds: int) -> str:
    """Return a duration as short text, for example `1h30m` or `0.25s`."""
    if nanoseconds == 0:
        return "0s"
    parts = []
    for unit in ("d", "h", "m"):
        count, nanoseconds = divmod(nanoseconds, _UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    if nanoseconds:
        parts.append(f"{nanoseconds / NS:.9f}".rstrip("0").rstrip(".") + "s")
    return "".join(parts)


def seconds_text(seconds: float) -> str:
    """Return seconds as short text, to the millisecond."""
    return to_text(round(seconds * 1000) * 1_000_000)


@lru_cache(maxsize=4096)  # rules say the same few
def _from_text(text: str) -> Decimal:
    if text == "0":  # the same in every unit
        return Decimal(0)
    if not _TEXT.fullmatch(text):
        raise UsageError(f"{text!r} is not a duration", hint="write numbers with units, for instance 90s, 5m or 1h30m")
    return sum((Decimal(number) * _UNITS[unit] for number, unit in _PART.findall(text)), Decimal(0))
