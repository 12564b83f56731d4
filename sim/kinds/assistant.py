"""Assistants: agents that answer people in conversations, with tools and memories.

An assistant picks the conversation that has waited longest, and answers it with one loop of the engine. All that it
knows is held by services, so a new assistant object acts as the one that it replaces.
"""

from typing import Any

import attrs

from sim.actors import Agent
from sim.agents.conversation import CONVERSATIONS, Conversation, Conversations, User
from sim.agents.conversation.records import Audience
from sim.agents.engine import FINISHED, CoreLoop, LoopLimits, LoopResult, prompt, time_context
from sim.agents.family import Family, define_family, is_kind
from sim.agents.tool_check import check_tools
from sim.base.errors import UsageError
from sim.base.permissions import Permission
from sim.kernel import to_duration
from sim.kernel.codec import JsonObject
from sim.kernel.duration import NS
from sim.llm.service import Skipped
from sim.llm.tokens import APPROXIMATE
from sim.llm.types import ChatMessage, ModelRequest
from sim.memory.service import Memories
from sim.tools import Tools
from sim.world import Action, Inhabitant, Refused, World
from sim.world.action import action
from sim.world.section import PositiveDuration


@attrs.frozen
class AssistantSettings:
    """How assistants answer.

    Args:
        instructions: the system prompt.
        tools: names of the tools that the model can call, such as `orders.lookup` or `world.remember`.
        use: the use case of the model calls, as in `models.uses`.
        limits: the limits of one answer.
        retries: how often an answer is tried again after no model answered.
        retry_delay: the delay of the first retry; it doubles with each further one.
    """

    instructions: str = ""
    tools: tuple[str, ...] = ()
    use: str = "agent"
    limits: LoopLimits = attrs.field(factory=LoopLimits)
    retries: int = 3
    retry_delay: PositiveDuration = 10 * NS


class Assistant(Agent):
    """An agent that answers people in conversations.

    Args:
        agent_id, world, group, permission: see `Agent`.
        settings: how it answers.
    """

    def __init__(
        self,
        agent_id: str,
        world: World,
        *,
        group: str | None = None,
        permission: Permission = Permission.USER,
        settings: AssistantSettings | None = None,
    ) -> None:
        super().__init__(agent_id, world, group=group, permission=permission)
        self.settings = settings or AssistantSettings()

    def about(self) -> JsonObject:
        """See `Agent.about`: its instructions."""
        return {"role": self.settings.instructions}

    async def decide_action(self) -> Action:
        """Keep what others have said as a note; else pick the conversation that has waited longest; else sleep."""
        message = self.mailbox.take()
        if message is not None and Memories.name in self.world.services:
            return Action("remember", {"content": f"{message.sender} said: {message.data}"})
        conversations = Conversations.of(self.world)
        waiting = conversations.waiting()
        if waiting:
            return Action("answer", {"conversation": waiting[0].id})
        wake: list[JsonObject] = [
            {"event": "conversation.message", "where": "data.role == 'user'"},
            {"message": True},
        ]
        retry = conversations.next_retry_ns()
        if retry is not None:
            wake.append({"until": to_duration(retry)})
        return Action("sleep", {"condition": {"any": wake}})


@attrs.frozen
class _Answered:
    """The result of an answer, and the number of the latest message that it answers."""

    result: LoopResult
    seen: int


async def _answer(world: World, agent: Inhabitant, conversation: str) -> _Answered:
    """Claim a conversation and run the engine on it."""
    conversations = Conversations.of(world)
    if not isinstance(agent, Assistant):
        raise Refused(f"{agent.agent_id} is not an assistant")
    record = conversations.find(conversation)
    if conversation in conversations.claims:
        raise Refused(f"{conversations.claims[conversation].agent} works on {conversation} already", skip=True)
    claim = conversations.claim(conversation, agent.agent_id)
    try:
        settings, behalf = agent.settings, conversations.behalf(conversation)
        keep = conversations.note(conversation, agent.agent_id, between="model")

        def note(message: ChatMessage) -> None:
            if message.tool_calls or message.role == "tool":  # the final text is kept by `answer`
                keep(message)

        loop = CoreLoop(
            world,
            agent,
            Tools.of(world).offered(agent, settings.tools, behalf),
            limits=settings.limits,
            request=ModelRequest((), use=settings.use),
            behalf=behalf,
            note=note,
        )
        system = ChatMessage("system", _prompt(world, agent, record))
        result = await loop.run([system, *conversations.history(conversation)])
        if isinstance(result.cause, Skipped):
            raise result.cause  # the conversation stays in the queue
        return _Answered(result, claim.seen)
    finally:
        conversations.release(conversation)


