"""The reference of scenario files says all that there is, and its examples run without a failure."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.base.expressions.declared import table_of_functions
from sim.kernel.duration import to_ns
from sim.scenario import scopes
from sim.scenario.actions import action_kinds
from sim.scenario.loading import json_schema

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


def _models(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the keys of each model with their schemas, at any depth."""
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _models(part)
    if isinstance(schema, dict) and "properties" in schema:
        yield schema["properties"]


def _tables() -> Iterator[list[list[str]]]:
    """Yield the tables of the page, each as its rows of cells; the first row is the heading."""
    for text in re.findall(r"(?:^\|.*\n)+", PROSE, re.MULTILINE):
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines()]
        yield [rows[0], *rows[2:]]


def _is(said: str, default: Any) -> bool:
    """Return whether a text names a default: a number, a duration, a word, `null`, `true` or `false`."""
    if isinstance(default, str):
        return said == default or (said[:1].isdigit() and default[:1].isdigit() and to_ns(said) == to_ns(default))
    number = re.fullmatch(r"[\d.]+", said)
    return float(said) == default if number else said == json.dumps(default)


def test_a_default_on_the_page_is_that_of_the_code():
    """Each default in a table of keys, and each in brackets behind a key, is that of the schema."""
    models, compared, wrong = list(_models(json_schema())), 0, []
    for heading, *rows in _tables():
        if "default" not in heading:
            continue
        keys = [re.findall(r"`(\w+)`", row[0]) for row in rows]
        model = max(models, key=lambda model: len({key for row in keys for key in row} & set(model)))
        for row, names in zip(rows, keys, strict=True):
            cells = [cell.strip("`") for cell in row[heading.index("default")].split(", ")]
            for name, said in zip(names, cells if len(cells) == len(names) else (), strict=False):
                default = model.get(name, {}).get("default", ...)
                literal = re.fullmatch(r"[\d.]+[a-z]*|true|false|null", said) and default is not ...
                if literal or (isinstance(default, str) and re.fullmatch(r"\S+", default)):
                    compared += 1
                    wrong += [] if (name, said) in _MEANT or _is(said, default) else [(name, said, default)]
    for name, said in re.findall(r"`(\w+)` \(([\d.]+[a-z]?)(?:[;, ][^()]*)?\)", PROSE):
        defaults = [model[name]["default"] for model in models if "default" in model.get(name, {})]
        compared += bool(defaults)
        if defaults and (name, said) not in _MEANT and not any(_is(said, default) for default in defaults):
            wrong.append((name, said, defaults))
    assert compared > 150
    assert wrong == []


_MEANT = {("where", "true"), ("per_token", "0.02"), ("weight", "1")}
"""What a null of the schema stands for."""


def test_every_function_is_described():
    """The table of functions follows from their declarations: `table_of_functions()` is what stands on the page."""
    assert table_of_functions() in PAGE


@pytest.mark.slow
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
