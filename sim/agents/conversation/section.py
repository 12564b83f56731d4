"""The section `conversations` of a scenario: it gives a world the service and its actions."""

from sim.agents.conversation.actions import ACTIONS
from sim.agents.conversation.records import ConversationSettings
from sim.agents.conversation.service import Conversations
from sim.world import World
from sim.world.section import define_section, draws_nothing


def make(world: World, settings: ConversationSettings) -> None:
    """Add the conversations and their actions to a world."""
    world.add_service(Conversations(world, settings))
    for handler in ACTIONS:
        world.actions.register(handler)


CONVERSATIONS = define_section("conversations", ConversationSettings, make, draws=draws_nothing)
