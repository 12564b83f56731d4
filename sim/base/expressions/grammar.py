"""The syntax of expressions: an allowlist of node types, checked before anything is evaluated.

Python's parser reads the text, but only the node types named here are accepted. This excludes every way to read an
attribute of an object or to define code: attributes are keys, and only plain names can be called. The only loops are
over the items of lists, and the evaluation limits their steps.
"""

import ast
import math
import warnings
from typing import Any

import attrs

from sim.base.expressions.errors import ExpressionError

MAX_TEXT = 1000
MAX_NODES = 200
MAX_DEPTH = 30
MAX_LOOPS = 10
"""The most loops within each other. CPython since 3.12 compiles at most 20 of them, and 3.13.0 crashes at more."""

MAX_INT = 2**63 - 1
"""Whole numbers must fit into 64 bits: this limits the work, and recorded JSON has no larger ones."""

_WORDS = {"true": True, "false": False, "none": None, "null": None}
_ALLOWED: dict[type[ast.AST], str] = {
    ast.BoolOp: "values",
    ast.IfExp: "test body orelse",
    ast.List: "elts",
    ast.Tuple: "elts",
}
_BINARY = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_UNARY = (ast.Not, ast.USub, ast.UAdd)
_REFUSED = {
    ast.Lambda: "a lambda",
    ast.JoinedStr: "an f-string",
    ast.Starred: "a star",
    ast.NamedExpr: "an assignment",
    ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.Slice: "a slice",
    ast.Set: "a set",
}


@attrs.frozen
class Literal:
    """A text written directly as an argument of a call, so that a loader can check what it refers to."""

    function: str
    position: int | str  # the place of the argument, or its name
    text: str


@attrs.frozen
class Grammar:
    """An expression that passed the checks: its syntax tree and what it refers to."""

    tree: ast.expr
    names: frozenset[str]
    functions: frozenset[str]
    literals: tuple[Literal, ...]
    members: tuple[tuple[str, str], ...]


def read(text: str) -> Grammar:
    """Parse `text` and check it against the allowlist.

    Raises:
        ExpressionError: if it is too long, not an expression, or uses something that is not allowed.
    """
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"the expression has {len(text)} characters, at most {MAX_TEXT} are allowed")
    if not text.strip():
        raise ExpressionError("the expression is empty")
    checker = _Checker()
    tree = checker.check(_parse(text.strip()), 1)
    functions = frozenset(checker.functions)
    return Grammar(tree, frozenset(checker.names), functions, tuple(checker.literals), tuple(checker.members))


def _parse(text: str) -> ast.expr:
    """Return Python's syntax tree; text over several lines (YAML blocks) is read as if in parentheses."""
    try:
        with warnings.catch_warnings():  # the parser warns about invalid escapes, which are harmless here
            warnings.simplefilter("ignore")
            return ast.parse(f"({text}\n)" if "\n" in text else text, mode="eval").body
    except SyntaxError as error:
        raise ExpressionError(f"{_short(text)} is not an expression: {error.msg}") from None
    except (ValueError, MemoryError, RecursionError, OverflowError):
        raise ExpressionError(f"{_short(text)} cannot be read as an expression") from None


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


