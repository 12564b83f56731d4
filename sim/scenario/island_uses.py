"""What the agents of each island use, from the rules of a scenario, and the home islands that follow from it."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any, Final, Literal

import attrs

from sim.base.expressions import Expression
from sim.scenario.actions import Do
from sim.scenario.island_division import Division
from sim.scenario.schema import Agent, Rule, Scenario
from sim.scenario.scopes import REFERS
from sim.scenario.sleep import SleepSpec
from sim.world.action import DEFINED
from sim.world.islands import ARGUMENTS, OF_PLACES, OF_TASKS, IslandSettings, Thing

READ_IN_PLACE: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "neighbours",
            "nearby",
            "adjacent",
            "attribute",
            "free_places",
            "variable",
            "stock",
            "richest",
            "place_of",
        ),
        "places",
    ),
    **dict.fromkeys(("my_tasks", "task"), "tasks"),
}
"""By function of rules: the kind of thing that it reads, all of which has one home."""
_REFERRED: Final[Mapping[str, str]] = {"pool": "pools", "slots": "pools", "stock": "pools", "artifact": "artifacts"}
"""By what an argument of a function refers to: the kind of thing."""

Part = Literal["place", "do", "when", "let", "set", "record", "subscribe"]


@attrs.frozen
class Where:
    """A place in a scenario: in an entry of `agents`, and below one of its rules if `rule` is not None."""

    entry: int
    rule: int | None
    part: Part

    @property
    def path(self) -> str:
        """The path of the place."""
        rule = "" if self.rule is None else f".rules[{self.rule}]"
        return f"agents[{self.entry}]{rule}.{self.part}"


@attrs.frozen
class Use:
    """A use of a thing by the agents of an entry, who live on some islands."""

    where: Where
    islands: tuple[str, ...]
    thing: Thing


@attrs.frozen
class Meeting:
    """A rule that names another agent, a group or an entry.

    Attributes:
        where, islands: the place, and the islands of the agents with this rule.
        what: what they do with the one that is named, in words.
        name: the name.
        after: of a message, its delay as written, or None without one; `...` for anything else.
    """

    where: Where
    islands: tuple[str, ...]
    what: str
    name: str
    after: Any = ...


def uses_of(scenario: Scenario, division: Division) -> Iterator[Use | Meeting]:
    """Yield what agents use by name, and whom they name, in the order of the file. Those that travel can be on any
    island then, so that only a run can tell; but places and tasks are on their first island.
    """
    for number, entry in enumerate(scenario.agents):
        islands = division.of.get(entry.name)
        if not islands:
            continue
        placed = entry.place is not None or (entry.population is not None and "place" in entry.population.others)
        if placed:
            yield Use(Where(number, None, "place"), islands, ("places", ""))
        for place, rule in enumerate(entry.rules):
            uses = _of_rule(Where(number, place, "do"), islands, rule)
            yield from (use for use in uses if isinstance(use, Use) and not use.thing[1]) if travels(entry) else uses


def _of_rule(where: Where, islands: tuple[str, ...], rule: Rule) -> Iterator[Use | Meeting]:
    for do in rule.do:
        yield from _of_action(where, islands, do)
    for part, expressions in _expressions(rule):
        for expression in expressions:
            yield from _of_expression(attrs.evolve(where, part=part), islands, expression)


def _of_action(where: Where, islands: tuple[str, ...], do: Do) -> Iterator[Use | Meeting]:
    if do.kind in OF_PLACES:
        yield Use(where, islands, ("places", ""))
    if do.kind in OF_TASKS:
        yield Use(where, islands, ("tasks", ""))
    if do.sleep is not None:
        return
    for argument in DEFINED[do.kind].arguments():
        value = do.arguments.get(argument.name)
        if value is None or not value.constant or not isinstance(value.raw, str):
            continue
        if argument.meaning in ARGUMENTS:
            yield Use(where, islands, (ARGUMENTS[argument.meaning], value.raw))
        elif argument.meaning == "recipient" and do.kind == "send":
            after = do.arguments.get("after")
            latency = None if after is None else after.raw if after.constant else ...
            yield Meeting(where, islands, "sends to", value.raw, latency)
        elif argument.meaning == "recipient":
            yield Meeting(where, islands, f"does {do.kind} with", value.raw)
        elif argument.meaning == "entry":
            yield Meeting(where, islands, "spawns", value.raw)


def _expressions(rule: Rule) -> Iterator[tuple[Part, list[Expression]]]:
    yield "when", [rule.when]
    yield "let", [one for value in rule.let.values() for one in value.expressions]
    yield "set", [one for value in rule.set.values() for one in value.expressions]
    yield "record", [one for value in rule.record.values() for one in value.expressions]
    yield "do", [one for do in rule.do for one in _of_do(do)]


def expressions_of(rule: Rule) -> Iterator[Expression]:
    """Yield all expressions of a rule."""
    return (one for _, expressions in _expressions(rule) for one in expressions)


def _of_do(do: Do) -> Iterator[Expression]:
    values: Iterable[Any] = do.arguments.values()
    if do.sleep is not None:
        values = _sleeping(do.sleep.values.values())
    for value in values:
        if isinstance(value, Expression):
            yield value
        else:
            yield from getattr(value, "expressions", ())


def _sleeping(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the values of a sleep, and those of the conditions in it."""
    for value in values:
        if isinstance(value, tuple):
            for part in value:
                yield from _sleeping(part.values.values() if isinstance(part, SleepSpec) else (part,))
        else:
            yield value


