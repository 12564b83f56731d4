"""The section `chat` of a scenario: it gives a world the service of chats, and the actions of people."""

from sim.kinds.chat.agents import ACTIONS
from sim.kinds.chat.service import Chats
from sim.kinds.chat.settings import ChatSettings
from sim.world import World
from sim.world.section import define_section, draws_nothing


def _make(world: World, settings: ChatSettings) -> None:
    world.add_service(Chats(world, settings))
    for handler in ACTIONS:
        world.actions.register(handler)


CHAT = define_section("chat", ChatSettings, _make, draws=draws_nothing)
