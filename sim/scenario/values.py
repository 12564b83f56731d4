"""Values that are literal or contain expressions (text that starts with `=`) at any depth."""

import copy
from collections.abc import Callable
from typing import Any

import attrs

from sim.base.expressions import Expression, ExpressionError, Functions, Names


@attrs.frozen
class ValueTemplate:
    """A value of a scenario file: constant, or evaluated each time it is used.

    Attributes:
        raw: the value as written in the file.
        constant: whether it contains no expression.
        expression: the expression, if the value as a whole is one.
        expressions: every expression in it, at any depth.
    """

    raw: Any
    constant: bool
    expression: Expression | None = None
    expressions: tuple[Expression, ...] = ()
    _parts: "list[ValueTemplate] | dict[str, ValueTemplate] | None" = attrs.field(default=None, repr=False)

    @property
    def parts(self) -> "list[ValueTemplate] | dict[str, ValueTemplate] | None":
        """The values of a list or mapping in which not all are constant."""
        return self._parts

    @property
    def names(self) -> frozenset[str]:
        """The names that its expressions use."""
        return frozenset(name for expression in self.expressions for name in expression.names)

    @property
    def functions(self) -> frozenset[str]:
        """The functions that its expressions call."""
        return frozenset(name for expression in self.expressions for name in expression.functions)

    def evaluate(self, names: Names, functions: Functions) -> Any:
        """Return the value; lists and mappings are copies, so that no two users share one.

        Args:
            names: the values of the names in its expressions.
            functions: the functions that they may call.

        Raises:
            ExpressionError: if an expression in it cannot be evaluated.
        """
        if self.expression is not None:
            return self.expression.evaluate(names, functions)
        parts = self._parts
        if parts is None:
            return copy.deepcopy(self.raw) if isinstance(self.raw, dict | list) else self.raw
        if isinstance(parts, dict):
            return {key: part.evaluate(names, functions) for key, part in parts.items()}
        return [part.evaluate(names, functions) for part in parts]


def is_expression(raw: object) -> bool:
    """Return whether a raw value is an expression: text with one `=` in front."""
    return isinstance(raw, str) and raw.startswith("=") and not raw.startswith("==")


def compile_value(
    raw: Any, check: Callable[[Expression], None] | None = None, check_text: Callable[[str], None] | None = None
) -> ValueTemplate:
    """Return a raw value with its expressions parsed.

    Args:
        raw: a JSON-like value.
        check: called with each expression; it may raise ExpressionError.
        check_text: called with each text that is no expression; it may raise ExpressionError.

    Raises:
        ExpressionError: if an expression in it is not allowed. For one inside a collection it is a
            `PartError`, whose `path` leads to it.
    """
    if is_expression(raw):
        expression = Expression.parse(raw[1:])
        if check is not None:
            check(expression)
        return ValueTemplate(raw, False, expression, (expression,))
    if isinstance(raw, dict):
        parts: Any = {key: _compile_part(key, value, check, check_text) for key, value in raw.items()}
        return _collection({key: part.raw for key, part in parts.items()}, parts, list(parts.values()))
    if isinstance(raw, list | tuple):
        parts = [_compile_part(index, value, check, check_text) for index, value in enumerate(raw)]
        return _collection([part.raw for part in parts], parts, parts)
    if check_text is not None and isinstance(raw, str):
        check_text(raw)
    return ValueTemplate(raw, True)


def _collection(raw: Any, parts: Any, inner: list[ValueTemplate]) -> ValueTemplate:
    constant = all(part.constant for part in inner)
    expressions = tuple(expression for part in inner for expression in part.expressions)
    return ValueTemplate(raw, constant, None, expressions, None if constant else parts)


class PartError(ExpressionError):
    """An expression inside a list or mapping is not allowed; `path` leads to it."""

    def __init__(self, message: str, hint: str | None, path: tuple[str | int, ...]) -> None:
        super().__init__(message, hint=hint)
        self.path = path


def _compile_part(
    key: str | int,
    raw: Any,
    check: Callable[[Expression], None] | None,
    check_text: Callable[[str], None] | None,
) -> ValueTemplate:
    try:
        return compile_value(raw, check, check_text)
    except PartError as error:
        raise PartError(str(error), error.hint, (key, *error.path)) from None
    except ExpressionError as error:
        raise PartError(str(error), error.hint, (key,)) from None


@attrs.frozen
class Filter:
    """A condition on later items or events, as an argument of an action. Names of the agent in it are evaluated when
    the agent decides on the action.

    Attributes:
        test: the expression.
        own: names that stand for the tested item or event.
    """

    test: Expression
    own: frozenset[str]

    @property
    def names(self) -> frozenset[str]:
        """The names of the agent that it uses."""
        return self.test.names - self.own

    @property
    def constant(self) -> bool:
        """Whether it uses none."""
        return not self.names

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """Every expression in it."""
        return (self.test,)

    def evaluate(self, names: Names, functions: Functions) -> Any:
        """Return the condition as the mapping that an action takes."""
        return {"test": self.test.text, "given": {name: names[name] for name in sorted(self.names)}}
