"""The actions of conversations: what simulated people and agents write."""

from sim.agents.conversation.records import Audience
from sim.agents.conversation.service import Conversations, check_place
from sim.base.permissions import Permission
from sim.kernel.codec import Json, freeze
from sim.world import Inhabitant, Refused, World
from sim.world.action import action


@action("post_message", permission=Permission.GUEST, everywhere=False, draws=False)
def post_message(
    world: World,
    agent: Inhabitant,
    text: str,
    channel: str,
    platform: str = "chat",
    thread: str | None = None,
    user: str | None = None,
    username: str | None = None,
) -> dict[str, Json]:
    """Write a message as a person, into a channel or a thread of it; the user and the conversation are made if new.

    Args:
        text: the text.
        channel: the channel.
        platform: the platform, such as mail.
        thread: the thread in the channel.
        user: the account on the platform; by default the name of the agent. Other accounts need the permission admin.
        username: the name that is shown for a new account; by default that of the account. It needs the same.
    """
    account = agent.agent_id if user is None else user
    gateway = agent.permission >= Permission.ADMIN
    if account != agent.agent_id and not gateway:
        raise Refused(f"{agent.agent_id} may not write as {account!r:.60}")
    if username not in (None, account) and not gateway:
        raise Refused(f"{agent.agent_id} may not be shown as {username!r:.60}")
    conversations = Conversations.of(world)
    _check(text)
    check_place(platform, channel, thread)
    person = conversations.resolve_user(platform, account, username or "")
    conversation = conversations.resolve(person, platform, channel, thread)
    message = conversations.append(conversation.id, "user", person.id, text)
    return {"conversation": conversation.id, "message": message.id, "user": person.id}


@action("reply", everywhere=False, draws=False)
def reply(world: World, agent: Inhabitant, conversation: str, text: str) -> dict[str, Json]:
    """Answer in a conversation, as this agent.

    Args:
        conversation: the id of the conversation.
        text: the text.
    """
    conversations = Conversations.of(world)
    record = conversations.find(conversation)
    if conversations.is_account(record.platform, agent.agent_id):
        raise Refused(f"{agent.agent_id} is a person on {record.platform}: it writes with post_message")
    claim = conversations.claims.get(conversation)
    if claim is not None and claim.agent != agent.agent_id:
        raise Refused(f"{claim.agent} works on {conversation} already", skip=True)
    _check(text)
    # an agent that speaks through a tool: its model knows the text from the call already
    audience: Audience = "all" if claim is None else "person"
    message = conversations.append(conversation, "assistant", agent.agent_id, text, audience=audience)
    return {"conversation": conversation, "message": message.id}


def _check(text: str) -> None:
    if not text.strip():
        raise Refused("the message needs a text")
    freeze(text)  # only a check: it refuses what cannot be recorded


ACTIONS = (post_message, reply)
