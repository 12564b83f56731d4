"""Defaults are written once: scenario files and the command line take and tell those of the records that are set up."""

import ast
import operator
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import sim
from sim.kernel.duration import NS

SIM = Path(sim.__file__).parent
UNITS = {"NS": 1.0, "SECOND": 1.0, "MINUTE": 60.0, "MINUTE_NS": 60.0, "_MINUTE": 60.0, "HOUR": 3600.0, "_HOUR": 3600.0,
         "DAY_NS": 86400.0, "_DAY": 86400.0}  # fmt: skip
"""Units of time in the source, in seconds, as the records of other packages have them."""

OPERATIONS: dict[type, Callable[[float, float], float]] = {
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.truediv,
}


@cache
def trees() -> dict[str, ast.Module]:
    """Return each module of the package, by its path."""
    return {path.relative_to(SIM).as_posix(): ast.parse(path.read_text()) for path in sorted(SIM.rglob("*.py"))}


def _number(node: ast.expr | None) -> float | None:
    """Return the number that a default is written as; None if it is written in another way, or is trivial."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "attrs.field":
        node = next((word.value for word in node.keywords if word.arg == "default"), None)
    if node is None or any(isinstance(part, ast.Attribute | ast.Call | ast.Subscript) for part in ast.walk(node)):
        return None
    if not {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} <= UNITS.keys():
        return None
    if not all(isinstance(part.value, int | float) for part in ast.walk(node) if isinstance(part, ast.Constant)):
        return None
    if not isinstance(node, ast.Constant | ast.BinOp | ast.Name):
        return None
    if any(isinstance(part, ast.operator) and type(part) not in OPERATIONS for part in ast.walk(node)):
        return None
    value = _evaluate(node)
    return None if value in (0, 1) and not any(isinstance(part, ast.Name) for part in ast.walk(node)) else value


def _evaluate(node: ast.expr) -> float:
    if isinstance(node, ast.BinOp):
        return OPERATIONS[type(node.op)](_evaluate(node.left), _evaluate(node.right))
    return UNITS[node.id] if isinstance(node, ast.Name) else float(ast.literal_eval(node))


def _written(tree: ast.Module) -> Iterator[tuple[str, float, int]]:
    """Yield the name, the number and the line of each default of a class or function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for line in (one for one in node.body if isinstance(one, ast.AnnAssign)):
                if isinstance(line.target, ast.Name) and (value := _number(line.value)) is not None:
                    yield line.target.id, value, line.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            plain = [*node.args.posonlyargs, *node.args.args]
            given = zip(plain[len(plain) - len(node.args.defaults) :], node.args.defaults, strict=True)
            named = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            for argument, default in (*given, *named):
                if (value := _number(default)) is not None:
                    yield argument.arg, value, node.lineno


@pytest.mark.slow
def test_no_default_of_a_scenario_is_written_a_second_time():
    """The model of a part of a scenario takes its defaults from the record that it makes, and repeats no number."""
    own = {(name, value): f"{file}:{line}" for file, tree in trees().items() if file.startswith("scenario/")
           for name, value, line in _written(tree)}  # fmt: skip
    others = [
        (own[name, value], f"{file}:{line}", name, value)
        for file, tree in trees().items()
        if not file.startswith(("scenario/", "cli/"))
        for name, value, line in _written(tree)
        if (name, value) in own
    ]
    assert own
    assert others == [], "derive the default of the scenario from that of the record"
    assert UNITS["SECOND"] * NS == 10**9


@pytest.mark.slow
def test_no_default_of_a_constructor_is_written_a_second_time():
    """The kernel, a world and a program's world have one livelock limit, which is a name and no number."""
    limits = [
        (file, line) for file, tree in trees().items() for name, _, line in _written(tree) if name == "max_deltas"
    ]
    assert limits == []


@pytest.mark.slow
def test_no_help_text_repeats_a_default():
    """A help text or a description of a key tells a number as a default only by computing it."""
    told = [
        (file, node.lineno, node.value)
        for file, tree in trees().items()
        if file.startswith(("cli/", "scenario/", "runner/options.py", "experiments/options.py"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value
        if re.search(r"[Dd]efaults?:? (is |to |of )?[\d.]+", node.value)
    ]
    assert [one for one in told if not re.search(r"default (1|0)$", one[2])] == []
