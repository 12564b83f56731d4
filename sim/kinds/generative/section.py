"""The section `generative` of a scenario: it gives a world the service of generative agents, and the action `live`."""

from sim.kinds.generative.actions import live
from sim.kinds.generative.service import Generative
from sim.kinds.generative.settings import GenerativeSettings
from sim.world import World
from sim.world.section import define_section, draws_nothing


def _make(world: World, settings: GenerativeSettings) -> None:
    world.add_service(Generative(world, settings))
    if world.actions.find(live.kind) is not live:
        world.actions.register(live)


GENERATIVE = define_section("generative", GenerativeSettings, _make, draws=draws_nothing)
