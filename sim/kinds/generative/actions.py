"""The action `live`."""

from typing import Any

from sim.kinds.generative.living import lived
from sim.world import Inhabitant, Refused, World
from sim.world.action import action


@action("live", wait=lived, ends=True, everywhere=False, draws=False)
def live(world: World, agent: Inhabitant, did: dict[str, Any]) -> dict[str, Any]:
    """Look around, react, plan and reflect as a generative agent, then walk on."""
    if world.space is None:
        raise Refused("generative agents live in the space of their town")
    world.space.show(agent.agent_id, tuple(did["to"]), did["doing"])
    return did
