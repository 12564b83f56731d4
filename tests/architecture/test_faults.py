"""The list of faults names only tests that exist."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| ([FX]\d+) \| (.+) \| (.+) \| (.*)\|$")
EXPECTED = [*(f"F{number:02}" for number in range(1, 77)), *(f"X{number}" for number in range(1, 29))]


def rows() -> list[tuple[str, str, str, str]]:
    """Return id, fault, what happens and the tests of each row of the list."""
    lines = (ROOT / "docs/faults.md").read_text().splitlines()
    found = [ROW.match(line) for line in lines if re.match(r"\| [FX]\d", line)]
    assert all(found), "a row has four columns"
    return [(row[1], row[2], row[3], row[4]) for row in found if row is not None]


def named() -> Iterator[tuple[str, str]]:
    """Give (path, function) of each test that the list names."""
    for *_, tests in rows():
        for name in re.findall(r"`([^`]+)`", tests):
            path, _, function = name.partition("::")
            yield path, function


@cache
def functions_of(path: str) -> set[str]:
    """Return the test functions of a file."""
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_each_fault_has_one_row():
    """The list has each of the 76 faults and 28 abuses once, in order."""
    assert [id for id, *_ in rows()] == EXPECTED


@pytest.mark.slow
def test_each_named_test_exists():
    """A test that the list names is a function of the file that it names: whoever renames one renames it here too."""
    missing = [f"{path}::{name}" for path, name in named() if name not in functions_of(path)]
    assert not missing, f"docs/faults.md names tests that do not exist: {missing}"


def test_a_row_without_a_test_says_why():
    """A fault without a test says that it does not apply, or that it is open."""
    for id, _, happens, tests in rows():
        assert tests.strip() or happens.startswith(("Does not apply: ", "open")), id


ABOUT_TOOLS = (
    "F63",
    "F64",
    "F66",
    "F67",
    "F69",
    "F70",
    *(f"X{n}" for n in (6, 8, 11, 12, 13, 14, 15, 17, 20, 23, 24, 28)),
)


def test_what_concerns_tools_is_proved_with_tools():
    """Faults and abuses that tools, approvals and memories can bring in have a test in which these take part."""
    for id, *_, tests in rows():
        if id in ABOUT_TOOLS:
            assert "`tests/tools/" in tests or "`tests/faults/test_tools.py" in tests, id
