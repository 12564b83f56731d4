"""The section `memory` of a scenario: it gives a world the service and its actions."""

from sim.memory.actions import ACTIONS
from sim.memory.service import Memories
from sim.memory.settings import MemorySettings
from sim.memory.time_frame import civil_time_frame
from sim.world.section import define_section, draws_nothing
from sim.world.world import World


def make(world: World, settings: MemorySettings) -> None:
    """Add the memories and their actions to a world."""
    memories = Memories(world, settings)
    if world.calendar is not None:
        memories.time_frame = civil_time_frame(world.calendar)
    world.add_service(memories)
    for handler in ACTIONS:
        world.actions.register(handler)


MEMORY = define_section("memory", MemorySettings, make, draws=draws_nothing)
