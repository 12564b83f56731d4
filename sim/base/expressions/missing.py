"""Expressions over values that may be missing, as metrics are: what is computed from no value is no value.

The mean of no agents is not 0, and neither is a quotient by zero. A rule or a stop condition that computes with such a
value fails.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sim.base.expressions.functions import OPERATORS, PURE_FUNCTIONS

_QUOTIENTS: Final = (ast.Div, ast.FloorDiv, ast.Mod)
ORDERINGS: Final[tuple[type[ast.AST], ...]] = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_ANY_VALUE: Final = frozenset({"bool", "str", "len", "first", "contains", "any", "all", "zip", "enumerate", "distinct"})
"""Pure functions for which null is a value as any other."""


def _lenient(compute: Callable[..., Any], *, divides: bool) -> Callable[..., Any]:
    def operate(*values: Any) -> Any:
        if any(value is None for value in values) or (divides and _is_zero(values[1])):
            return None
        return compute(*values)

    return operate


def _is_zero(value: Any) -> bool:
    return isinstance(value, int | float) and value == 0


_STRICT: Final = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn, ast.Not)
LENIENT: Final[Mapping[type[ast.AST], Callable[..., Any]]] = {
    kind: compute if kind in _STRICT else _lenient(compute, divides=kind in _QUOTIENTS)
    for kind, compute in OPERATORS.items()
}
"""The operators for values that may be missing."""


def _lacks_value(function: str, arguments: Sequence[Any]) -> bool:
    """Return whether a pure function cannot be computed because an argument, or an item of a list, is no value.

    `min` and `max` of an empty list have no value either.
    """
    if function in _ANY_VALUE:
        return False
    if function in ("min", "max") and len(arguments) == 1 and arguments[0] in ([], ()):
        return True
    items = (item for value in arguments for item in (value if isinstance(value, list | tuple) else [value]))
    return any(item is None for item in items)


def _lenient_function(name: str) -> Callable[..., Any]:
    function = PURE_FUNCTIONS[name]

    def call(*arguments: Any, **named: Any) -> Any:
        return None if _lacks_value(name, arguments) else function(*arguments, **named)

    return call


LENIENT_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {name: _lenient_function(name) for name in PURE_FUNCTIONS}
"""The pure functions for values that may be missing."""
