"""Rules about the source that ruff, mypy and import-linter cannot state, or that a `noqa` must not lift."""

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SIM_FILES = sorted((ROOT / "sim").rglob("*.py"))
TEST_FILES = sorted((ROOT / "tests").rglob("test_*.py"))
BANNED_NAMES = {"eval", "exec", "__import__"}
MOST_BY_PLACE = 6
"""The most arguments of a call that are told apart by their place alone."""
MOST_LINES = 60
SKIP = "# fmt: " + "skip"
WRAPPERS = ("frozenset", "set", "tuple", "MappingProxyType")
MANY_PARAMETERS = 10
OLDER_SKIPS = {"actors": 3, "agents": 5, "kinds/executor": 1, "llm": 15, "runner": 4, "world": 2}
"""Other statements that the formatter does not lay out yet, by folder. None may be added. The one of the executor is in
a program whose text is part of recorded requests."""
BANNED_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml"}


def name_of(path: Path) -> str:
    """Return the path relative to the tree, with `/`."""
    return path.relative_to(ROOT).as_posix()


def found_in(paths: list[Path], find: Callable[[Path], object]) -> dict[str, object]:
    """Return what `find` finds, by file. One test for each rule: thousands of tests cost more than what they do."""
    found = {name_of(path): find(path) for path in paths}
    assert len(found) > 100
    return {name: what for name, what in found.items() if what}


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


def names_in(tree: ast.AST) -> set[str]:
    """Return the names that are used."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def asks_wall_time(tree: ast.AST) -> bool:
    """Tell whether datetime is imported, and one of the methods called that tell the time of now."""
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    uses_datetime = any(name.split(".")[0] == "datetime" for name in imports_of(tree))
    return uses_datetime and bool(attributes & {"now", "utcnow", "today"})


def silent_in(tree: ast.AST) -> list[str]:
    """List the test functions without a docstring."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    tests = [node for node in ast.walk(tree) if isinstance(node, functions) and node.name.startswith("test")]
    return [node.name for node in tests if not ast.get_docstring(node)]


def crowded_in(tree: ast.AST) -> list[str]:
    """List the calls with more than `MOST_BY_PLACE` positional arguments; `*rest` counts as one."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [f"{ast.unparse(call.func)}, line {call.lineno}" for call in calls if len(call.args) > MOST_BY_PLACE]


def is_word(node: ast.AST) -> bool:
    """Tell whether a node is a literal or a name."""
    part = getattr(node, "value", None) if isinstance(node, ast.Starred) else node
    return isinstance(part, ast.Constant | ast.Name | ast.Attribute | ast.UnaryOp)


def lists_words(node: ast.AST | None) -> bool:
    """Tell whether a value is a list or a mapping of literals and names: text that a reader scans as a paragraph."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and ast.unparse(node.func) in WRAPPERS:
        node = node.args[0]
    if isinstance(node, ast.Subscript):
        node = node.slice
    if isinstance(node, ast.Dict):
        return all(one is not None and is_word(one) for one in (*node.keys, *node.values))
    return isinstance(node, ast.Tuple | ast.List | ast.Set) and all(map(is_word, node.elts))


def by_hand_in(path: Path) -> list[int]:
    """Return the lines that take a statement from the formatter, unless it is one that may be laid out by hand."""
    text = path.read_text()
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line.endswith(SKIP)]
    nodes = list(ast.walk(tree_of(path))) if lines else []
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    signatures = {
        line
        for node in functions
        if len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs) >= MANY_PARAMETERS
        for line in range(node.lineno, node.body[0].lineno)
    }
    values = [node for node in nodes if isinstance(node, ast.Assign | ast.AnnAssign)]
    lists = {node.end_lineno for node in values if lists_words(node.value)}
    return [line for line in lines if line not in signatures | lists]


