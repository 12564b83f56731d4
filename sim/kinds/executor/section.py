"""The section `executor` of a scenario: it gives a world the service of executors, and the actions of people."""

from sim.kinds.executor.agents import ACTIONS
from sim.kinds.executor.service import Executors
from sim.kinds.executor.settings import ExecutorsSettings
from sim.world import World
from sim.world.section import define_section, draws_nothing


def _make(world: World, settings: ExecutorsSettings) -> None:
    world.add_service(Executors(world, settings))
    for handler in ACTIONS:
        world.actions.register(handler)


EXECUTOR = define_section("executor", ExecutorsSettings, _make, draws=draws_nothing)
