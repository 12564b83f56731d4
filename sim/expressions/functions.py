"""The pure functions and the operators of expressions. Each limits the size of its result."""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from sim.expressions.errors import ExpressionError
from sim.expressions.grammar import MAX_INT

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


def _min(*values: Any) -> Any:
    return min(*values)


def _max(*values: Any) -> Any:
    return max(*values)


def _abs(value: Any) -> Any:
    return abs(number(value))


def _round(value: Any, digits: Any = None) -> Any:
    if digits is not None and (type(digits) is not int or abs(digits) > 20):
        raise ExpressionError("round takes at most 20 digits")
    return number(round(number(value), digits))


def _int(value: Any) -> int:
    return int(number(int(_numeric(value))))


def _float(value: Any) -> float:
    return float(number(float(_numeric(value))))


def _numeric(value: Any) -> Any:
    if isinstance(value, str):
        if len(value) > 40:
            raise ExpressionError("text of more than 40 characters cannot be read as a number")
        return value
    return number(value)


def _str(value: Any) -> str:
    if isinstance(value, list | tuple | dict):
        raise ExpressionError(f"str converts numbers, text and truth values, not {_kind(value)}")
    return str(value)


def _log(value: Any, base: Any = math.e) -> float:
    return math.log(value) if base == math.e else math.log(value, base)


def _first(values: Any) -> Any:
    if not isinstance(values, str | list | tuple):
        raise ExpressionError(f"first needs a list or text, not {_kind(values)}")
    return values[0] if values else None


def _contains(container: Any, item: Any) -> bool:
    if not isinstance(container, str | list | tuple | dict):
        raise ExpressionError(f"contains needs a list or text, not {_kind(container)}")
    return item in container


def _sum(values: Any) -> Any:
    """Return the sum. For floats it is rounded once (`fsum`), so their order does not matter."""
    try:
        total = sum(_list("sum", values))
        if total.__class__ is int:  # so all items are whole numbers or truth values
            return number(total)
    except TypeError:  # the next line says which item is no number
        pass
    numbers = [number(value) for value in values]
    return number(sum(numbers) if all(isinstance(value, int) for value in numbers) else math.fsum(numbers))


def _list(function: str, values: Any) -> Any:
    if not isinstance(values, list | tuple):
        raise ExpressionError(f"{function} needs a list, not {_kind(values)}")
    return values


PURE_FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "min": _min,
        "max": _max,
        "abs": _abs,
        "round": _round,
        "len": lambda value: len(value),
        "floor": lambda value: number(math.floor(number(value))),
        "ceil": lambda value: number(math.ceil(number(value))),
        "int": _int,
        "float": _float,
        "str": _str,
        "bool": lambda value: bool(value),
        "sqrt": lambda value: math.sqrt(value),
        "log": _log,
        "exp": lambda value: number(math.exp(value)),
        "sum": _sum,
        "sorted": lambda values: sorted(_list("sorted", values)),
        "any": lambda values: any(_list("any", values)),
        "all": lambda values: all(_list("all", values)),
        "first": _first,
        "contains": _contains,
    }
)
"""Functions without side effects or state. `first` of an empty list is None; the base of `log` is optional."""
