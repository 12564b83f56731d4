"""Summaries of long conversations, and what is remembered of them about a user."""

from typing import Any, Final

from sim.agents.conversation import Conversation, User
from sim.agents.engine.core_loop import cut
from sim.base.errors import LimitError, UsageError
from sim.kinds.chat.service import Chats
from sim.llm.service import Models
from sim.llm.types import ChatMessage, ModelError, ModelRequest
from sim.world import Inhabitant, World

_SUMMARY: Final = "Summarize this conversation in a few sentences. Keep names, numbers and decisions."
_EXTRACT: Final = (
    "What does this conversation say about the person that will matter later? Write one fact in a line, at most five "
    "lines, or: nothing."
)
_MOST_FACTS: Final = 5
_LONGEST: Final = 20_000  # characters that the model gets
_NOTHING: Final = ("", "nothing", "none")


async def summarise(world: World, agent: Inhabitant, chats: Chats, user: User, conversation: Conversation) -> None:
    """Have a summary stand for what is older than the window, and keep facts about the user as semantic memories.

    If no model answers, the conversation stays as it is.

    Args:
        world: the world.
        agent: the agent of the conversation.
        chats: the service.
        user: who asked last, to whom the memories belong.
        conversation: the conversation.
    """
    if not chats.settings.summarise:
        return
    old: list[str] = []

    async def write(text: str) -> str:
        old.append(text)
        return await _ask(world, agent, "summarize", _SUMMARY, text)

    if await chats.conversations.summarise(conversation.id, write):
        chats.counts["summaries"] += 1
        if chats.conversations.behalf(conversation.id) == (
            user.id,
        ):  # what others say of a person is not kept about the person
            await _remember(world, agent, chats, user, old[0])


async def _remember(world: World, agent: Inhabitant, chats: Chats, user: User, text: str) -> None:
    if chats.memories is None:
        return
    try:
        lines = (await _ask(world, agent, "extract", _EXTRACT, text)).splitlines()
    except (ModelError, LimitError, UsageError):
        return
    facts = [line.strip(" -*\t") for line in lines]
    for fact in [one for one in facts if one.lower().rstrip(".") not in _NOTHING][:_MOST_FACTS]:
        kept = cut(fact, chats.memories.settings.longest - 60)
        try:
            chats.memories.add(user.id, kept, kind="semantic", source="model", merge=True)
        except LimitError:  # too many memories
            return
        chats.counts["facts"] += 1


async def _ask(world: World, agent: Inhabitant, use: str, system: str, text: str) -> str:
    """Return the text that a model answers."""
    question: Any = (ChatMessage("system", system), ChatMessage("user", cut(text, _LONGEST)))
    answer = await Models.of(world).complete(agent, ModelRequest(question, use=use))
    return answer.completion.text
