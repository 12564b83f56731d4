"""Every key within braces of every example scenario, misspelt, removed, of a wrong type or in a wrong unit.

`test_mutations` does so for the keys at the beginning of a line; most keys of rules stand within braces.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sim.base.errors import Problem, ScenarioError
from sim.cli import main
from sim.scenario import loads
from sim.scenario.yaml_tree import Map, read_tree

SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios").glob("*.yaml"))
MARKED = [  # large files take long
    pytest.param(path, id=path.stem, marks=[pytest.mark.proof] if path.stat().st_size > 6000 else [])
    for path in SCENARIOS
]
UNIT = re.compile(r"\d+(ms|s|m|h|d)\b")

Spot = tuple[str, int, int, int, frozenset[int]]
"""A key, where it starts, where its value starts and ends in the text, and the lines of it and of what it stands in."""


def spots(text: str) -> list[Spot]:
    """Return every key within braces."""
    tree, problems = read_tree(text, "example.yaml")
    assert not problems
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines))]
    found = []
    for here, key, above in _keys(tree, frozenset()):
        at, value_at = here.keys_at[key], here.values_at[key]
        if lines[at.line - 1][: at.column - 1].strip(" -"):
            start = starts[at.line - 1] + at.column - 1
            value = starts[value_at.line - 1] + value_at.column - 1
            found.append((key, start, value, _end(text, value), above | {at.line, value_at.line}))
    return found


def _keys(tree: Any, above: frozenset[int]) -> Iterator[tuple[Map, str, frozenset[int]]]:
    """Yield each mapping and key, with the lines of all keys and values that it stands in."""
    if isinstance(tree, Map):
        for key, value in tree.items():
            yield tree, key, above
            if key == "call":
                continue  # a scripted model may send any arguments
            yield from _keys(value, above | {tree.keys_at[key].line, tree.values_at[key].line})
    elif isinstance(tree, list):
        for item in tree:
            yield from _keys(item, above | ({item.mark.line} if isinstance(item, Map) else frozenset()))


def _end(text: str, start: int) -> int:
    """Return where a value within braces ends: at the next comma or closing bracket that is not inside it."""
    depth, quote = 0, ""
    for place in range(start, len(text)):
        sign = text[place]
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"" and (place == start or text[place - 1] in " [{,"):
            quote = sign
        elif sign in "[{":
            depth += 1
        elif depth == 0 and sign in ",]}":
            return place
        elif sign in "]}":
            depth -= 1
    raise AssertionError("a value has no end")


def mutations(text: str, spot: Spot) -> Iterator[tuple[str, str]]:
    """Yield what is done to a key, and the text after it."""
    key, start, value, end, _ = spot
    behind = end + 1 if text[end] == "," else end
    yield "misspelt", text[: start + len(key)] + "x" + text[start + len(key) :]
    yield "removed", text[:start] + text[behind:]
    yield "a list", text[:value] + "[[[1]]]" + text[end:]
    if UNIT.fullmatch(text[value:end]):
        yield "a wrong unit", text[:value] + UNIT.sub("5parsecs", text[value:end]) + text[end:]


def problems_of(text: str) -> list[Problem]:
    """Return what is wrong with a scenario; anything but a clear refusal is a fault of sim."""
    try:
        loads(text, "example.yaml")
    except ScenarioError as error:
        return error.problems
    return []


def try_all(path: Path, every: int) -> int:
    """Mutate one in `every` keys of a file; return how many mutations were refused."""
    text, refused = path.read_text(encoding="utf-8"), 0
    for spot in spots(text)[::every]:
        key, lines = spot[0], spot[-1]
        for what, changed in mutations(text, spot):
            problems = problems_of(changed)
            refused += bool(problems)
            for problem in problems:
                assert problem.file == "example.yaml"
                assert problem.message
                assert "Traceback" not in problem.message
            # another line is named only for what used a name that the key declared, or had its home by the key
            words = ("there is no", "unknown name", "its home island is not known", repr(key))
            used = [p for p in problems if any(word in p.message for word in words)]
            assert not problems or used or any(p.line in lines for p in problems), (key, what, lines, problems)
            if what == "a wrong unit":
                assert [p.line in lines and "unit" in str(p) for p in problems] == [True], (key, problems)
    return refused


@pytest.mark.slow
@pytest.mark.parametrize("path", MARKED)
def test_a_sample_of_the_keys_within_braces(path):
    """A mutated key is valid or refused with the file and the line of the key or of what it stands in."""
    assert try_all(path, every=7) > 0


@pytest.mark.slow
@pytest.mark.parametrize("path", MARKED)
def test_check_says_what_is_wrong_with_a_mutated_key(path, tmp_path, capsys):
    """If a mutated key is refused, `sim check` prints file, line and sentence of each problem, with exit code 2."""
    text, file = path.read_text(encoding="utf-8"), tmp_path / "example.yaml"
    for what, changed in mutations(text, spots(text)[2]):
        file.write_text(changed, encoding="utf-8")
        problems = problems_of(changed)
        with pytest.raises(SystemExit) as ended:
            main(["check", str(file)])
        said = "".join(capsys.readouterr())
        assert ended.value.code in ((2,) if problems else (0, 2)), what
        assert "Traceback" not in said
        for problem in problems:
            assert f"{file}:{problem.line}:" in said
            assert problem.message in said


@pytest.mark.proof
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_key_within_braces(path):
    """As the sample, for each key."""
    assert try_all(path, every=1) > 0
