"""The pure functions and the operators of expressions. Each limits the size of its result."""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from sim.base.expressions.declared import functions_at, rule_function
from sim.base.expressions.errors import ExpressionError
from sim.base.expressions.grammar import MAX_INT

MAX_LENGTH = 100_000
"""The longest text or list that an expression may create."""

Number = int | float

_PLAIN = (int, float)
_SURE = 10**15  # what lies between plus and minus this is a number that JSON can hold


def number(value: Any) -> Any:
    """Return `value` if it is a number that JSON can hold: a 64-bit int or a finite float.

    Raises:
        ExpressionError: if it is not.
    """
    if type(value) is float:
        if math.isfinite(value):
            return value
        raise ExpressionError("the result is not a finite number")
    if isinstance(value, int):
        if -MAX_INT <= value <= MAX_INT:
            return value
        raise ExpressionError("the result is a number that is too big")
    raise ExpressionError(f"a number was expected, not {_kind(value)}")


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__


def _needs_numbers(symbol: str, left: object, right: object) -> None:
    if not (isinstance(left, Number) and isinstance(right, Number)):
        raise ExpressionError(f"{symbol} needs two numbers, not {_kind(left)} and {_kind(right)}")


def _arithmetic(symbol: str, compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return an operator for numbers only: no text formatting by %, no repetition of lists by *."""

    def operate(left: Any, right: Any) -> Any:
        _needs_numbers(symbol, left, right)
        return number(compute(left, right))

    return operate


# The most frequent operators are written out, because a call takes longer than the operation.


def _subtract(left: Any, right: Any) -> Any:
    if left.__class__ in _PLAIN and right.__class__ in _PLAIN:
        result = left - right
        return result if -_SURE < result < _SURE else number(result)
    _needs_numbers("-", left, right)
    return number(left - right)


def _multiply(left: Any, right: Any) -> Any:
    if left.__class__ in _PLAIN and right.__class__ in _PLAIN:
        result = left * right
        return result if -_SURE < result < _SURE else number(result)
    _needs_numbers("*", left, right)
    return number(left * right)


def _divide(left: Any, right: Any) -> Any:
    if left.__class__ in _PLAIN and right.__class__ in _PLAIN:
        result = left / right
        return result if -_SURE < result < _SURE else number(result)
    _needs_numbers("/", left, right)
    return number(left / right)


def _add(left: Any, right: Any) -> Any:
    if left.__class__ in _PLAIN and right.__class__ in _PLAIN:
        result = left + right
        return result if -_SURE < result < _SURE else number(result)
    kind = type(left)
    if kind in (str, list, tuple) and type(right) is kind:
        if len(left) + len(right) > MAX_LENGTH:
            raise ExpressionError(f"the result of + is longer than {MAX_LENGTH}")
        return left + right
    _needs_numbers("+", left, right)
    return number(left + right)


def _power(left: Any, right: Any) -> Any:
    _needs_numbers("**", left, right)
    if isinstance(left, int) and isinstance(right, int) and abs(left) > 1 and right > 63:
        raise ExpressionError("the result of ** is a number that is too big")
    return number(left**right)


def _negative(value: Any) -> Any:
    return number(-number(value))


OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = MappingProxyType(
    {
        ast.Add: _add,
        ast.Sub: _subtract,
        ast.Mult: _multiply,
        ast.Div: _divide,
        ast.FloorDiv: _arithmetic("//", operator.floordiv),
        ast.Mod: _arithmetic("%", operator.mod),
        ast.Pow: _power,
        ast.Eq: operator.eq,
        ast.NotEq: operator.ne,
        ast.Gt: operator.gt,
        ast.Lt: operator.lt,
        ast.GtE: operator.ge,
        ast.LtE: operator.le,
        ast.In: lambda left, right: left in right,
        ast.NotIn: lambda left, right: left not in right,
        ast.Is: operator.is_,
        ast.IsNot: operator.is_not,
        ast.Not: operator.not_,
        ast.USub: _negative,
        ast.UAdd: number,
    }
)


@rule_function(place="any", pure=True)
def _min(*a: Any) -> Any:
    """Return minimum; also of one list."""
    return min(*a)


@rule_function(place="any", pure=True)
def _max(*a: Any) -> Any:
    """Return maximum; also of one list."""
    return max(*a)


@rule_function(place="any", pure=True)
def _abs(x: Any) -> float:
    """Return absolute value."""
    return abs(number(x))  # type: ignore[no-any-return]  # a number


@rule_function(place="any", pure=True)
def _round(x: Any, digits: Any = None) -> float:
    """Return rounded, to a whole number or to so many digits."""
    if digits is not None and (type(digits) is not int or abs(digits) > 20):
        raise ExpressionError("round takes at most 20 digits")
    return number(round(number(x), digits))  # type: ignore[no-any-return]  # a number


@rule_function(place="any", pure=True)
def _len(x: Any) -> int:
    """Return length of a list, text or mapping."""
    return len(x)


@rule_function(place="any", pure=True)
def _floor(x: Any) -> int:
    """Return rounded down."""
    return number(math.floor(number(x)))  # type: ignore[no-any-return]  # a number


@rule_function(place="any", pure=True)
def _ceil(x: Any) -> int:
    """Return rounded up."""
    return number(math.ceil(number(x)))  # type: ignore[no-any-return]  # a number


@rule_function(place="any", pure=True)
def _int(x: Any) -> int:
    """Return whole number, from a number or a text."""
    return int(number(int(_numeric(x))))


@rule_function(place="any", pure=True)
def _float(x: Any) -> float:
    """Return number, from a number or a text."""
    return float(number(float(_numeric(x))))


def _numeric(value: Any) -> Any:
    if isinstance(value, str):
        if len(value) > 40:
            raise ExpressionError("text of more than 40 characters cannot be read as a number")
        return value
    return number(value)


@rule_function(place="any", pure=True)
def _str(x: Any) -> str:
    """Return text, from a number or a truth value."""
    if isinstance(x, list | tuple | dict):
        raise ExpressionError(f"str converts numbers, text and truth values, not {_kind(x)}")
    return str(x)


@rule_function(place="any", pure=True)
def _bool(x: Any) -> bool:
    """Return whether it is neither zero nor empty nor none."""
    return bool(x)


@rule_function(place="any", pure=True)
def _sqrt(x: Any) -> float:
    """Return square root."""
    return math.sqrt(x)


@rule_function(place="any", pure=True)
def _log(x: Any, base: Any = math.e) -> float:
    """Return logarithm; `base` is e if it is left out."""
    return math.log(x) if base == math.e else math.log(x, base)


@rule_function(place="any", pure=True)
def _exp(x: Any) -> float:
    """Return e to the power of `x`."""
    return number(math.exp(x))  # type: ignore[no-any-return]  # a number


@rule_function(place="any", pure=True)
def _sin(x: Any) -> float:
    """Return sine of an angle in radians."""
    return math.sin(x)


@rule_function(place="any", pure=True)
def _cos(x: Any) -> float:
    """Return cosine of an angle in radians."""
    return math.cos(x)


@rule_function(place="any", pure=True)
def _sum(x: Any) -> float:
    """Return sum of a list; for numbers with fractions it is rounded once, so their order does not matter."""
    try:
        total = sum(_list("sum", x))
        if total.__class__ is int:  # so all items are whole numbers or truth values
            return number(total)  # type: ignore[no-any-return]  # a number
    except TypeError:  # the next line says which item is no number
        pass
    numbers = [number(value) for value in x]
    whole = all(isinstance(value, int) for value in numbers)
    return number(sum(numbers) if whole else math.fsum(numbers))  # type: ignore[no-any-return]  # a number


@rule_function(place="any", pure=True)
def _sorted(x: Any) -> list[Any]:
    """Return items of a list in order."""
    return sorted(_list("sorted", x))


@rule_function(place="any", pure=True)
def _any(x: Any) -> bool:
    """Return whether an item of a list is true."""
    return any(_list("any", x))


@rule_function(place="any", pure=True)
def _all(x: Any) -> bool:
    """Return whether all items of a list are true."""
    return all(_list("all", x))


@rule_function(place="any", pure=True)
def _first(x: Any) -> Any:
    """Return first item of a list or text; of an empty one, none."""
    if not isinstance(x, str | list | tuple):
        raise ExpressionError(f"first needs a list or text, not {_kind(x)}")
    return x[0] if x else None


@rule_function(place="any", pure=True)
def _range(first: Any, end: Any = None, step: Any = 1) -> list[int]:
    """Return whole numbers from `first` to before `end`; with one argument, from 0 to before it."""
    if any(type(bound) is not int for bound in (first, step, 0 if end is None else end)) or not step:
        raise ExpressionError("range needs whole numbers, and a step that is not 0")
    numbers = range(first) if end is None else range(first, end, step)
    if len(numbers) > MAX_LENGTH:
        raise ExpressionError(f"the result of range is longer than {MAX_LENGTH}")
    return list(numbers)


@rule_function(place="any", pure=True)
def _zip(*lists: Any) -> list[list[Any]]:
    """Return lists of the first items of all lists, of the second, and so on, as long as all have one."""
    return [list(items) for items in zip(*(_list("zip", values) for values in lists), strict=False)]


@rule_function(place="any", pure=True)
def _enumerate(x: Any, first: Any = 0) -> list[list[Any]]:
    """Return lists of a number, from `first` on, and an item of a list."""
    if type(first) is not int:
        raise ExpressionError(f"enumerate counts from a whole number, not {_kind(first)}")
    return [[number(first + place), item] for place, item in enumerate(_list("enumerate", x))]


@rule_function(place="any", pure=True)
def _distinct(x: Any) -> list[Any]:
    """Return the items of a list without those that are equal to one before."""
    items_by_key: dict[Any, Any] = {}
    for item in _list("distinct", x):
        items_by_key.setdefault(_comparable(item), item)
    return list(items_by_key.values())


def _comparable(value: Any) -> Any:
    """Return a hashable value that is equal for equal values."""
    if isinstance(value, dict):
        return dict, frozenset((key, _comparable(inner)) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return type(value), tuple(map(_comparable, value))
    return value


@rule_function(place="any", pure=True)
def _contains(x: Any, item: Any) -> bool:
    """Return whether a list or text contains an item."""
    if not isinstance(x, str | list | tuple | dict):
        raise ExpressionError(f"contains needs a list or text, not {_kind(x)}")
    return item in x


def _list(function: str, values: Any) -> Any:
    if not isinstance(values, list | tuple):
        raise ExpressionError(f"{function} needs a list, not {_kind(values)}")
    return values


PURE_FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {name: declared.function for name, declared in functions_at("any").items()}
)
"""Functions without side effects or state."""
