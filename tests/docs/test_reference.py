"""The reference of scenario files says all that there is, and its examples run without a failure."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.expressions.declared import table_of_functions
from sim.scenario import scopes
from sim.scenario.actions import action_kinds
from sim.scenario.load import json_schema

PAGE = (Path(__file__).parents[2] / "docs" / "scenario.md").read_text(encoding="utf-8")
PROSE = re.sub(r"^```\w+\n.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL)
CODE = re.findall(r"`([^`\n]+)`", PROSE)
WORDS = frozenset(word for code in CODE for word in re.findall(r"\w+", code))
EXAMPLES = [text for text in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL) if "name: " in text]


def _properties(schema: Any) -> Iterator[str]:
    """Yield the keys of every model, at any depth."""
    if isinstance(schema, list):
        for part in schema:
            yield from _properties(part)
    elif isinstance(schema, dict):
        yield from schema.get("properties", {})
        for part in schema.values():
            yield from _properties(part)


def _rows(kind: str) -> list[str]:
    """Return the lines of tables whose first cell is `kind`."""
    return [line for line in PROSE.splitlines() if line.startswith(f"| `{kind}` |")]


@cache
def _definitions() -> Any:
    return json_schema()["$defs"]


def _model(kind: str) -> Any:
    definitions = _definitions()
    name = definitions["action"]["properties"][kind]["anyOf"][0]["$ref"].rpartition("/")[2]
    return definitions[name]


def test_every_key_is_described():
    """No key of any model, the arguments of actions included, is missing from the page."""
    keys = set(_properties(json_schema()))
    assert len(keys) > 90
    assert sorted(keys - WORDS) == []


@pytest.mark.parametrize("kind", [kind for kind in action_kinds() if kind != "sleep"])
def test_every_action_is_described_with_its_arguments(kind):
    """Each kind of action has a row that names its arguments."""
    arguments = _model(kind)["properties"]
    rows = [set(re.findall(r"\w+", row.split("|")[2])) for row in _rows(kind)]
    assert any(row >= set(arguments) for row in rows), f"no row describes {kind} with {', '.join(arguments)}"


def test_tools_that_are_actions_exist():
    """Each tool `world.KIND` that the page names is an action."""
    named = set(re.findall(r"(?<![.\w])world\.([a-z_]+)", PAGE))
    assert "transfer" in named
    assert named <= set(action_kinds())


def test_every_sleep_condition_has_a_row():
    """What an agent can sleep for stands in the chapter on sleeping."""
    chapter = PROSE.partition("## Sleeping and waking")[2].partition("\n## ")[0]
    assert sorted(set(_model("sleep")["properties"]) - set(re.findall(r"\w+", chapter))) == []


def test_every_choice_is_described():
    """Every word of a closed set of words, for instance a policy, stands on the page."""
    text = json.dumps(json_schema())
    choices = {word for group in re.findall(r'"enum": \[([^]]*)\]', text) for word in re.findall(r'"(\w+)"', group)}
    assert sorted(choices - WORDS) == []


@pytest.mark.parametrize("place", sorted(scopes._PLACES))
def test_every_name_of_expressions_is_described(place):
    """What expressions can see, in each place, is explained."""
    names, _ = scopes._PLACES[place]
    assert sorted(names - WORDS) == []


def test_every_function_is_described():
    """The table of functions follows from their declarations: `table_of_functions()` is what stands on the page."""
    assert table_of_functions() in PAGE


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        # A flock that moves at its own pace takes longer than all others together.
        pytest.param(
            text, mode, id=f"{mode}-{name}", marks=[pytest.mark.proof] * ((name, mode) == ("flock", "autonomous"))
        )
        for mode in ("autonomous", "tick")
        for text in EXAMPLES
        for name in [text.split()[1]]
    ],
)
def test_examples_run_without_a_failure(text, mode, tmp_path):
    """Each whole example runs for its time, in both modes, and no iteration fails."""
    path = tmp_path / "example.yaml"
    path.write_text(text, encoding="utf-8")
    period = ["execution.tick.period=1m"]  # no agent of the examples is quicker
    result = sim.run(path, mode=mode, overrides=period)
    assert result.status == "finished"
    assert result.errors == 0, result
    assert result.iterations > 10
    assert result.stopped_by is None
