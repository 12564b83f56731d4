"""Values with units: durations and rates as users write them."""

import re
from typing import Annotated, Any

import attrs
from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema

from sim.base.errors import UsageError
from sim.kernel.duration import NS, to_ns, to_text

_RATE = re.compile(r"([0-9]{1,15}) per (\S{1,40})")


@attrs.frozen
class Rate:
    """At most this many units in any window of this length.

    Attributes:
        amount: units, at least 1.
        window: length of the window in nanoseconds; 0 stands for one tick.
    """

    amount: int
    window: int

    @classmethod
    def parse(cls, text: object) -> "Rate":
        """Return the rate that a text such as `100 per 60s` stands for.

        Raises:
            UsageError: if the text is not a rate.
        """
        match = _RATE.fullmatch(text) if isinstance(text, str) else None
        if not match:
            raise UsageError(f"expected a rate such as 100 per 60s or 5 per tick, found {shown(text)}")
        if match[2] == "tick" and int(match[1]) > 0:
            return cls(int(match[1]), 0)
        amount, window = int(match[1]), to_ns(match[2])
        if amount < 1 or window < 1:
            raise UsageError(f"expected a rate of at least 1 over a time of more than 0, found {text!r}")
        return cls(amount, window)

    def __str__(self) -> str:
        return f"{self.amount} per {to_text(self.window) if self.window else 'tick'}"


def shown(value: object) -> str:
    """Return a found value as short text for an error."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str):
        return f"the text {value if len(value) <= 60 else value[:57] + '...'!r}"
    return repr(value)


class FieldError(ValueError):
    """The error that validators raise; a ValueError, because pydantic collects those.

    Args:
        message: what was expected and what was found.
        hint: what to do about it, or None.
        path: the place of the error below the validated value.
        parts: several errors; the message is not shown then.
    """

    def __init__(
        self,
        message: str,
        hint: str | None = None,
        path: tuple[str | int, ...] = (),
        parts: "tuple[FieldError, ...]" = (),
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.path = path
        self.parts = parts or (self,)


def wrong_as(error: UsageError, path: tuple[str | int, ...] = ()) -> FieldError:
    """Return an error of sim as one that a validator may raise."""
    return FieldError(str(error), error.hint, path)


def duration(value: Any) -> int:
    """Return the nanoseconds of a duration; for validators."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise FieldError(f"expected a duration such as 90s or 5m, found {shown(value)}")
    try:
        return to_ns(value)
    except UsageError as error:
        raise wrong_as(error) from None


def _rate(value: Any) -> Rate:
    if isinstance(value, Rate):
        return value
    try:
        return Rate.parse(value)
    except UsageError as error:
        raise wrong_as(error) from None


DURATION_SCHEMA = {
    "anyOf": [
        {"type": "number", "minimum": 0},
        {"type": "string", "pattern": r"^([0-9.]+(ns|us|ms|s|m|h|d))+$"},
    ],
    "description": "seconds, or text such as 90s, 5m, 1h30m",
    "format": "time-span",
}

Nanoseconds = Annotated[int, BeforeValidator(duration), WithJsonSchema(DURATION_SCHEMA)]
"""A duration: seconds or text in the file, int nanoseconds in the model."""

PositiveNanoseconds = Annotated[int, BeforeValidator(duration), Field(gt=0), WithJsonSchema(DURATION_SCHEMA)]
"""A duration of more than 0."""

RateField = Annotated[
    Rate,
    PlainValidator(_rate),
    WithJsonSchema({"type": "string", "pattern": "^[0-9]+ per .+$", "description": "for instance 100 per 60s"}),
]
"""A rate: `100 per 60s` in the file."""

SECOND = NS
MINUTE = 60 * NS
HOUR = 3600 * NS
