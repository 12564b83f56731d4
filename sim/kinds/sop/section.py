"""The section `sop` of a scenario: it gives a world its employees' procedures, watchers and channels."""

from sim.kinds.sop.channels import Channels
from sim.kinds.sop.service import Sops
from sim.kinds.sop.settings import SopSettings
from sim.world import World
from sim.world.section import define_section, draws_nothing


def _make(world: World, settings: SopSettings) -> None:
    world.add_service(Channels(world))
    world.add_service(Sops(world, settings))


define_section("sop", SopSettings, _make, draws=draws_nothing)
