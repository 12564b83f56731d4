"""`--set path=value`: change single values of a scenario before it is checked.

Changes of live parameters during a run are overrides as well.
"""

import json
from collections.abc import Iterable
from typing import Any, Self

import attrs

from sim.base.errors import ScenarioError, UsageError
from sim.base.expressions import did_you_mean
from sim.scenario.schema import Scenario
from sim.scenario.yaml_tree import REFUSED_VALUE, Map, Mark, Seq, read_tree

FILE = "--set"
"""The name of the file in the positions of overridden values; the line is the number of the override."""

NO_FILE = "set"
"""The name of the file in the positions of values that are in no file."""


@attrs.frozen
class Override:
    """A new value of one part of a scenario.

    Attributes:
        path: the keys that lead to it; items of a list are found by their name, id, topic or number (from 0).
        value: the value, a tree or plain.
        mark: where the value was given; None if in no file and no option.
        within: what errors write before the path.
    """

    path: tuple[str, ...]
    value: Any
    mark: Mark | None = None
    within: str = ""

    @classmethod
    def parse(cls, text: str, number: int = 1) -> Self:
        """Return the override that a text such as `execution.tick.period=2s` stands for. The value is read as YAML.

        Args:
            text: the text.
            number: the number of the override, for its position.

        Raises:
            UsageError: if the text has no `=`, or its value is not YAML.
        """
        path, separator, value = text.partition("=")
        if not separator or not all(path.split(".")):
            raise UsageError(f"{FILE} {text!r} is not of the form path=value", hint="for instance seed=3")
        mark = Mark(FILE, number, len(path) + 2)
        return cls(_path(path), _read(value, mark), mark, f"{FILE} ")

    @classmethod
    def of(cls, key: str, value: Any, mark: Mark | None = None, within: str = "") -> Self:
        """Return the override for a key such as `limits.calls.agent`; see the attributes."""
        return cls(_path(key), value, mark, within)

    @property
    def key(self) -> str:
        """The path as it is written."""
        return ".".join(self.path)

    def error(self, message: str, hint: str | None = None) -> UsageError:
        """Return the error that this override is not possible, with its position if it is in a file."""
        text = f"{self.within}{self.key}: {message}"
        if self.mark is None or self.mark.file == FILE:
            return UsageError(text, hint=hint)
        return ScenarioError([self.mark.problem(text, hint)])


def _path(key: str) -> tuple[str, ...]:
    """Return the parts of a key. The keys in `set` of an intervention have dots themselves."""
    parts = tuple(key.split("."))
    inside = len(parts) > 3 and parts[0] == "interventions" and parts[2] == "set"
    return (*parts[:3], ".".join(parts[3:])) if inside else parts


def parse_all(texts: Iterable[str]) -> tuple[Override, ...]:
    """Return the overrides that texts stand for; see `Override.parse`."""
    return tuple(Override.parse(text, number) for number, text in enumerate(texts, start=1))


def value_text(value: Any) -> str:
    """Return a text that `Override.parse` reads as this value: of a text itself if possible, else JSON.

    Args:
        value: None, a boolean, a number, a text, or a list or mapping of these.

    Raises:
        UsageError: if a scenario cannot have such a value.
    """
    if isinstance(value, str):
        try:
            same = value == value.strip() and _read(value, Mark(NO_FILE, 1, 1)) == value
        except ScenarioError:
            same = False
        return value if same else json.dumps(value, ensure_ascii=False)
    plain = value.item() if hasattr(value, "item") else value  # a number of numpy
    try:
        return json.dumps(plain, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{value!r:.60} is no value of a scenario") from error


def apply_overrides(tree: Map, overrides: Iterable[Override]) -> None:
    """Change `tree`, the tree of a scenario file, in place.

    Raises:
        UsageError: if the path of an override does not exist.
    """
    for override in overrides:
        _put(tree, override)


def value_at(tree: Any, override: Override) -> Any:
    """Return the value that an override replaces.

    Args:
        tree: the tree of a scenario file, or what is plain of it.
        override: the override, of which only the path counts.

    Raises:
        UsageError: if the tree has no such value.
    """
    here = tree
    for step in override.path:
        if isinstance(here, list):
            here = here[_index(here, step, override)]
        elif isinstance(here, dict) and step in here:
            here = here[step]
        else:
            keys = list(here) if isinstance(here, dict) else []
            hint = did_you_mean(step, keys) or "it must be a value that stands in the file"
            raise override.error(f"the file has no {step!r:.80} there", hint)
    return here


def _read(text: str, mark: Mark) -> Any:
    """Return the value of an override."""
    value, problems = read_tree(text, FILE) if text.strip() else (None, [])
    if value is REFUSED_VALUE or problems:
        raise ScenarioError([mark.problem(problem.message) for problem in problems])
    return value


def _copy(value: Any, mark: Mark) -> Any:
    """Return a tree with the same values, all at one position."""
    if isinstance(value, dict):
        copy = Map(mark)
        for key, inner in value.items():
            copy.put(key, _copy(inner, mark), mark, mark)
        return copy
    if isinstance(value, list | tuple):
        items = Seq(mark)
        items.extend(_copy(inner, mark) for inner in value)
        items.values_at = [mark] * len(items)
        return items
    return value


def _put(tree: Map, override: Override) -> None:
    """Set the value at a path. New keys are added: validation reports unknown ones."""
    path, mark = override.path, override.mark or Mark(NO_FILE, 1, 1)
    value = _copy(override.value, mark)
    if path[0] not in Scenario.known_keys():
        hint = _as_state(tree, path[-1]) or did_you_mean(path[0], Scenario.known_keys())
        raise override.error(f"there is no {path[0]!r}", hint)
    here: Any = tree
    for depth, step in enumerate(path):
        last = depth == len(path) - 1
        if isinstance(here, Seq):
            index = _index(here, step, override)
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
            raise override.error(f"{'.'.join(path[:depth])} is a single value and has no keys")


def _as_state(tree: Map, name: str) -> str | None:
    """Return a hint for a path without its beginning: where agents have a state variable of this name."""
    agents = tree.get("agents")
    for entry in agents if isinstance(agents, Seq) else ():
        state = entry.get("state") if isinstance(entry, Map) else None
        if isinstance(state, Map) and name in state:
            return f"did you mean agents.{_name(entry)}.state.{name}?"
    return None


def _index(items: list[Any], step: str, override: Override) -> int:
    names = [_name(item) for item in items]
    if step in names:
        return names.index(step)
    if step.isdecimal() and len(step) < 7 and int(step) < len(items):
        return int(step)
    raise _unknown(override, step, [name for name in names if name])


def _name(item: Any) -> str:
    keys = ("name", "id", "topic")
    return str(next((item[key] for key in keys if key in item), "")) if isinstance(item, dict) else ""


def _unknown(override: Override, step: str, keys: Iterable[str]) -> UsageError:
    return override.error(f"there is no {step!r}", did_you_mean(step, keys))
