"""Every key of every example scenario, misspelt, removed or with a wrong value: refused with its line, or valid."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sim.base.errors import Problem, ScenarioError, UsageError
from sim.scenario import loads
from sim.scenario.assembly.build import build

LARGE = {
    "cascade", "civil_violence", "community", "debate", "ecology", "helpdesk", "houston", "lead_response",
    "software_team", "sugarscape", "wolf_sheep",
}  # fmt: skip
SCENARIOS = [
    # The largest files, and those with the most agents or places, take far longer than the others together.
    pytest.param(path, id=path.stem, marks=[pytest.mark.proof] if path.stem in LARGE else [])
    for path in sorted((Path(__file__).parents[2] / "scenarios").glob("*.yaml"))
]
KEY = re.compile(r"^(?P<indent>[ -]*)(?P<key>[a-z_]+):(?P<rest>.*)$")
FREE = {"description", "reason"}
"""Keys whose value is text of any kind."""


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _keys(lines: list[str]) -> Iterator[tuple[int, str, str, str]]:
    """Yield the number from 0, the indent, the key and the rest of each line that begins with a key."""
    for number, line in enumerate(lines):
        if (found := KEY.match(line)) is not None:
            yield number, found["indent"], found["key"], found["rest"]


def _problems(lines: list[str]) -> list[Problem]:
    """Return what is wrong with a scenario, nothing if it is valid; anything but a clear refusal is a fault of sim."""
    problems: list[Problem] = []
    try:
        loads("\n".join(lines) + "\n", "mutated.yaml")
    except ScenarioError as error:
        problems += error.problems
    for problem in problems:
        assert problem.file == "mutated.yaml"
        assert 1 <= problem.line <= len(lines) + 1, problem
        assert problem.message
    return problems


@pytest.mark.slow
@pytest.mark.parametrize("path", SCENARIOS)
def test_a_misspelt_key(path):
    """A misspelt key is refused in its line, or by a problem that names it; a name of the author's own may be valid."""
    lines = _lines(path)
    for number, indent, key, rest in _keys(lines):
        changed = [*lines[:number], f"{indent}{key}x:{rest}", *lines[number + 1 :]]
        problems = _problems(changed)
        here = [p for p in problems if p.line == number + 1 or key in p.message or key in (p.hint or "")]
        assert here or not problems, (key, number + 1, problems)


@pytest.mark.slow
@pytest.mark.parametrize("path", SCENARIOS)
def test_a_wrong_value(path):
    """A value that the key does not take is refused in its line, or where a name that it declared is used."""
    lines = _lines(path)
    for number, indent, key, rest in _keys(lines):
        if not rest.strip() or rest.strip().startswith(("#", "|", ">", "{", "[", "&")):
            continue
        for wrong in ("[[[1]]]", "{a: {b: c}}", "=no_such_name + 1"):
            changed = [*lines[:number], f"{indent}{key}: {wrong}", *lines[number + 1 :]]
            problems = _problems(changed)
            here = [p for p in problems if p.line == number + 1 or key in p.message]
            declared = [p for p in problems if "there is no" in p.message]  # what the value declared before
            assert here or declared or not problems, (key, problems)
            if wrong.startswith("[") and indent == "" and key not in FREE:
                assert problems, key


@pytest.mark.parametrize("path", SCENARIOS)
def test_a_wrong_unit(path):
    """A duration or a rate in a unit that does not exist is refused in its line, with the units that do."""
    lines = _lines(path)
    tried = 0
    for number, _, key, rest in _keys(lines):
        changed_rest = re.sub(r"\b(\d+)(ms|s|m|h|d)\b", r"\1parsecs", rest, count=1)
        if changed_rest == rest or rest.strip().startswith("#") or key in FREE or "'" in rest or '"' in rest:
            continue
        tried += 1
        problems = _problems([*lines[:number], lines[number].replace(rest, changed_rest), *lines[number + 1 :]])
        assert any(problem.line == number + 1 for problem in problems), (lines[number], problems)
    assert tried or path.stem in {"schelling", "debate"}


@pytest.mark.slow
@pytest.mark.parametrize("path", SCENARIOS)
def test_a_removed_line(path):
    """Without any one line a scenario is refused clearly, or valid: then it can be built or is refused as clearly."""
    lines = _lines(path)
    for number, _, _, _ in _keys(lines):
        changed = [*lines[:number], *lines[number + 1 :]]
        if _problems(changed):
            continue
        scenario = loads("\n".join(changed) + "\n", "mutated.yaml")
        if all(entry.kind == "policy" and entry.count <= 50 for entry in scenario.agents):
            with contextlib.suppress(UsageError):  # a sentence; anything else is a fault of sim
                build(scenario)
