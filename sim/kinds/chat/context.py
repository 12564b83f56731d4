"""The context builder: the prompt for an answer, within a number of tokens: step 7 of `steps`."""

from collections.abc import Sequence
from typing import Final

import attrs

from sim.agents.conversation import Conversation, ConversationMessage, User
from sim.agents.engine import prompt, time_context
from sim.kinds.chat.service import Chats
from sim.kinds.chat.settings import Persona
from sim.llm.service import Models
from sim.llm.tokens import APPROXIMATE, count_request
from sim.llm.types import ChatMessage, ModelRequest, ToolSpec
from sim.world import Inhabitant, World

_CUT: Final = "\n... [cut]"


def build_context(
    world: World,
    chats: Chats,
    agent: Inhabitant,
    user: User,
    conversation: Conversation,
    persona: Persona | None,
    message: ConversationMessage,
    request: ModelRequest,
) -> list[ChatMessage]:
    """Return the messages of the prompt: the system prompt of the persona, what is remembered, and recent messages.

    It is never longer than the context window of the model, if that is known, minus the longest answer.

    Args:
        world: the world.
        chats: the service.
        agent: the agent that answers.
        user: who asks.
        conversation: the conversation.
        persona: the persona; None: the default prompt.
        message: the message that is asked, to which memories must fit; it is the last of the prompt.
        request: the options of the call, with its tools.
    """
    system = system_prompt(world, chats, user, conversation, persona, message.content)
    history = chats.conversations.history(conversation.id, then=message)
    answer = request.sampling.max_tokens or Models.of(world).plan(agent, request).max_tokens
    window = Models.of(world).context_window(agent, request)
    most = chats.settings.context if window is None else min(chats.settings.context, window - answer)
    return fitted(ChatMessage("system", system), history, request.tools, chats.settings.window, most)


def system_prompt(
    world: World, chats: Chats, user: User, conversation: Conversation, persona: Persona | None, incoming: str
) -> str:
    """Return the system prompt: of the persona, then what is known, by how seldom it changes: the time is last.

    Endpoints keep the beginnings of prompts in a cache.
    """
    remembered = []
    if chats.memories is not None and chats.settings.memories:
        hits = chats.memories.recall(user.id, incoming, kind="semantic", limit=chats.settings.memories)
        remembered = [" ".join(hit.memory.content.split()) for hit in hits]
    sections = [
        ("user_context", [f"name: {' '.join(user.shown_name.split())}", f"level: {user.permission.name.lower()}"]),
        ("conversation_summary", conversation.summary),
        ("memories", remembered),
        ("time_context", time_context(world)),
    ]
    return prompt(chats.settings.prompt if persona is None else persona.prompt, sections)


def fitted(
    system: ChatMessage, history: Sequence[ChatMessage], tools: Sequence[ToolSpec], window: int, most: int
) -> list[ChatMessage]:
    """Return a prompt with as many recent turns as fit; at least the last turn, cut if it must be.

    Args:
        system: the system prompt.
        history: the messages, oldest first.
        tools: the tools that are offered, which take tokens too.
        window: the most tokens of the history.
        most: the most tokens of all.
    """
    room = min(window, most - tokens([system], tools))
    starts = [place for place, message in enumerate(history) if message.role == "user"] or [0]
    first = next((start for start in starts if tokens(history[start:]) <= room), starts[-1])
    shown = list(history[first:])
    excess = tokens(shown) - room
    if excess > 0:  # one message is longer than the window
        last = shown[0]
        kept = max(0, len(last.content) - 4 * excess - len(_CUT))
        while kept and tokens([attrs.evolve(last, content=last.content[:kept] + _CUT), *shown[1:]]) > room:
            kept = kept * 9 // 10
        shown[0] = attrs.evolve(last, content=last.content[:kept] + _CUT)
    return [system, *shown]


def tokens(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()) -> int:
    """Return about how many tokens messages and tools have."""
    return count_request(APPROXIMATE, ModelRequest(tuple(messages), tools=tuple(tools)))
