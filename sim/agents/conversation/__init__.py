"""Conversations of agents with people.

Modules: `records` (users, conversations, messages, settings), `service` (the conversations of a world), `actions`
(`post_message`, `reply`), `section` (the key `conversations` of a scenario).
"""

from sim.agents.conversation.records import Conversation, ConversationMessage, ConversationSettings, User
from sim.agents.conversation.section import CONVERSATIONS
from sim.agents.conversation.service import Conversations

__all__ = ["CONVERSATIONS", "Conversation", "ConversationMessage", "ConversationSettings", "Conversations", "User"]
