"""Agents that decide in code: what their classes say of themselves. Their code is read, and never run."""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

import attrs

from sim.agents.family import family_for
from sim.scenario.schema import Agent

_FAMILY_CLASS: Final = 1  # the place of the class in `Family("kind", Class)`
_KEPT: Final = 64  # classes that are kept: each section asks for them, in each variant


@attrs.frozen
class AgentClass:
    """A class of agents.

    Attributes:
        name: its name, with its module.
        doc: its docstring; empty if it has none, or its source is not there.
        params: the name, type, default and description of each of its params.
        state: the state variables that its code names, beside those of the scenario.
        read: whether its source was there.
    """

    name: str
    doc: str = ""
    params: tuple[tuple[str, str, str, str], ...] = ()
    state: tuple[str, ...] = ()
    read: bool = False


def class_of(entry: Agent, sources: Mapping[str, bytes]) -> AgentClass:
    """Return the class of the agents of an entry.

    Args:
        entry: an entry whose agents decide in code.
        sources: the source code of modules, by path.
    """
    family = family_for(entry)
    if family is None:
        module, _, name = entry.kind.partition(":")
        stem = module.replace(".", "/")
        source = sources.get(f"{stem}.py") or sources.get(f"{stem}/__init__.py")
        return _read(f"{module}.{name}" if name else entry.kind, name, source)
    return _imported(family.agent)


@lru_cache(_KEPT)
def _imported(kind: type) -> AgentClass:
    name = f"{kind.__module__}.{kind.__qualname__}"
    try:
        source = textwrap.dedent(inspect.getsource(kind)).encode()
    except (OSError, TypeError):  # made in a program that kept no source
        return AgentClass(name, inspect.cleandoc(kind.__doc__ or ""))
    return _read(name, kind.__name__, source)


@lru_cache(_KEPT)
def _read(shown: str, name: str, source: bytes | None) -> AgentClass:
    try:
        tree = None if source is None else ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        tree = None
    if tree is None:
        return AgentClass(shown)
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    chain = list(_lineage(_class_named(tree, name), classes))
    if not chain:
        return AgentClass(shown)
    params = next((inner for one in chain for inner in one.body if _is_params(inner)), None)
    return AgentClass(
        shown,
        next((doc for one in chain if (doc := ast.get_docstring(one))), ""),
        () if params is None else tuple(_params(params)),
        tuple(sorted({key for one in chain for key in _states(one)})),
        read=True,
    )


def _class_named(tree: ast.Module, name: str) -> str:
    """Return the name of the class that a name of a module stands for: itself, or that of a `Family`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            targets = [target.id for target in node.targets if isinstance(target, ast.Name)]
            called = [one for one in (node.value, *node.value.args) if isinstance(one, ast.Call)]
            for call in called if name in targets else ():
                arguments = [*call.args, *(word.value for word in call.keywords if word.arg == "agent")]
                if len(arguments) > _FAMILY_CLASS and isinstance(argument := arguments[_FAMILY_CLASS], ast.Name):
                    return argument.id
    return name


def _lineage(name: str, classes: Mapping[str, ast.ClassDef]) -> Iterator[ast.ClassDef]:
    """Yield a class and, of those in the same file, the ones that it inherits from."""
    ahead, seen = [name], set()
    while ahead:
        name = ahead.pop(0)
        if name in classes and name not in seen:
            seen.add(name)
            yield classes[name]
            ahead += [base.id for base in classes[name].bases if isinstance(base, ast.Name)]


def _is_params(node: ast.stmt) -> bool:
    return isinstance(node, ast.ClassDef) and node.name == "Params"


def _params(node: ast.stmt) -> Iterator[tuple[str, str, str, str]]:
    assert isinstance(node, ast.ClassDef), "see _is_params"
    previous: tuple[str, str, str, str] | None = None
    for line in node.body:
        if previous is not None:
            doc = line.value.value if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) else ""
            yield (*previous[:3], doc if isinstance(doc, str) else "")
            previous = None
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            default = "" if line.value is None else ast.unparse(line.value)
            previous = line.target.id, ast.unparse(line.annotation), default, ""
    if previous is not None:
        yield previous


def _states(node: ast.ClassDef) -> Iterator[str]:
    """Yield the state variables that the code of a class names: keys of `self.state`."""
    for part in ast.walk(node):
        if isinstance(part, ast.Subscript) and _is_state(part.value):
            yield from _texts(part.slice)
        elif isinstance(part, ast.Assign | ast.AugAssign):
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            if any(map(_is_state, targets)):
                yield from _keys(part.value)
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and _is_state(part.func.value):
            if part.func.attr == "update":
                yield from (key for one in part.args for key in _keys(one))
                yield from (word.arg for word in part.keywords if word.arg)
            elif part.func.attr in ("get", "setdefault", "pop") and part.args:
                yield from _texts(part.args[0])


def _keys(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Dict):
        yield from (text for key in node.keys if key is not None for text in _texts(key))


def _texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def _is_state(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "state"
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )
