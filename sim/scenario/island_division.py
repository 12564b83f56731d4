"""The islands of a scenario: those that it names, and those into which it divides the agents of an entry.

Where an agent lives follows from the file and its tables alone, not from the seed: so a check knows all islands.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from sim.base.errors import Problem, UsageError
from sim.base.expressions import PURE_FUNCTIONS, did_you_mean
from sim.scenario.population import MOST_DIGITS
from sim.scenario.schema import Agent, Scenario
from sim.scenario.symbols import mapping
from sim.scenario.units import shown
from sim.scenario.yaml_tree import Map, Mark
from sim.world.islands import A_NAME, IslandSettings, island_named

MOST_ISLANDS: Final = 1000
"""The most islands of a world: the bus keeps a memory of events for each, and an event from outside reaches each. More
values are a mistake more often than not, such as a column with a number for each agent."""

_NAMES: Final = frozenset({"index", "me", "group", "pi"})
"""The names that a start value by which agents are divided can use: they do not depend on the seed. `now` is not among
them: it is 0 at the start, so it could not divide agents, and a check of the file has no clock."""


@attrs.frozen
class Division:
    """The islands of a scenario.

    Attributes:
        names: their names: those in `of`, then others as they come in the file and its tables.
        of: by entry of `agents`, the islands on which its agents live.
        rows: by divided entry, the island of each of its agents, or of each row of its table.
        numbers: by divided entry whose rows have names, the places of these in `rows`.
    """

    names: tuple[str, ...]
    of: Mapping[str, tuple[str, ...]]
    rows: Mapping[str, Sequence[str]]
    numbers: Mapping[str, Mapping[str, int] | None]

    def islands_of(self, agent: str) -> tuple[str, ...]:
        """Return the islands on which an agent of this name can live, several if its row is drawn at the start; empty
        if no entry has such an agent.
        """
        if agent in self.of:
            return self.of[agent]
        for entry, numbers in self.numbers.items():
            if numbers and agent in numbers:
                return (self.rows[entry][numbers[agent]],)
        base, _, number = agent.rpartition("-")
        if base not in self.rows or self.numbers[base] is None:
            return self.of.get(base, ())
        place = int(number) - 1 if number.isdecimal() and len(number) <= MOST_DIGITS else -1
        return (self.rows[base][place],) if 0 <= place < len(self.rows[base]) and not self.numbers[base] else ()


class _NoIslandError(Exception):
    """An agent has no value that can be the name of an island: `value`, or none because of `error`."""

    def __init__(self, row: int, value: Any, error: UsageError | None = None) -> None:
        super().__init__()
        self.row = row
        self.value = value
        self.error = error


def division_of(scenario: Scenario, settings: IslandSettings) -> Division:
    """Return the islands of a scenario in which `check_division` finds no fault: those that it has kept, if any."""
    kept = scenario._division
    if kept is None or kept[0] is not scenario.agents or kept[1] is not settings:  # a copy can have other agents
        entries = {entry.name: entry for entry in scenario.agents}
        kept = _keep(scenario, settings, {name: _rows(entries[name], key) for name, key in settings.by.items()})
    division: Division = kept[2]
    return division


def _keep(
    scenario: Scenario, settings: IslandSettings, rows: Mapping[str, Sequence[str]]
) -> tuple[tuple[Agent, ...], IslandSettings, Division]:
    """Return the agents and the settings of a scenario with their division, which is kept for those who ask later."""
    entries = {entry.name: entry for entry in scenario.agents}
    of = {name: tuple(dict.fromkeys(islands)) for name, islands in rows.items()}
    division = Division(
        names=tuple(dict.fromkeys((*settings.of, *(island for islands in of.values() for island in islands)))),
        of={**{name: (island,) for name, island in settings.entries.items()}, **of},
        rows=rows,
        numbers={name: _numbers(entries[name]) for name in rows},
    )
    kept = (scenario.agents, settings, division)
    scenario._division = kept
    return kept


def _numbers(entry: Agent) -> Mapping[str, int] | None:
    """Return the rows by the names of agents, empty if these are numbered; None if rows are drawn and numbered then."""
    table = entry.population
    if table is None or table.names is not None:
        return {} if table is None else {name: row for row, name in enumerate(table.names or ())}
    return {} if table.sample is None else None


def _rows(entry: Agent, key: str) -> list[str]:
    """Return the island of each agent of an entry, or of each row of its table.

    Raises:
        _NoIslandError: if one has none.
    """
    texts: dict[str, str] = {}  # one text for each island, not for each agent
    islands = []
    for row, value in enumerate(_values(entry, key)):
        island = island_named(value)
        if island is None:
            raise _NoIslandError(row, value)
        islands.append(texts.setdefault(island, island))
    return islands


def _values(entry: Agent, key: str) -> Iterator[Any]:
    table, names = entry.population, entry.agent_names()
    if table is None:
        for row, name in enumerate(names):
            yield _start(entry, key, row, name, entry.group_name)
        return
    groups, cells = table.others.get("group"), table.states.get(key)
    if key == "group":
        yield from groups or ()
        return
    for row in range(table.rows):
        cell = None if cells is None else cells[row]
        if cell is None:
            group = None if groups is None else groups[row]
            cell = _start(entry, key, row, names[row] if table.sample is None else "", group or entry.group_name)
        yield cell


def _start(entry: Agent, key: str, row: int, name: str, group: str) -> Any:
    value = entry.state[key]
    if value.constant:
        return value.raw
    try:
        return value.evaluate({"index": row, "me": name, "group": group, "pi": math.pi}, PURE_FUNCTIONS)
    except UsageError as error:
        raise _NoIslandError(row, None, error) from None


# -- checks


def check_division(tree: Map, scenario: Scenario, settings: IslandSettings) -> Iterator[Problem]:
    """Yield what is wrong with the entries whose agents are divided into islands; keep the division if nothing is.

    Args:
        tree: the tree of the file.
        scenario: the scenario that was read from it.
        settings: its islands.
    """
    by = mapping(mapping(tree, "islands"), "by")
    entries = {entry.name: entry for entry in scenario.agents}
    islands, rows = set(settings.of), dict[str, list[str]]()
    for name, key in settings.by.items():
        where = f"islands.by.{name}"
        mark = by.values_at[name] if isinstance(by, Map) else tree.mark
        if name not in entries:
            yield mark.problem(f"{where}: there is no entry {name!r} in agents", did_you_mean(name, entries))
            continue
        fault = _fault(entries[name], key, settings)
        if fault is not None:
            yield mark.problem(f"{where}: {fault}", fault.hint)
            continue
        try:
            rows[name] = _rows(entries[name], key)
        except _NoIslandError as error:
            yield _without_island(mark, scenario, entries[name], key, error)
            continue
        islands.update(rows[name])
        if len(islands) > MOST_ISLANDS:
            message = f"{where}: with the values of {key} there are {len(islands)} islands, at most {MOST_ISLANDS}"
            yield mark.problem(f"{message} are allowed", "divide agents by something with fewer different values")
            return
    if len(rows) < len(settings.by):  # a problem was found
        return
    if not islands:
        hint = "give one of them agents, or name entries in `islands.of`"
        yield tree.keys_at["islands"].problem("there is no island: no divided entry has agents", hint)
        return
    _keep(scenario, settings, rows)


def _fault(entry: Agent, key: str, settings: IslandSettings) -> UsageError | None:
    """Return why an entry cannot be divided by something; None if it can."""
    name, table = entry.name, entry.population
    if name in settings.entries:
        return UsageError(f"{name!r} lives on {settings.entries[name]} already", hint="name each entry once")
    if entry.template:
        return UsageError("a template has no agents that could be divided", hint="name it in `islands.of`")
    if key == "group":
        if table is not None and "group" in table.others:
            return None
        hint = "divide them by a column or a state variable, or name the entry in `islands.of`"
        return UsageError(f"all agents of {name!r} are of the group {entry.group_name!r}", hint=hint)
    if key not in entry.state:
        hint = did_you_mean(key, entry.state) or "give a column of its table, a state variable, or `group`"
        return UsageError(f"agents of {name!r} have no state variable {key!r}", hint=hint)
    value = entry.state[key]
    if table is not None and table.sample is not None and not value.constant:
        return UsageError(
            f"the start value of {key} is computed, and rows of {entry.table} are drawn", hint=f"give {key} a constant"
        )
    others = sorted((value.names - _NAMES) | (value.functions - PURE_FUNCTIONS.keys()))
    if others:
        allowed = ", ".join(sorted(_NAMES))
        return UsageError(
            f"the start value of {key} uses {others[0]}, and where agents live can depend on {allowed} only",
            hint="so that it is the same with each seed; or have a table with this column",
        )
    return None


def _without_island(mark: Mark, scenario: Scenario, entry: Agent, key: str, error: _NoIslandError) -> Problem:
    """Return the problem of an agent that has no value, or none that can be the name of an island."""
    what = "no value" if error.value is None else shown(error.value)
    wanted = f"expected the island of an agent, {A_NAME}"
    table = scenario.source.tables.get(entry.table or "")
    if table is None or entry.population is None or error.error is not None:
        number = [one.name for one in scenario.agents].index(entry.name)
        message = f"{wanted}, and agent {error.row + 1} has {what}" if error.error is None else str(error.error)
        where = entry._marks.get(f"state.{key}", mark)
        return where.problem(f"agents[{number}].state.{key}: {message}")
    column = _column(entry, table.columns, key)
    name = table.columns[column]
    text = f"row {error.row + 1}, column {name[:80]!r}: {wanted}, found {what}"
    hint = "fill in the cell"
    if key != "group" and error.value is None:
        hint += f", or give rows without a value one: `state: {{{key}: ...}}`"
    return Problem(str(entry.table), table.lines[error.row], column + 1, text, hint)


def _column(entry: Agent, columns: Sequence[str], key: str) -> int:
    """Return the place of the column that becomes a state variable or the group."""
    to = key if key == "group" else f"state.{key}"
    named = [place for place, name in enumerate(columns) if name in entry.columns and entry.columns[name].to == to]
    return named[0] if named else columns.index(key) if key in columns else 0
