"""An expression: parsed and checked once, evaluated many times.

simpleeval walks the syntax tree; its handlers for names, calls, attributes and subscripts are replaced here,
because they allow more than the grammar does: attributes of objects, functions as values, ranges of keys.
"""

import ast
import functools
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import attrs
from simpleeval import (  # type: ignore[import-untyped]  # it ships no types
    EvalWithCompoundTypes,
    InvalidExpression,
    SimpleEval,
)

from sim.expressions.errors import ExpressionError, did_you_mean
from sim.expressions.functions import OPERATORS, PURE_FUNCTIONS
from sim.expressions.grammar import Grammar, Literal, read
from sim.expressions.missing import LENIENT, ORDERINGS, lacks_value

MAX_RESULT = 100_000
"""The most values in a result, counted at any depth: repeating x = `[x, x]` doubles the size each time."""


MAX_WORK = 20_000
"""The most steps of all loops of one evaluation: each item counts, and each value that a step reads."""


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
    _tree: ast.expr = attrs.field(eq=False, repr=False)

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
        grammar = _read(text)
        if names is not None:
            _require("name", grammar.names, names)
        if functions is not None:
            _require("function", grammar.functions, functions)
        return cls(text, grammar.names, grammar.functions, grammar.literals, grammar.members, grammar.tree)

    def evaluate(
        self, names: Mapping[str, object], functions: Mapping[str, Callable[..., object]], *, lenient: bool = False
    ) -> Any:
        """Return the value of the expression.

        Args:
            names: what each name stands for.
            functions: what each function does.
            lenient: whether what is computed from no value, and a quotient by zero, is None and no error.

        Raises:
            ExpressionError: for any failure inside: a missing key, a division by zero, a wrong type,
                a result that is too big.
        """
        try:
            result = (_Lenient if lenient else _Evaluator)(names, functions)._eval(self._tree)
            if isinstance(result, list | tuple | dict):
                _measure(result)
        except ExpressionError as error:
            raise ExpressionError(f"{self.text!r}: {error}", hint=error.hint) from None
        except InvalidExpression as error:
            raise ExpressionError(f"{self.text!r}: {error}") from None
        except Exception as error:  # any failure inside means that this expression cannot be evaluated
            raise ExpressionError(f"{self.text!r}: {str(error) or type(error).__name__}") from error
        return result


@functools.lru_cache(maxsize=4096)
def _read(text: str) -> Grammar:
    """Parse a text; cached, because a thousand agents often share their rules."""
    return read(text)


def _require(what: str, used: frozenset[str], known: Collection[str]) -> None:
    for name in sorted(used):
        if name not in known:
            hint = did_you_mean(name, known)
            raise ExpressionError(f"there is no {what} {name!r} here", hint=hint)


def _measure(result: object) -> None:
    """Refuse a result with too many values or too deep nesting; shared parts count each time they occur."""
    if _size(result, MAX_RESULT) > MAX_RESULT:
        raise ExpressionError(f"the result holds more than {MAX_RESULT} values")


def _size(result: object, limit: int) -> int:
    """Return the number of values in a collection at any depth; counting stops above `limit`."""
    count = 0
    level: list[Any] = [result]
    for _ in range(50):
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
    raise ExpressionError("the result is nested more than 50 deep")


