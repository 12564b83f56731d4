"""What compiled expressions call: items, slices, loops, and operators whose operands may lack a value."""

import types
from collections.abc import Callable, Sequence
from typing import Any

from sim.base.expressions.errors import ExpressionError, did_you_mean
from sim.base.expressions.limits import MAX_WORK, spend


class NoValueError(ExpressionError):
    """An operand has no value (null); `place` is its place among the operands."""

    def __init__(self, place: int) -> None:
        super().__init__("an operand has no value (null)")
        self.place = place


def guarded(function: Callable[..., Any], /, *operands: Any, **named: Any) -> Any:
    """Call a function, and say which operand has no value if that is why it failed."""
    try:
        return function(*operands, **named)
    except (TypeError, ExpressionError) as error:
        place = next((place for place, value in enumerate(operands) if value is None), None)
        if place is None:
            raise
        raise NoValueError(place) from error


def item(container: Any, key: Any) -> Any:
    """Return one item of a mapping, list or text. Attributes of objects are not accessible."""
    if isinstance(container, dict | types.MappingProxyType):
        if key in container:
            return container[key]
        hint = did_you_mean(str(key), [name for name in container if isinstance(name, str)])
        raise ExpressionError(f"there is no key {key!r}", hint=hint)
    if isinstance(container, list | tuple | str) and type(key) is int:
        try:
            return container[key]
        except IndexError:
            raise ExpressionError(f"there is no item {key}: there are {len(container)}") from None
    raise ExpressionError(f"{_kind(container)} has no item {key!r}")


def part(container: Any, first: Any, end: Any, step: Any) -> Any:
    """Return a slice of a list or text."""
    if not isinstance(container, list | tuple | str):
        raise ExpressionError(f"a slice needs a list or text, not {type(container).__name__}")
    for bound in (first, end, step):
        if bound is not None and type(bound) is not int:
            raise ExpressionError("the bounds of a slice are whole numbers")
    return container[slice(first, end, step)]


def mapping(result: dict[Any, Any]) -> dict[Any, Any]:
    """Return a mapping whose keys are text."""
    for key in result:
        if not isinstance(key, str):
            raise ExpressionError(f"the keys of a mapping are text, not {key!r}")
    return result


def items(values: Any, work: list[int]) -> Sequence[Any]:
    """Return the list that a loop goes over; each item counts as one step."""
    if values.__class__ is not list and not isinstance(values, list | tuple):
        raise ExpressionError(f"`for` needs a list, not {_kind(values)}")
    work[0] += len(values)
    if work[0] > MAX_WORK:  # here, as it is called for each loop
        spend(work, 0)
    return values


def rows(values: Sequence[Any], width: int) -> Sequence[Any]:
    """Return the list that a loop with several variables goes over: each item is a list with as many items."""
    for value in values:
        if not isinstance(value, list | tuple) or len(value) != width:
            shape = f"{len(value)} items" if isinstance(value, list | tuple) else _kind(value)
            raise ExpressionError(f"`for` with {width} names needs lists of {width} items, not {shape}")
    return values


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__
