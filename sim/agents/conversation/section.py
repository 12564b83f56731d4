"""The section `conversations` of a scenario: it gives a world the service and its actions."""

from sim.agents.conversation.actions import ACTIONS
from sim.agents.conversation.records import ConversationSettings
from sim.agents.conversation.service import Conversations
from sim.world.section import define_section, draws_nothing

CONVERSATIONS = define_section(
    "conversations", ConversationSettings, Conversations, actions=ACTIONS, draws=draws_nothing
)
