"""The actions of conversations: what simulated people and agents write."""

from typing import Any

from sim.agents.conversation.service import Conversations
from sim.permissions import Permission
from sim.world import Inhabitant, Refused, World
from sim.world.action import action


@action("post_message", permission=Permission.GUEST, everywhere=False)
def post_message(
    world: World,
    agent: Inhabitant,
    text: str,
    channel: str,
    platform: str = "chat",
    thread: str | None = None,
    user: str | None = None,
) -> dict[str, Any]:
    """Write a message as a person, into a channel or a thread of it; the user and the conversation are made if new.

    Args:
        text: the text.
        channel: the channel.
        platform: the platform, such as mail.
        thread: the thread in the channel.
        user: the account on the platform; by default the name of the agent. Other accounts need the permission admin.
    """
    account = agent.agent_id if user is None else user
    if account != agent.agent_id and agent.permission < Permission.ADMIN:
        raise Refused(f"{agent.agent_id} may not write as {account!r:.60}")
    conversations = Conversations.of(world)
    person = conversations.resolve_user(platform, account)
    conversation = conversations.resolve(person, platform, channel, thread)
    message = conversations.append(conversation.id, "user", person.id, text)
    return {"conversation": conversation.id, "message": message.id, "user": person.id}


@action("reply", everywhere=False)
def reply(world: World, agent: Inhabitant, conversation: str, text: str) -> dict[str, Any]:
    """Answer in a conversation, as this agent.

    Args:
        conversation: the id of the conversation.
        text: the text.
    """
    conversations = Conversations.of(world)
    if conversation not in conversations.conversations:
        raise Refused(f"there is no conversation {conversation!r:.60}")
    message = conversations.append(conversation, "assistant", agent.agent_id, text)
    return {"conversation": conversation, "message": message.id}


ACTIONS = (post_message, reply)
