"""Conversations of agents with people.

Modules: `records` (users, conversations, sessions, messages, settings), `history` (what a person sees, and what a model
sees), `service` (the conversations of a world), `actions` (`post_message`, `reply`), `section` (the key `conversations`
of a scenario), `transcript` (conversations as a person reads them), `views`.
"""

from typing import TYPE_CHECKING

from sim.base.late import late_names

if TYPE_CHECKING:
    from sim.agents.conversation.records import (
        Conversation,
        ConversationMessage,
        ConversationSettings,
        PlatformLink,
        Session,
        User,
    )
    from sim.agents.conversation.section import CONVERSATIONS
    from sim.agents.conversation.service import Conversations
    from sim.agents.conversation.transcript import Transcript, Transcripts

__all__ = [
    "CONVERSATIONS", "Conversation", "ConversationMessage", "ConversationSettings", "Conversations", "PlatformLink",
    "Session", "Transcript", "Transcripts", "User",
]  # fmt: skip

_HOMES = {
    "records": "Conversation ConversationMessage ConversationSettings PlatformLink Session User",
    "section": "CONVERSATIONS",
    "service": "Conversations",
    "transcript": "Transcript Transcripts",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(__name__, _HOMES)
