"""Prepares the islands of a world: what agents do and read there, and what has a home."""

from collections.abc import Callable, Mapping
from functools import partial, wraps
from inspect import signature
from typing import Any, Final

from sim.actors.actions import travel
from sim.actors.travel import arrive, clear, leave
from sim.agents import Toolbox
from sim.base.expressions import functions_at
from sim.kernel.codec import Raw
from sim.scenario.island_division import division_of
from sim.scenario.island_uses import READ_IN_PLACE, groups_of, homes_of, settings_of
from sim.scenario.schema import Scenario
from sim.world import World
from sim.world.islands import Islands


class _Loops:
    """The loops of agents that travel."""

    def leave(self, agent: Any, left: Callable[[Callable[[int], Raw]], None]) -> None:
        """See `Carrier`."""
        leave(agent.loop, left)

    def clear(self, agent: Any) -> None:
        """See `Carrier`."""
        clear(agent.loop)

    def start(self, agent: Any, luggage: Raw) -> None:
        """See `Carrier`."""
        arrive(agent.loop, luggage)


_THINGS: Final[Mapping[str, str]] = {
    "level": "pools", "queue": "pools", "holds": "pools", "exists": "artifacts", "content": "artifacts",
}  # fmt: skip
"""By function of rules: the kind of thing that its first argument names."""

_AGENTS: Final = ("state_of", "group_of", "place_of", "agents")
"""The functions of rules whose first argument is an agent or a group."""


def prepare_islands(world: World, scenario: Scenario, toolbox: Toolbox) -> Callable[[], None]:
    """Have functions of rules stop the run before they read another island. To be called before agents are made.

    Returns:
        What begins to watch the actions of all agents; to be called when those of the start exist.
    """
    settings = settings_of(scenario)
    assert settings is not None, "the file has islands"
    division, islands = division_of(scenario, settings), Islands.of(world)
    islands.divide(division.names)
    world.rate_tracker.divide(islands.island_of)
    islands.carrier = _Loops()
    world.actions.register(travel)
    homes, groups = homes_of(scenario, division), groups_of(scenario, division)
    for name, kind in _THINGS.items():
        toolbox.watch(name, partial(_of_first, toolbox, partial(_check_thing, islands, kind)))
    for name, kind in READ_IN_PLACE.items():
        toolbox.watch(name, partial(_of_all, islands, toolbox, kind))
    for name in _AGENTS:
        toolbox.watch(name, partial(_of_first, toolbox, partial(_check_agent, islands, name)))
    toolbox.watch("remaining", partial(_of_first, toolbox, partial(_check_limit, islands, world)))
    return partial(islands.begin, homes, groups)


def _check_thing(islands: Islands, kind: str, user: str, thing: str) -> None:
    islands.check_thing(user, kind, thing)


def _check_agent(islands: Islands, function: str, user: str, other: str) -> None:
    islands.check_agent(user, other, f"calls {function}() of")


def _check_limit(islands: Islands, world: World, user: str, name: str) -> None:
    if name not in world.budgets and name not in world.quotas:  # these count for each agent
        islands.check_limit(user, name)


def _of_first(toolbox: Toolbox, check: Callable[[str, str], None], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that checks its first argument, which a rule can give by name, for the agent that calls it."""
    named = next(iter(signature(function).parameters))

    @wraps(function)
    def watched(*arguments: Any, **others: Any) -> Any:
        name = arguments[0] if arguments else others.get(named)
        if isinstance(name, str):
            check(toolbox.user, name)
        return function(*arguments, **others)

    return watched


def _of_all(islands: Islands, toolbox: Toolbox, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def watched(*arguments: Any, **others: Any) -> Any:
        islands.check_thing(toolbox.user, kind, "")
        return function(*arguments, **others)

    return watched


assert {*_THINGS, *_AGENTS, *READ_IN_PLACE, "remaining"} <= functions_at("agent").keys(), "each is a function of rules"