def _of_expression(where: Where, islands: tuple[str, ...], expression: Expression) -> Iterator[Use | Meeting]:
    for kind in sorted({READ_IN_PLACE[name] for name in expression.functions & READ_IN_PLACE.keys()}):
        yield Use(where, islands, (kind, ""))
    for literal in expression.literals:
        to = REFERS.get((literal.function, literal.position))
        if READ_IN_PLACE.get(literal.function) == "places" or to is None:
            continue
        if to in _REFERRED:
            yield Use(where, islands, (_REFERRED[to], literal.text))
        elif to in ("agent", "group"):
            yield Meeting(where, islands, f"calls {literal.function}() of", literal.text)


def homes_of(scenario: Scenario, division: Division) -> dict[Thing, str]:
    """Return the home island of each thing that has one: the island whose agents name it, or what `home` says."""
    settings = settings_of(scenario)
    assert settings is not None, "the file has islands"
    homes: dict[Thing, str] = {}
    for kind in ("pools", "artifacts", "accounts"):
        homes.update({(kind, name): island for name, island in getattr(settings.home, kind).items()})
    for use in uses_of(scenario, division):
        if isinstance(use, Use):
            homes.setdefault(use.thing, use.islands[0])
    return homes


def groups_of(scenario: Scenario, division: Division) -> dict[str, set[str]]:
    """Return the islands of the agents of each group, and of each entry with several agents. Those that travel can be
    on all.
    """
    islands_by_group: dict[str, set[str]] = {}
    for entry in scenario.agents:
        everywhere = division.names if travels(entry) else ()
        for name in {entry.name, entry.group_name}:
            islands_by_group.setdefault(name, set()).update(division.of.get(entry.name, ()), everywhere)
        for group, islands in charged_groups_of(entry, division).items():
            islands_by_group.setdefault(group, set()).update(islands, everywhere)
    return islands_by_group


def charged_groups_of(entry: Agent, division: Division) -> dict[str, set[str]]:
    """Return the islands of the agents of an entry by their own group, which a limit for a group is charged to."""
    table, islands_by_group = entry.population, dict[str, set[str]]()
    islands = division.of.get(entry.name, ())
    if table is None or "group" not in table.others:
        return {entry.group_name: set(islands)}
    rows = division.rows.get(entry.name)
    each = repeat(islands) if rows is None else zip(rows, strict=True)
    for group, where in dict.fromkeys(zip(table.others["group"], each, strict=False)):  # `repeat` has no end
        islands_by_group.setdefault(entry.group_name if group is None else group, set()).update(where)
    return islands_by_group


def travels(entry: Agent) -> bool:
    """Return whether agents of an entry can travel."""
    return any(do.kind == "travel" for rule in entry.rules for do in rule.do)


def settings_of(scenario: Scenario) -> IslandSettings | None:
    """Return the section `islands` of a scenario; None if it has none."""
    settings = scenario.sections.get("islands")
    return settings if isinstance(settings, IslandSettings) else None


def topics_of(scenario: Scenario, division: Division) -> Iterator[tuple[tuple[str, ...], str | None]]:
    """Yield the topics that agents publish, with their islands; None as a topic: it is computed."""
    for entry in scenario.agents:
        for rule in entry.rules:
            for do in rule.do:
                value = do.arguments.get("topic") if do.kind == "publish" else None
                if value is not None and division.of[entry.name]:  # without agents, none publishes
                    yield division.of[entry.name], value.raw if value.constant else None
