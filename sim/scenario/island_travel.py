"""The check of travel: where agents go, how long it takes, and what they cannot take along."""

from collections.abc import Iterator
from typing import Any, Final

from sim.base.errors import Problem, UsageError
from sim.base.expressions import did_you_mean
from sim.kernel.duration import to_ns, to_text
from sim.scenario.actions import Do
from sim.scenario.island_division import Division
from sim.scenario.schema import Agent, Scenario
from sim.scenario.symbols import items
from sim.scenario.yaml_tree import Map, Mark
from sim.world.islands import IslandSettings

_COUNTED: Final = ("limits", "budgets", "quotas")
"""What counts for each agent what it has used; it is counted on one island."""


def check_travel(tree: Map, scenario: Scenario, settings: IslandSettings, division: Division) -> Iterator[Problem]:
    """Yield what is wrong with `travel` in rules.

    Args:
        tree: the tree of the file.
        scenario: the scenario that was read from it.
        settings: its islands.
        division: their names.
    """
    for number, entry in enumerate(scenario.agents):
        for place, rule in enumerate(entry.rules):
            for do in rule.do:
                if do.kind == "travel":
                    where, mark = f"agents[{number}].rules[{place}].do", _at(tree, number, place)
                    yield from _way(where, mark, do, settings, division)
                    yield from _kept(where, mark, scenario, entry)


def _way(where: str, mark: Mark, do: Do, settings: IslandSettings, division: Division) -> Iterator[Problem]:
    to, after = do.arguments["to"], do.arguments["after"]
    least = to_text(settings.latency)
    if to.constant and to.raw not in division.names:
        yield mark.problem(
            f"{where}: there is no island {to.raw!r:.80} to travel to", did_you_mean(str(to.raw), division.names)
        )
    if after.constant and _shorter(after.raw, settings.latency):
        message = f"{where}: the way takes {after.raw}, and between islands it takes at least {least}"
        yield mark.problem(message, f"write `after: {least}` or more")


def _shorter(after: Any, least: int) -> bool:
    try:
        return to_ns(after) < least
    except UsageError:
        return False  # reported elsewhere


def _kept(where: str, mark: Mark, scenario: Scenario, entry: Agent) -> Iterator[Problem]:
    """Yield what agents have that cannot travel."""
    counted = next((key for key in _COUNTED if getattr(scenario, key)), None)
    columns = () if entry.population is None else entry.population.others
    rich = not entry.balance.constant or bool(entry.balance.raw) or "balance" in columns
    for has, what, hint in (
        (counted is not None, f"{counted}, which count what each agent uses on one island", f"leave out {counted}"),
        (rich, "money, whose account is on one island", "leave out `balance`"),
        (entry.place is not None or "place" in columns, "places, which are on one island", "leave out `place`"),
    ):
        if has:
            yield mark.problem(f"{where}: {entry.name} cannot travel in a file that gives it {what}", hint)


def _at(tree: Map, number: int, place: int) -> Mark:
    rule = items(items(tree, "agents")[number], "rules")[place]
    assert isinstance(rule, Map), "it was read from a file"
    mark: Mark = rule.values_at.get("do", rule.mark)
    return mark
