"""The table of the rules of the seed documents names tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "seed_rules.md"


@cache
def _tests_in(file: str) -> frozenset[str]:
    """Return the names of the tests of a file below `tests/agents`, or else `tests`."""
    folder = ROOT / "tests"
    path = folder / "agents" / file if (folder / "agents" / file).exists() else folder / file
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_each_rule_has_a_test() -> None:
    """Each row of the page ends with the file and the name of a test, which exists."""
    rows = [row for row in PAGE.read_text(encoding="utf-8").splitlines() if row.startswith("| ")]
    rules = [row for row in rows if not row.startswith(("| rule", "| loop", "| ---"))]
    named = [re.search(r"`([\w/]+\.py)::(\w+)` \|$", row) for row in rules]
    assert len(rules) > 50
    assert [row for row, found in zip(rules, named, strict=True) if found is None] == []
    assert [found[0] for found in named if found and found[2] not in _tests_in(found[1])] == []
