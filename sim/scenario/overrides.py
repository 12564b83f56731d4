"""`--set path=value`: change single values of a scenario before it is checked."""

from collections.abc import Iterable, Sequence
from typing import Any

from sim.errors import ScenarioError, UsageError
from sim.expressions import did_you_mean
from sim.scenario.schema import Scenario
from sim.scenario.yaml_tree import REFUSED_VALUE, Map, Mark, Seq, read_tree

FILE = "--set"
"""The name of the file in the positions of overridden values; the line is the number of the override."""


def apply_overrides(tree: Map, overrides: Sequence[str]) -> None:
    """Change `tree` in place.

    Args:
        tree: the tree of a scenario file.
        overrides: texts such as `execution.tick.period=2s` or `agents.grazer.count=10`. Items of a list are
            found by their name, id, topic or number (from 0). The value is read as YAML.

    Raises:
        UsageError: if an override has no `=`, its path does not exist, or its value is not YAML.
    """
    for number, override in enumerate(overrides, start=1):
        path, separator, text = override.partition("=")
        if not separator or not all(path.split(".")):
            raise UsageError(f"{FILE} {override!r} is not of the form path=value", hint="for instance seed=3")
        _put(tree, path.split("."), _read(text, number, len(path) + 2), Mark(FILE, number, len(path) + 2))


def _read(text: str, number: int, column: int) -> Any:
    """Return the value of an override, with the position of the override."""
    value, problems = read_tree(text, FILE) if text.strip() else (None, [])
    if value is REFUSED_VALUE or problems:
        raise ScenarioError([Mark(FILE, number, column).problem(problem.message) for problem in problems])
    return _moved(value, Mark(FILE, number, column))


def _moved(value: Any, mark: Mark) -> Any:
    if isinstance(value, Map):
        moved = Map(mark)
        for key, inner in value.items():
            moved.put(key, _moved(inner, mark), mark, mark)
        return moved
    if isinstance(value, Seq):
        items = Seq(mark)
        items.extend(_moved(inner, mark) for inner in value)
        items.values_at = [mark] * len(items)
        return items
    return value


def _put(tree: Map, path: list[str], value: Any, mark: Mark) -> None:
    """Set the value at a path. New keys are added: validation reports unknown ones."""
    if path[0] not in Scenario.known_keys():
        raise _unknown(path[0], path, Scenario.known_keys())
    here: Any = tree
    for depth, step in enumerate(path):
        last = depth == len(path) - 1
        if isinstance(here, Seq):
            index = _index(here, step, path)
            if last:
                here[index], here.values_at[index] = value, mark
            here = here[index]
        elif isinstance(here, Map):
            if last:
                here.put(step, value, mark, mark)
            elif here.get(step) is None:
                here.put(step, Map(mark), mark, mark)
            here = here[step]
        else:
            raise UsageError(f"{FILE} {'.'.join(path)}: {'.'.join(path[:depth])} is a single value and has no keys")


def _index(items: Seq, step: str, path: list[str]) -> int:
    names = [_name(item) for item in items]
    if step in names:
        return names.index(step)
    if step.isdecimal() and len(step) < 7 and int(step) < len(items):
        return int(step)
    raise _unknown(step, path, [name for name in names if name])


def _name(item: Any) -> str:
    keys = ("name", "id", "topic")
    return str(next((item[key] for key in keys if key in item), "")) if isinstance(item, dict) else ""


def _unknown(step: str, path: list[str], known: Iterable[str]) -> UsageError:
    return UsageError(f"{FILE} {'.'.join(path)}: there is no {step!r}", hint=did_you_mean(step, known))
