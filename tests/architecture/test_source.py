"""Rules about the source that ruff, mypy and import-linter cannot state, or that a `noqa` must not lift."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SIM_FILES = sorted((ROOT / "sim").rglob("*.py"))
TEST_FILES = sorted((ROOT / "tests").rglob("test_*.py"))
BANNED_NAMES = {"eval", "exec", "__import__"}
BANNED_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml"}


def name_of(path: Path) -> str:
    """Return the path as a parameter id: relative to the tree, with `/`."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text())


def imports_of(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted name of every absolute import, inside functions too; `from a import b` is `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_foreign_private(imported: str, importer: Path) -> bool:
    """Tell whether `imported` is private to a package of `sim` that `importer` is not in."""
    parts = imported.split(".")
    if parts[0] != "sim":
        return False
    private = [i for i, part in enumerate(parts) if part.startswith("_") and not part.startswith("__")]
    return bool(private) and importer.relative_to(ROOT).parts[: private[0]] != tuple(parts[: private[0]])


def banned_in(tree: ast.AST) -> list[str]:
    """List what runs text or bytes as code: the banned builtins and modules used in `tree`."""
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    used = [name for name in names if name in BANNED_NAMES]
    return used + [name for name in imports_of(tree) if name.split(".")[0] in BANNED_MODULES]


@pytest.mark.parametrize("path", SIM_FILES, ids=name_of)
def test_nothing_runs_data_as_code(path):
    """`sim` holds no eval, exec or __import__, and no library that turns bytes or YAML into any object."""
    assert banned_in(tree_of(path)) == []


def test_the_ban_sees_what_it_bans():
    """The check above finds a builtin and an import even inside a function."""
    text = "def f():\n    from pickle import loads\n    import yaml\n    return eval('1')\n"
    assert banned_in(ast.parse(text)) == ["eval", "pickle.loads", "yaml"]


@pytest.mark.parametrize("path", SIM_FILES, ids=name_of)
def test_only_the_command_line_prints(path):
    """`print` stands in sim/cli only: everywhere else an event or a return value tells."""
    names = {node.id for node in ast.walk(tree_of(path)) if isinstance(node, ast.Name)}
    assert "print" not in names or path.is_relative_to(ROOT / "sim" / "cli")


@pytest.mark.parametrize("path", SIM_FILES, ids=name_of)
def test_wall_time_is_not_asked_through_datetime(path):
    """Nothing calls `now`, `utcnow` or `today` of datetime: simulated time comes from the kernel."""
    tree = tree_of(path)
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    uses_datetime = any(name.split(".")[0] == "datetime" for name in imports_of(tree))
    assert not (uses_datetime and attributes & {"now", "utcnow", "today"})


@pytest.mark.parametrize("path", SIM_FILES, ids=name_of)
def test_private_modules_stay_in_their_package(path):
    """A name that starts with an underscore is imported inside its own package only."""
    foreign = [name for name in imports_of(tree_of(path)) if is_foreign_private(name, path)]
    assert foreign == []


def test_the_privacy_check_works_in_both_directions():
    """A package may import its own private module; another package may not."""
    inside, outside = ROOT / "sim" / "store" / "reader.py", ROOT / "sim" / "world" / "places.py"
    assert not is_foreign_private("sim.store._schema.TABLES", inside)
    assert is_foreign_private("sim.store._schema.TABLES", outside)


@pytest.mark.parametrize("path", TEST_FILES, ids=name_of)
def test_every_test_states_its_rule(path):
    """Every test function has a docstring that states the rule it proves."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    silent = [
        node.name
        for node in ast.walk(tree_of(path))
        if isinstance(node, functions) and node.name.startswith("test") and not ast.get_docstring(node)
    ]
    assert silent == []


def test_sim_imports_only_what_it_declares():
    """Every library that `sim` imports is in the standard library or declared in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = chain(project["dependencies"], *project["optional-dependencies"].values())
    libraries = {re.split(r"[>=<.]", line)[0].replace("-", "_") for line in declared}
    known = {"sim"} | libraries | sys.stdlib_module_names
    program = "pytest_driver.py"  # runs in a sandbox, and says so if there is no pytest; it is never imported
    files = [path for path in SIM_FILES if path.name != program]
    used = {name.split(".")[0] for path in files for name in imports_of(tree_of(path))}
    assert sorted(used - known) == []


def test_constraints_are_the_same_for_pip_and_uv():
    """constraints.txt and the list that `uv run` honours pin the same versions, by name only."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert tool["uv"]["constraint-dependencies"] == lines
    assert not [line for line in lines if "://" in line or "==" not in line]
