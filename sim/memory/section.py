"""The section `memory` of a scenario: it gives a world the service and its actions."""

from sim.memory.actions import ACTIONS
from sim.memory.service import Memories
from sim.memory.settings import MemorySettings
from sim.memory.time_frame import civil_time_frame
from sim.world.section import define_section, draws_nothing
from sim.world.world import World


def _make(world: World, settings: MemorySettings) -> Memories:
    memories = Memories(world, settings)
    if world.calendar is not None:
        memories.time_frame = civil_time_frame(world.calendar)
    return memories


MEMORY = define_section("memory", MemorySettings, _make, actions=ACTIONS, draws=draws_nothing)
