"""The limits of evaluation: how large a result may be, and how much work the loops of an expression may do."""

from collections.abc import Iterable
from typing import Any, Final

from sim.base.expressions.errors import ExpressionError

MAX_RESULT: Final = 100_000
"""The most values in a result, counted at any depth: repeating x = `[x, x]` doubles the size each time."""

MAX_WORK: Final = 20_000
"""The most steps of all loops of one evaluation: each item counts, and each value that a step reads or keeps."""

SCALARS: Final = frozenset({int, float, bool, str, type(None)})
"""The types of values that are never too large as a result."""
SIZELESS: Final = frozenset({int, float, bool, type(None)})
"""The types of values whose size is not counted."""

_DEEPEST: Final = 50
CHARACTERS: Final = 100
"""So many characters of a text count as one step."""


def measured(result: Any) -> Any:
    """Return a result, or refuse it if it has too many values or too deep nesting.

    Shared parts count each time they occur.
    """
    if result.__class__ not in SCALARS and size(result, MAX_RESULT) > MAX_RESULT:
        raise ExpressionError(f"the result holds more than {MAX_RESULT} values")
    return result


def size(result: object, limit: int) -> int:
    """Return the number of values in a collection at any depth; counting stops above `limit`."""
    count = 0
    level: list[Any] = [result]
    for _ in range(_DEEPEST):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, list | tuple | dict):
                inner.extend(_parts(value))
                count += len(value)
                if count > limit:
                    return count
        if not inner:
            return count
        level = inner
    raise ExpressionError(f"the result is nested more than {_DEEPEST} deep")


def _parts(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def spend(work: list[int], steps: int) -> None:
    """Count steps of loops.

    Args:
        work: the steps of the evaluation so far, as a list with one number.
        steps: how many more.

    Raises:
        ExpressionError: if there are too many.
    """
    work[0] += steps
    if work[0] > MAX_WORK:
        raise ExpressionError(f"the loops take more than {MAX_WORK} steps", hint="loop over a shorter list")


def counted(value: Any, work: list[int]) -> Any:
    """Return a value that a step of a loop reads or keeps, after counting its size."""
    if value.__class__ is str:
        if len(value) >= CHARACTERS:
            spend(work, len(value) // CHARACTERS)
    elif isinstance(value, list | tuple | dict):
        spend(work, size(value, MAX_WORK))
    return value