def long_in(tree: ast.AST) -> list[str]:
    """List the functions with more than `MOST_LINES`, with their docstring."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [node.name for node in found if (node.end_lineno or 0) - node.lineno >= MOST_LINES]


def banned_in(tree: ast.AST) -> list[str]:
    """List what runs text or bytes as code: the banned builtins and modules used in `tree`."""
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    used = [name for name in names if name in BANNED_NAMES]
    return used + [name for name in imports_of(tree) if name.split(".")[0] in BANNED_MODULES]


@pytest.mark.slow
def test_nothing_runs_data_as_code():
    """`sim` holds no eval, exec or __import__, and no library that turns bytes or YAML into any object."""
    assert found_in(SIM_FILES, lambda path: banned_in(tree_of(path))) == {}


def test_the_ban_sees_what_it_bans():
    """The check above finds a builtin and an import even inside a function."""
    text = "def f():\n    from pickle import loads\n    import yaml\n    return eval('1')\n"
    assert banned_in(ast.parse(text)) == ["eval", "pickle.loads", "yaml"]


@pytest.mark.slow
def test_only_the_command_line_prints():
    """`print` stands in sim/cli only: everywhere else an event or a return value tells."""
    others = [path for path in SIM_FILES if not path.is_relative_to(ROOT / "sim" / "cli")]
    assert found_in(others, lambda path: "print" in names_in(tree_of(path))) == {}


@pytest.mark.slow
def test_wall_time_is_not_asked_through_datetime():
    """Nothing calls `now`, `utcnow` or `today` of datetime: simulated time comes from the kernel."""
    assert found_in(SIM_FILES, lambda path: asks_wall_time(tree_of(path))) == {}


def test_the_check_of_wall_time_sees_it():
    """The check above finds a call of `now`, and nothing where no datetime is imported."""
    assert asks_wall_time(ast.parse("from datetime import datetime\nnow = datetime.now()"))
    assert not asks_wall_time(ast.parse("now = kernel.now()"))


@pytest.mark.slow
def test_private_modules_stay_in_their_package():
    """A name that starts with an underscore is imported inside its own package only."""
    foreign = found_in(SIM_FILES, lambda p: [name for name in imports_of(tree_of(p)) if is_foreign_private(name, p)])
    assert foreign == {}


def test_the_privacy_check_works_in_both_directions():
    """A package may import its own private module; another package may not."""
    inside, outside = ROOT / "sim" / "record" / "reader.py", ROOT / "sim" / "world" / "places.py"
    assert not is_foreign_private("sim.record._schema.TABLES", inside)
    assert is_foreign_private("sim.record._schema.TABLES", outside)


@pytest.mark.slow
def test_long_calls_name_their_arguments():
    """No call has more than six positional arguments: a reader cannot tell apart what a seventh stands for."""
    assert found_in(SIM_FILES, lambda path: crowded_in(tree_of(path))) == {}


def test_the_check_of_long_calls_sees_them():
    """The check above finds a call with seven, and takes names and `*rest` for what they are."""
    assert crowded_in(ast.parse("def f():\n    g.h(1, 2, 3, 4, 5, 6, 7)")) == ["g.h, line 2"]
    assert not crowded_in(ast.parse("f(1, 2, 3, 4, 5, *rest, g=7, h=8)"))


@pytest.mark.slow
def test_functions_are_short():
    """No function has more than 60 lines, but the iteration of a loop, whose steps a reader has to see together."""
    assert found_in(SIM_FILES, lambda path: long_in(tree_of(path))) == {"sim/actors/loop.py": ["iterate_now"]}


@pytest.mark.slow
def test_the_formatter_lays_out_all_but_lists_of_words():
    """Only a list of words, and a signature of ten parameters or more, are laid out by hand; nothing else is added."""
    folders = sorted(OLDER_SKIPS, key=len, reverse=True)
    counts: dict[str, int] = {}
    for path in SIM_FILES:
        name = name_of(path)
        folder = next((one for one in folders if name.startswith(f"sim/{one}/")), name)
        counts[folder] = counts.get(folder, 0) + len(by_hand_in(path))
    assert len(counts) > 100
    assert {folder: count for folder, count in counts.items() if count > OLDER_SKIPS.get(folder, 0)} == {}


def test_the_check_of_the_layout_tells_lists_from_code(tmp_path):
    """The check above lets a list of words pass, and finds a call, a table of calls, and a short signature."""
    path = tmp_path / "module.py"
    path.write_text(
        f"A = [\n'a', B, c.d,\n]  {SKIP}\nB = frozenset({{\n'a',\n}})  {SKIP}\nC = f(\n1,\n)  {SKIP}\n"
        f"D = [\nf(1),\n]  {SKIP}\ndef e(\na,\n):  {SKIP}\n    pass\n"
    )
    assert by_hand_in(path) == [9, 12, 15]


@pytest.mark.slow
def test_every_test_states_its_rule():
    """Every test function has a docstring that states the rule it proves."""
    assert found_in(TEST_FILES, lambda path: silent_in(ast.parse(path.read_text()))) == {}


@pytest.mark.slow
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


def unsafe_in(tree: ast.AST) -> list[str]:
    """Return the lines with a command of this Python that could import modules of the current folder."""
    commands = [node.elts for node in ast.walk(tree) if isinstance(node, ast.List | ast.Tuple) and len(node.elts) > 1]
    return [
        f"line {first.lineno}"
        for first, second, *_ in commands
        if isinstance(first, ast.Attribute) and ast.unparse(first) == "sys.executable"
        if ast.unparse(second) not in ("'-P'", "'-I'")
    ]


@pytest.mark.slow
def test_no_module_of_the_current_folder_replaces_one_of_python():
    """Processes of this Python begin with -P or -I: a file `queue.py` beside a scenario is not what they work with."""
    assert unsafe_in(ast.parse("run([sys.executable, '-c', 'pass'])")) == ["line 1"]
    assert found_in(SIM_FILES, lambda path: unsafe_in(tree_of(path))) == {}


def inheriting_in(tree: ast.AST) -> list[str]:
    """Return the lines that start a process which inherits the variables of this one."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    named = [call for call in calls if isinstance(call.func, ast.Attribute)]
    starts = [call for call in named if ast.unparse(call.func) in ("subprocess.Popen", "anyio.open_process")]
    return [f"line {call.lineno}" for call in starts if "env" not in [one.arg for one in call.keywords]]


@pytest.mark.slow
def test_no_process_inherits_the_variables_of_the_run():
    """Each process that is started says which variables it gets: those of a run can be keys."""
    assert inheriting_in(ast.parse("subprocess.Popen(command, stdin=-1)")) == ["line 1"]
    assert found_in(SIM_FILES, lambda path: inheriting_in(tree_of(path))) == {}


OPEN_MAPPING = re.compile(r"(?:Mapping|dict)\[str, (?:Any|object)\]")
MOST_OPEN = 248
"""The most lines with a mapping of anything. Lower it with each that gets a type; never raise it."""


@pytest.mark.slow
def test_mappings_of_anything_are_few():
    """Known keys are those of a record or a TypedDict, and any JSON is `Json`: few lines have a mapping of anything."""
    lines = [line for path in SIM_FILES for line in path.read_text().splitlines()]
    assert sum(OPEN_MAPPING.search(line) is not None for line in lines) <= MOST_OPEN
