"""The section `goals` of a scenario: it gives a world the service of goals, and the actions of people."""

from sim.kinds.goals.actions import ACTIONS
from sim.kinds.goals.service import Goals
from sim.kinds.goals.settings import GoalsSettings
from sim.world import World
from sim.world.section import define_section, draws_nothing


def _make(world: World, settings: GoalsSettings) -> None:
    world.add_service(Goals(world, settings))
    for handler in ACTIONS:
        world.actions.register(handler)


GOALS = define_section("goals", GoalsSettings, _make, draws=draws_nothing)