@action("answer", wait=_answer, ends=True, everywhere=False, draws=False)
def answer(world: World, agent: Any, answered: _Answered, conversation: str) -> JsonObject:
    """Answer in a conversation that waits, with model calls and tool calls.

    Args:
        conversation: the id of the conversation.
    """
    conversations, settings, result = Conversations.of(world), agent.settings, answered.result
    if result.cause is not None or result.ending == "invalid_answer":
        failures = conversations.failures(conversation)
        again = result.retryable and failures < settings.retries
        retry = {"retry_at_ns": world.kernel.now + settings.retry_delay * 2**failures} if again else {}
        text = f"No answer: {result.error}" if again else f"Failed permanently: {result.error}"
        about = {"retryable": again, **retry}
        conversations.append(conversation, "error", agent.agent_id, text, about, seen=answered.seen)
    elif result.ending not in FINISHED:
        text = result.text or f"I could not finish this: the limit {result.ending} was reached."
        about = {"incomplete": True, "ending": result.ending}
        audience: Audience = "person" if result.text else "all"  # the model knows the text: it came with its last calls
        conversations.append(
            conversation, "assistant", agent.agent_id, text, about, audience=audience, seen=answered.seen
        )
    elif result.text:
        cut_off = result.completion is not None and result.completion.stop == "max_tokens"
        about = {"incomplete": True, "ending": "max_tokens"} if cut_off else {}
        conversations.append(conversation, "assistant", agent.agent_id, result.text, about, seen=answered.seen)
    return {
        "ending": result.ending,
        "iterations": result.iterations,
        "tools": result.tools,
        "tokens": result.tokens,
        "cost_micro": result.cost_micro,
    }


def _prompt(world: World, agent: Assistant, conversation: Conversation) -> str:
    """Return the system prompt: the instructions, and what is known, as sections."""
    memories = world.services.get(Memories.name)
    loaded = ""
    if isinstance(memories, Memories):
        loaded = memories.load(agent.agent_id, APPROXIMATE.count).text
    user = Conversations.of(world).user(conversation.user)
    sections = [
        ("persona", agent.persona),
        ("user_context", _about(user, conversation)),
        ("notes_context", loaded),
        ("conversation_summary", conversation.summary),
        ("time_context", time_context(world)),  # last: what is before it can stay in the cache of an endpoint
    ]
    return prompt(agent.settings.instructions, sections)


def _about(user: User, conversation: Conversation) -> list[str]:
    """Return what is known of a user, one line each: a name of several lines must not look like a level."""
    name = " ".join(user.shown_name.split())
    return [f"name: {name}", f"level: {user.permission.name.lower()}", f"channel: {conversation.channel}"]


def _check(scenario: Any, until_ns: int | None) -> None:
    """Refuse assistants without models or conversations, before the run."""
    entry = next((entry for entry in scenario.agents if is_kind(entry, "assistant")), None)
    if entry is None:
        return
    if scenario.models is None:
        raise UsageError(
            f"agents.{entry.name} asks language models, but the scenario has none", hint="add `models: {}`"
        )
    for one in (one for one in scenario.agents if is_kind(one, "assistant") and one.settings is not None):
        check_tools(scenario, f"agents.{one.name}.settings.tools", one.settings.tools)
    if CONVERSATIONS.key not in scenario.sections:
        raise UsageError(f"agents.{entry.name} answers in conversations", hint="add `conversations: {}`")


define_family(Family("assistant", Assistant, settings=AssistantSettings, check=_check, actions=(answer,), draws=()))