def _parts(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


class _Evaluator(EvalWithCompoundTypes):  # type: ignore[misc]
    """The evaluator of simpleeval with other handlers.

    There is one for each evaluation, because a function may evaluate another expression.
    """

    operators = OPERATORS
    lenient = False
    expr = ""

    def __init__(self, names: Mapping[str, object], functions: Mapping[str, Callable[..., object]]) -> None:
        # simpleeval's own constructor copies its tables, which costs more than most evaluations
        self.names = names
        self.functions = functions

    def __del__(self) -> None:
        """No-op: simpleeval breaks a reference cycle here that this class does not have."""

    def _eval(self, node: ast.AST) -> Any:
        # the tree was checked before: every node type in it is in the table
        return _HANDLERS[type(node)](self, node)

    def _eval_name(self, node: ast.Name) -> Any:
        try:
            return self.names[node.id]
        except KeyError:
            known = list(self.names)
            raise ExpressionError(f"there is no name {node.id!r} here", hint=did_you_mean(node.id, known)) from None

    def _eval_binop(self, node: ast.BinOp) -> Any:
        left, right = self._eval(node.left), self._eval(node.right)
        try:
            return self.operators[type(node.op)](left, right)
        except ExpressionError:
            _require_values((node.left, left), (node.right, right))
            raise

    def _eval_unaryop(self, node: ast.UnaryOp) -> Any:
        value = self._eval(node.operand)
        try:
            return self.operators[type(node.op)](value)
        except ExpressionError:
            _require_values((node.operand, value))
            raise

    def _eval_compare(self, node: ast.Compare) -> Any:
        """Return whether all comparisons of a chain hold."""
        left_node, left = node.left, self._eval(node.left)
        result: Any = True
        for operation, right_node in zip(node.ops, node.comparators, strict=True):
            right = self._eval(right_node)
            try:
                result = self.operators[type(operation)](left, right)
            except TypeError:
                if type(operation) in ORDERINGS:
                    _require_values((left_node, left), (right_node, right))
                raise
            if not result:
                break
            left_node, left = right_node, right
        return result

    def _eval_call(self, node: ast.Call) -> Any:
        name = node.func.id  # type: ignore[attr-defined]
        function = self.functions.get(name)
        if function is None:
            raise ExpressionError(f"there is no function {name!r} here", hint=did_you_mean(name, list(self.functions)))
        keywords = {keyword.arg: self._eval(keyword.value) for keyword in node.keywords if keyword.arg}
        arguments = [self._eval(argument) for argument in node.args]
        if self.lenient and name in PURE_FUNCTIONS and lacks_value(name, arguments):
            return None
        try:
            return function(*arguments, **keywords)
        except (TypeError, ExpressionError):
            if name in PURE_FUNCTIONS:
                _require_values(*zip(node.args, arguments, strict=True))
            raise

    def _eval_attribute(self, node: ast.Attribute) -> Any:
        return _item(self._eval(node.value), node.attr)

    def _eval_loop(self, node: Any) -> list[Any]:
        """Return the list of a comprehension."""
        loop = node.generators[0]
        items = self._eval(loop.iter)
        if not isinstance(items, list | tuple):
            raise ExpressionError(f"`for` needs a list, not {'None' if items is None else type(items).__name__}")
        names = _Bound(self.names)
        inner = self._loop(names, self.functions, self.work if isinstance(self, _Loop) else [0])
        result = []
        for item in items:
            inner.spend(1)
            names[loop.target.id] = item
            if all(inner._eval(condition) for condition in loop.ifs):
                result.append(inner._eval(node.elt))
        return result

    def _eval_subscript(self, node: ast.Subscript) -> Any:
        if isinstance(node.slice, ast.Slice):
            parts = (node.slice.lower, node.slice.upper, node.slice.step)
            return _slice(self._eval(node.value), [None if part is None else self._eval(part) for part in parts])
        return _item(self._eval(node.value), self._eval(node.slice))

    def _eval_dict(self, node: ast.Dict) -> dict[Any, Any]:
        pairs = zip(node.keys, node.values, strict=True)
        result = {self._eval(key): self._eval(value) for key, value in pairs if key is not None}
        for key in result:
            if not isinstance(key, str):
                raise ExpressionError(f"the keys of a mapping are text, not {key!r}")
        return result

    @property
    def _loop(self) -> "type[_Loop]":
        return _Loop


class _Bound(dict[str, Any]):
    """The variable of a loop, and the names around it."""

    def __init__(self, outer: Mapping[str, object]) -> None:
        super().__init__()
        self._outer = outer

    def __missing__(self, name: str) -> Any:
        return self._outer[name]


class _Loop(_Evaluator):
    """Evaluates the body of a loop, and counts the steps of all loops of the expression together."""

    def __init__(
        self, names: Mapping[str, object], functions: Mapping[str, Callable[..., object]], work: list[int]
    ) -> None:
        super().__init__(names, functions)
        self.work = work

    def spend(self, steps: int) -> None:
        self.work[0] += steps
        if self.work[0] > MAX_WORK:
            raise ExpressionError(f"the loops take more than {MAX_WORK} steps", hint="loop over a shorter list")

    def _eval(self, node: ast.AST) -> Any:
        value = super()._eval(node)
        if isinstance(value, str):
            self.spend(len(value) // 100)
        elif isinstance(value, list | tuple | dict):
            self.spend(_size(value, MAX_WORK))
        return value


class _Lenient(_Evaluator):
    """Evaluates a metric: what is computed from no value is None, and so is a quotient by zero."""

    operators = LENIENT
    lenient = True

    @property
    def _loop(self) -> "type[_Loop]":
        return _LenientLoop


class _LenientLoop(_Lenient, _Loop):
    """Evaluates the body of a loop in a metric."""


def _require_values(*operands: tuple[ast.AST, Any]) -> None:
    """Name the operand that has no value, if that is why an operator failed.

    Raises:
        ExpressionError: if one has none.
    """
    for node, value in operands:
        if value is None:
            text = ast.unparse(node)
            raise ExpressionError(f"`{text}` has no value (null)", hint=f"test it first: {text} is not None and ...")


def _slice(container: Any, bounds: list[Any]) -> Any:
    """Return a slice of a list or text."""
    if not isinstance(container, list | tuple | str):
        raise ExpressionError(f"a slice needs a list or text, not {type(container).__name__}")
    if any(bound is not None and type(bound) is not int for bound in bounds):
        raise ExpressionError("the bounds of a slice are whole numbers")
    return container[slice(*bounds)]


def _item(container: Any, key: Any) -> Any:
    """Return one item of a mapping, list or text. Attributes of objects are not accessible."""
    if isinstance(container, dict | types.MappingProxyType):
        if key in container:
            return container[key]
        hint = did_you_mean(str(key), [known for known in container if isinstance(known, str)])
        raise ExpressionError(f"there is no key {key!r}", hint=hint)
    if isinstance(container, list | tuple | str) and type(key) is int:
        try:
            return container[key]
        except IndexError:
            raise ExpressionError(f"there is no item {key}: there are {len(container)}") from None
    kind = "None" if container is None else type(container).__name__
    raise ExpressionError(f"{kind} has no item {key!r}")


_HANDLERS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Constant: lambda evaluator, node: node.value,
    ast.Name: _Evaluator._eval_name,
    ast.UnaryOp: _Evaluator._eval_unaryop,
    ast.BinOp: _Evaluator._eval_binop,
    ast.BoolOp: SimpleEval._eval_boolop,
    ast.Compare: _Evaluator._eval_compare,
    ast.IfExp: SimpleEval._eval_ifexp,
    ast.Call: _Evaluator._eval_call,
    ast.Attribute: _Evaluator._eval_attribute,
    ast.Subscript: _Evaluator._eval_subscript,
    ast.Dict: _Evaluator._eval_dict,
    ast.ListComp: _Evaluator._eval_loop,
    ast.GeneratorExp: _Evaluator._eval_loop,
    ast.List: EvalWithCompoundTypes._eval_list,
    ast.Tuple: EvalWithCompoundTypes._eval_tuple,
}
