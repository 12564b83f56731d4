"""Prepares the islands of a world: what agents do and read there, and what has a home."""

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, Final

from sim.agents import Toolbox
from sim.base.expressions import functions_at
from sim.scenario.island_division import division_of
from sim.scenario.island_uses import groups_of, homes_of, settings_of
from sim.scenario.schema import Scenario
from sim.world import World
from sim.world.islands import Islands

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
    homes, groups = homes_of(scenario, division), groups_of(scenario, division)
    watched = {name: _of_thing(islands, toolbox, name, kind) for name, kind in _THINGS.items()}
    watched |= {name: _of_agent(islands, toolbox, name) for name in _AGENTS}
    toolbox.functions = {**toolbox.functions, **watched}
    return partial(islands.begin, homes, groups)


def _of_thing(islands: Islands, toolbox: Toolbox, name: str, kind: str) -> Callable[..., Any]:
    function = toolbox.functions[name]

    @wraps(function)
    def watched(thing: Any, *rest: Any) -> Any:
        if isinstance(thing, str):
            islands.check_thing(toolbox.user, kind, thing)
        return function(thing, *rest)

    return watched


def _of_agent(islands: Islands, toolbox: Toolbox, name: str) -> Callable[..., Any]:
    function = toolbox.functions[name]

    @wraps(function)
    def watched(other: Any, *rest: Any) -> Any:
        if isinstance(other, str):
            islands.check_agent(toolbox.user, other, f"calls {name}() of")
        return function(other, *rest)

    return watched


assert {*_THINGS, *_AGENTS} <= functions_at("agent").keys(), "each is a function of rules"
