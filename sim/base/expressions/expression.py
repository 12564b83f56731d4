"""An expression: parsed and checked once, compiled at its first use, evaluated many times."""

import ast
import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NoReturn

import attrs

from sim.base.expressions.compiler import Compiled, compile_expression
from sim.base.expressions.errors import ExpressionError, did_you_mean
from sim.base.expressions.grammar import Grammar, Literal, read
from sim.base.expressions.names import Functions, Names

INSTEAD: Final[Mapping[str, str]] = {
    "list": "write [x for x in items], or sorted(items)",
    "set": "write distinct(items), and `x in items`",
    "dict": "write {key: value}",
    "map": "write [x * 2 for x in items]",
    "filter": "write [x for x in items if x > 0]",
    "pow": "write x ** y",
    "random": "write uniform(0, 1), or chance(0.5)",
    "normal": "write gauss(mean, deviation)",
    "isinstance": "a missing value is found by `x is None`",
    "print": "an agent records a number with `record`",
}
"""Functions of Python that expressions do not have, and what to write instead."""


@attrs.frozen
class Expression:
    """A checked expression.

    Attributes:
        text: the source text.
        names: the free names that it uses.
        functions: the functions that it calls.
        literals: texts written directly as arguments of calls.
        members: keys of free names that it reads: (`message`, `sender`) for `message.sender`.
    """

    text: str
    names: frozenset[str]
    functions: frozenset[str]
    literals: tuple[Literal, ...]
    members: tuple[tuple[str, str], ...]
    _code: "_Code" = attrs.field(eq=False, repr=False)

    @classmethod
    def parse(
        cls, text: str, names: Collection[str] | None = None, functions: Collection[str] | None = None
    ) -> "Expression":
        """Return the expression that `text` holds.

        Args:
            text: at most 1,000 characters.
            names: the names it may use, or None for any.
            functions: the functions it may call, or None for any.

        Raises:
            ExpressionError: naming the part that is not allowed, with the nearest known name as hint.
        """
        code = _read(text)
        grammar = code.grammar
        if names is not None:
            _require("name", grammar.names, names)
        if functions is not None:
            _require("function", grammar.functions, functions)
        return cls(text, grammar.names, grammar.functions, grammar.literals, grammar.members, code)

    def conjuncts(self) -> tuple["Expression", ...]:
        """Return the parts that `and` joins at the top level, in order; the expression itself if there is no `and`."""
        tree = self._code.grammar.tree
        if not (isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And)):
            return (self,)
        try:
            parts = tuple(type(self).parse(ast.unparse(part)) for part in tree.values)
        except ExpressionError:  # written out with all its brackets, a part can be longer than the limit
            return (self,)
        return tuple(inner for part in parts for inner in part.conjuncts())

    def evaluate(self, names: Names, functions: Functions, *, lenient: bool = False) -> Any:
        """Return the value of the expression.

        Args:
            names: what each name stands for.
            functions: what each function does.
            lenient: whether what is computed from no value, and a quotient by zero, is None and no error.

        Raises:
            ExpressionError: for any failure inside: a missing key, a division by zero, a wrong type,
                a result that is too big.
        """
        code = self._code
        run = code.lenient if lenient else code.strict
        try:
            return run(names, functions)
        except Exception as error:  # any failure inside means that this expression cannot be evaluated
            code.fail(error, lenient=lenient)

    @property
    def tree(self) -> ast.expr:
        """The checked syntax tree. It must not be changed."""
        return self._code.grammar.tree


class _Code:
    """A checked expression and its code, which is written at the first use.

    Attributes:
        grammar: the checked expression.
    """

    __slots__ = ("_compiled", "_text", "grammar", "lenient", "strict")

    def __init__(self, text: str, grammar: Grammar) -> None:
        self.grammar = grammar
        self._text = text
        self._compiled: dict[bool, Compiled] = {}
        self.strict: Callable[..., Any] = functools.partial(self._first, False)
        self.lenient: Callable[..., Any] = functools.partial(self._first, True)

    def _first(self, lenient: bool, names: Names, functions: Functions) -> Any:
        run, compiled = compile_expression(self.grammar.tree, self._text, lenient=lenient)
        self._compiled[lenient] = compiled
        if lenient:
            self.lenient = run
        else:
            self.strict = run
        return run(names, functions)

    def fail(self, error: Exception, *, lenient: bool) -> NoReturn:
        """Raise the error of the expression for an error of its code."""
        raise self._compiled[lenient].explain(error)


@functools.lru_cache(maxsize=4096)
def _read(text: str) -> _Code:
    """Parse a text; cached, because a thousand agents often share their rules."""
    return _Code(text, read(text))


def _require(what: str, used: frozenset[str], defined: Collection[str]) -> None:
    for name in sorted(used):
        if name not in defined:
            hint = (INSTEAD.get(name) if what == "function" else None) or did_you_mean(name, defined)
            raise ExpressionError(f"there is no {what} {name!r} here", hint=hint)
