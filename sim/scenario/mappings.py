"""Scenarios that a program gives as a mapping: their text, and errors that name the key instead of a line."""

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from sim.base.errors import Problem, ScenarioError
from sim.scenario.table_files import TableError, TableFile, is_table, table_from
from sim.scenario.yaml_tree import MAX_DEPTH, Map, Mark, Seq

FILE: Final = ""
"""The name of the file of what is in none."""


def text_of(data: Mapping[str, Any]) -> tuple[str, dict[str, TableFile]]:
    """Return the text of a scenario that is given as a mapping, as JSON, which YAML includes, and the tables in it.

    A table of an entry, such as a DataFrame, stands under the name of the entry.

    Raises:
        ScenarioError: if a value is none that a scenario can have.
    """
    tables: dict[str, TableFile] = {}
    copy: dict[str, Any] = {key: _plain(value, str(key)) for key, value in data.items() if key != "agents"}
    if "agents" in data:
        copy["agents"] = _agents(data["agents"], tables)
    ordered = {_key(key, ""): copy[key] for key in data}
    return json.dumps(ordered, ensure_ascii=False, indent=1), tables


def _agents(agents: Any, tables: dict[str, TableFile]) -> Any:
    if not isinstance(agents, list | tuple):
        return _plain(agents, "agents")
    entries = []
    for number, entry in enumerate(agents):
        if isinstance(entry, Mapping) and is_table(entry.get("table")):
            path = f"agents[{number}].table"
            name = str(entry.get("name", f"table-{number}"))
            try:
                tables[name] = table_from(entry["table"])
            except TableError as error:
                raise ScenarioError([_problem(path, str(error), error.hint)]) from None
            entry = {**entry, "table": name}
        entries.append(_plain(entry, f"agents[{number}]"))
    return entries


def _problem(path: str, message: str, hint: str | None = None) -> Problem:
    return Mark(FILE, 0, 0, path).problem(message, hint)


def _plain(value: Any, path: str, depth: int = 1) -> Any:
    """Return a value as JSON has it; numbers of numpy become those of Python.

    Raises:
        ScenarioError: if it has none.
    """
    if depth > MAX_DEPTH:
        raise ScenarioError([_problem(path, f"it is nested more than {MAX_DEPTH} deep")])
    if isinstance(value, Mapping):
        return {_key(key, path): _plain(one, f"{path}.{key}", depth + 1) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one, f"{path}[{number}]", depth + 1) for number, one in enumerate(value)]
    if hasattr(value, "item") and not isinstance(value, int | float | str):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise ScenarioError([_problem(path, f"expected a finite number, found {value}")])
    if value is None or isinstance(value, bool | int | float | str):
        return value
    message = f"expected a text, a number, true, false, null, a list or a mapping, found {type(value).__name__}"
    raise ScenarioError([_problem(path, message)])


def _key(key: Any, path: str) -> str:
    if not isinstance(key, str):
        raise ScenarioError([_problem(path or "the scenario", f"keys must be text, found {key!r:.60}")])
    return key


def name_by_path(tree: Any, path: str = "") -> None:
    """Give each part of a tree its path in place of its position."""
    if isinstance(tree, Map):
        tree.mark = Mark(FILE, 0, 0, path)
        for key in tree:
            inner = f"{path}.{key}" if path else key
            tree.keys_at[key] = tree.values_at[key] = Mark(FILE, 0, 0, inner)
            name_by_path(tree[key], inner)
    elif isinstance(tree, Seq):
        tree.mark = Mark(FILE, 0, 0, path)
        tree.values_at = [Mark(FILE, 0, 0, f"{path}[{number}]") for number in range(len(tree))]
        for number, part in enumerate(tree):
            name_by_path(part, f"{path}[{number}]")
