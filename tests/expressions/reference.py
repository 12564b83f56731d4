"""A direct interpreter of expressions: what each node means, in the fewest words, without limits and without speed.

The compiler is compared with it. It shares the operators and pure functions with the compiler, and nothing else.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sim.base.expressions import PURE_FUNCTIONS, ExpressionError
from sim.base.expressions.functions import OPERATORS

Names = Mapping[str, Any]
Functions = Mapping[str, Callable[..., Any]]


def interpret(node: Any, names: Names, functions: Functions) -> Any:  # noqa: C901 - one case for each kind of node
    """Return the value of a checked syntax tree.

    Raises:
        Exception: of any kind, if it has no value.
    """

    def go(inner: ast.expr) -> Any:
        return interpret(inner, names, functions)

    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return names[node.id]
        case ast.UnaryOp():
            return OPERATORS[type(node.op)](go(node.operand))
        case ast.BinOp():
            return OPERATORS[type(node.op)](go(node.left), go(node.right))
        case ast.BoolOp():
            return _joined(node, go)
        case ast.IfExp():
            return go(node.body) if go(node.test) else go(node.orelse)
        case ast.Compare():
            return _chain(node, go)
        case ast.Call(func=ast.Name(id=name)):
            function = PURE_FUNCTIONS.get(name) or functions[name]
            return function(*map(go, node.args), **{str(word.arg): go(word.value) for word in node.keywords})
        case ast.Attribute():
            return _item(go(node.value), node.attr)
        case ast.Subscript(slice=ast.Slice(lower=lower, upper=upper, step=step)):
            return _slice(go(node.value), [None if bound is None else go(bound) for bound in (lower, upper, step)])
        case ast.Subscript():
            return _item(go(node.value), go(node.slice))
        case ast.Dict():
            pairs = [(go(key), go(value)) for key, value in zip(node.keys, node.values, strict=True) if key]
            return {_text(key): value for key, value in pairs}
        case ast.List():
            return [go(element) for element in node.elts]
        case ast.Tuple():
            return tuple(go(element) for element in node.elts)
        case ast.ListComp() | ast.GeneratorExp():
            return list(_loop(node, node.generators, names, functions))
        case _:
            pass
    raise AssertionError(f"{node!r} is not in the grammar")


def _loop(node: Any, loops: list[ast.comprehension], names: Names, functions: Functions) -> Iterator[Any]:
    if not loops:
        yield interpret(node.elt, names, functions)
        return
    first, *more = loops
    items = interpret(first.iter, names, functions)
    assert isinstance(items, list | tuple)
    for item in items:
        inner = {**names, **_bound(first.target, item)}
        if all(interpret(condition, inner, functions) for condition in first.ifs):
            yield from _loop(node, more, inner, functions)


def _bound(target: Any, item: Any) -> dict[str, Any]:
    if isinstance(target, ast.Name):
        return {target.id: item}
    assert isinstance(item, list | tuple)
    return {name.id: part for name, part in zip(target.elts, item, strict=True)}


def _joined(node: ast.BoolOp, go: Callable[[ast.expr], Any]) -> Any:
    value = None
    for inner in node.values:
        value = go(inner)
        if bool(value) is isinstance(node.op, ast.Or):
            break
    return value


def _chain(node: ast.Compare, go: Callable[[ast.expr], Any]) -> Any:
    left, result = go(node.left), True
    for operation, inner in zip(node.ops, node.comparators, strict=True):
        right = go(inner)
        result = OPERATORS[type(operation)](left, right)
        if not result:
            break
        left = right
    return result


def _item(container: Any, key: Any) -> Any:
    assert isinstance(container, dict) or (isinstance(container, list | tuple | str) and type(key) is int)
    return container[key]


def _slice(container: Any, bounds: list[Any]) -> Any:
    assert isinstance(container, list | tuple | str)
    assert all(bound is None or type(bound) is int for bound in bounds)
    return container[slice(*bounds)]


def _text(key: Any) -> str:
    if not isinstance(key, str):
        raise ExpressionError("a key is text")
    return key
