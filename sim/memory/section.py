"""The section `memory` of a scenario: it gives a world the service and its actions."""

from sim.memory.actions import ACTIONS
from sim.memory.service import Memories
from sim.memory.settings import MemorySettings
from sim.world.section import define_section
from sim.world.world import World


def make(world: World, settings: MemorySettings) -> None:
    """Add the memories and their actions to a world."""
    world.add_service(Memories(world, settings))
    for handler in ACTIONS:
        world.actions.register(handler)


MEMORY = define_section("memory", MemorySettings, make)