class _Checker:
    """Walks the tree once, refuses nodes that are not allowed, and collects names, functions and literals."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.functions: set[str] = set()
        self.literals: list[Literal] = []
        self.members: list[tuple[str, str]] = []
        self._bound: list[str] = []  # the variables of the loops around the current node
        self._loops = 0  # how many these are
        self._nodes = 0

    def check(self, node: ast.expr, depth: int) -> ast.expr:
        """Return `node` with `true`, `none` and the like made constants."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise ExpressionError(f"the expression has more than {MAX_NODES} parts")
        if depth > MAX_DEPTH:
            raise ExpressionError(f"the expression is nested more than {MAX_DEPTH} deep")
        kind = type(node)
        if kind in _ALLOWED:
            self._children(node, _ALLOWED[kind].split(), depth)
            return node
        method = getattr(self, f"_check_{kind.__name__.lower()}", None)
        if method is None:
            raise ExpressionError(f"{_REFUSED.get(kind, kind.__name__)} is not allowed in an expression")
        return method(node, depth)  # type: ignore[no-any-return]

    def _children(self, node: ast.AST, fields: list[str], depth: int) -> None:
        for field in fields:
            child = getattr(node, field)
            checked = [self.check(c, depth + 1) for c in child] if isinstance(child, list) else None
            setattr(node, field, self.check(child, depth + 1) if checked is None else checked)

    def _check_constant(self, node: ast.Constant, depth: int) -> ast.expr:
        value = node.value
        if isinstance(value, bool | str) or value is None:
            return node
        if isinstance(value, int) and value <= MAX_INT:
            return node
        if isinstance(value, float) and math.isfinite(value):
            return node
        if isinstance(value, int | float):
            raise ExpressionError("the expression has a number that is too big")
        raise ExpressionError(f"{value!r} is not allowed in an expression")

    def _check_name(self, node: ast.Name, depth: int) -> ast.expr:
        if node.id in _WORDS:
            return ast.Constant(_WORDS[node.id])
        if node.id not in self._bound:
            self.names.add(_plain(node.id))
        return node

    def _check_unaryop(self, node: ast.UnaryOp, depth: int) -> ast.expr:
        self._operator(node.op, _UNARY)
        self._children(node, ["operand"], depth)
        return node

    def _check_binop(self, node: ast.BinOp, depth: int) -> ast.expr:
        self._operator(node.op, _BINARY)
        self._children(node, ["left", "right"], depth)
        return node

    def _operator(self, operator: ast.AST, allowed: tuple[type[ast.AST], ...]) -> None:
        if not isinstance(operator, allowed):
            raise ExpressionError(f"the operator {type(operator).__name__} is not allowed in an expression")

    def _check_compare(self, node: ast.Compare, depth: int) -> ast.expr:
        self._children(node, ["left", "comparators"], depth)
        for operator, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(operator, ast.Is | ast.IsNot) and not _is_none(right):
                raise ExpressionError("`is` compares with None only", hint="use == for other values")
        return node

    def _check_dict(self, node: ast.Dict, depth: int) -> ast.expr:
        if any(key is None for key in node.keys):
            raise ExpressionError("** is not allowed in an expression")
        self._children(node, ["keys", "values"], depth)
        return node

    def _check_attribute(self, node: ast.Attribute, depth: int) -> ast.expr:
        _plain(node.attr)
        if isinstance(node.value, ast.Name) and node.value.id not in self._bound:
            self.members.append((node.value.id, node.attr))
        self._children(node, ["value"], depth)
        return node

    def _check_subscript(self, node: ast.Subscript, depth: int) -> ast.expr:
        self._children(node, ["value"], depth)
        if isinstance(node.slice, ast.Slice):
            for field in ("lower", "upper", "step"):
                if (bound := getattr(node.slice, field)) is not None:
                    setattr(node.slice, field, self.check(bound, depth + 1))
            return node
        self._children(node, ["slice"], depth)
        return node

    def _check_listcomp(self, node: ast.ListComp | ast.GeneratorExp, depth: int) -> ast.expr:
        outer = len(self._bound)
        self._loops += len(node.generators)
        if self._loops > MAX_LOOPS:
            raise ExpressionError(f"the expression has more than {MAX_LOOPS} loops within each other")
        for loop in node.generators:
            loop.iter = self.check(loop.iter, depth + 1)
            self._bound += self._variables(loop)
            loop.ifs = [self.check(condition, depth + 1) for condition in loop.ifs]
        node.elt = self.check(node.elt, depth + 1)
        del self._bound[outer:]
        self._loops -= len(node.generators)
        return node

    def _variables(self, loop: ast.comprehension) -> list[str]:
        """Return the names that a loop binds: one, or several for items that are lists."""
        several = isinstance(loop.target, ast.Tuple | ast.List)
        targets = loop.target.elts if isinstance(loop.target, ast.Tuple | ast.List) else [loop.target]
        names = [target.id for target in targets if isinstance(target, ast.Name) and target.id not in _WORDS]
        if loop.is_async or len(names) < len(targets) or not names or len(set(names)) < len(names):
            hint = "write [x for x in items if x > 1], or [a + b for a, b in zip(items, others)]"
            what = "different plain names" if several else "plain names"
            raise ExpressionError(f"`for` needs {what} in an expression", hint=hint)
        return [_plain(name) for name in names]

    _check_generatorexp = _check_listcomp

    def _check_call(self, node: ast.Call, depth: int) -> ast.expr:
        if not isinstance(node.func, ast.Name):
            raise ExpressionError("only plain names can be called in an expression")
        name = _plain(node.func.id)
        self.functions.add(name)
        self._children(node, ["args"], depth)
        for keyword in node.keywords:
            if keyword.arg is None:
                raise ExpressionError("** is not allowed in an expression")
            _plain(keyword.arg)
            if isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str):
                self.literals.append(Literal(name, keyword.arg, keyword.value.value))
            keyword.value = self.check(keyword.value, depth + 1)
        for position, argument in enumerate(node.args):
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                self.literals.append(Literal(name, position, argument.value))
        return node


def _is_none(node: Any) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _plain(name: str) -> str:
    if name.startswith("_"):
        raise ExpressionError(f"the name {name!r} is not allowed: names in expressions do not start with _")
    return name
