"""The packages of `sim`: few, in one order, and each says where to start reading."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SIM = ROOT / "sim"
LAYERS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
ORDER = [re.findall(r"\w+", layer) for layer in LAYERS]
ROOMS = sorted(path.parent.name for path in SIM.glob("*/__init__.py"))


def _below(room: str) -> list[str]:
    """Return the packages of the next layer that has any."""
    place = next(number for number, layer in enumerate(ORDER) if room in layer)
    return next(([one for one in layer if one in ROOMS] for layer in ORDER[place + 1 :] if set(layer) & set(ROOMS)), [])


def test_there_are_few_packages():
    """A newcomer meets at most 19 folders and 4 files, and each has its layer."""
    assert len(ROOMS) <= 19
    assert len(list(SIM.glob("*.py"))) <= 4
    assert {name for layer in ORDER for name in layer} >= set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_each_package_says_what_it_may_import_and_where_to_start(room):
    """The docstring of a package names the layer below it, as the contract has it, and modules that exist."""
    text = " ".join((ast.get_docstring(ast.parse((SIM / room / "__init__.py").read_text())) or "").split())
    said = re.search(r"May import: (.+?)\. Read first: (.+)", text)
    assert said is not None
    below = [f"`{name}`" for name in _below(room)]
    assert said[1] == (f"{', '.join(below)} and below" if below else "nothing of `sim`")
    first = re.findall(r"`([\w/]+(?:\.py)?)`", said[2])
    assert first
    assert [name for name in first if not (SIM / room / name).exists()] == []
