"""The agents that answer, one for each conversation, and what people do in chats."""

from types import MappingProxyType
from typing import Any

import attrs

from sim.actors import Agent
from sim.agents.conversation import CONVERSATIONS
from sim.agents.conversation.service import check_place
from sim.agents.family import Family, WorldPlan, define_family, is_kind
from sim.agents.tool_check import check_modules, check_tools
from sim.base.errors import ClosedError, UsageError
from sim.base.expressions import did_you_mean
from sim.base.permissions import Permission
from sim.kernel import to_duration
from sim.kernel.codec import Json, JsonObject, freeze
from sim.kinds.chat.events import ChatAnswered
from sim.kinds.chat.records import AgentResponse, IncomingMessage
from sim.kinds.chat.service import INCOMING, Chats
from sim.kinds.chat.settings import ChatAgentSettings
from sim.kinds.chat.steps import run
from sim.kinds.chat.tools import TOOLS, run_python
from sim.tools import Tools
from sim.world import Action, Inhabitant, Refused, World
from sim.world.action import action

_MOST_ATTACHMENTS = 10


class ChatAgent(Agent):
    """An agent that answers the messages of one conversation, in their order.

    Args:
        agent_id, world, group, permission: see `Agent`.
        settings: the template.
    """

    memory_kinds = MappingProxyType({"context": 6, "semantic": 6})

    def __init__(
        self,
        agent_id: str,
        world: World,
        *,
        group: str | None = None,
        permission: Permission = Permission.USER,
        settings: ChatAgentSettings | None = None,
    ) -> None:
        super().__init__(agent_id, world, group=group, permission=permission)
        self.settings = settings or ChatAgentSettings()

    def about(self) -> JsonObject:
        """See `Agent.about`: its persona where it answers."""
        chats = Chats.of(self.world)
        place = chats.place_of(self.agent_id)
        if place is None:
            return {"role": chats.settings.prompt}
        platform, channel, thread = place
        here = IncomingMessage(platform, "", chats.server_of(*place), channel, thread, "")
        persona = chats.persona(here)
        return {"role": chats.settings.prompt if persona is None else persona[1].prompt}

    async def decide_action(self) -> Action:
        """Answer the next message; else stop if there was none for long, or sleep until there is one."""
        while (message := self.mailbox.take()) is not None:
            if message.topic == INCOMING:
                return Action("answer_chat", {"incoming": message.data})
        chats = Chats.of(self.world)
        place = chats.place_of(self.agent_id)
        if place is None:
            return Action("stop")
        until = chats.active[place] + chats.settings.idle
        if self.world.kernel.now >= until:
            chats.let_go(place)
            return Action("stop")
        return Action("sleep", {"condition": {"any": [{"message": True}, {"until": to_duration(until)}]}})


async def _answer(world: World, agent: Inhabitant, incoming: Any) -> AgentResponse:
    if not isinstance(agent, ChatAgent):
        raise Refused(f"{agent.agent_id} is no chat agent")
    return await run(world, agent, IncomingMessage.from_json(incoming), agent.settings.use)


@action("answer_chat", permission=Permission.GUEST, wait=_answer, ends=True, everywhere=False, draws=False)
def answer_chat(world: World, agent: Inhabitant, response: AgentResponse, incoming: Any) -> dict[str, Json]:
    """Answer a message in a chat: the nine steps from the message to the answer.

    Args:
        incoming: the message.
    """
    chats, message = Chats.of(world), IncomingMessage.from_json(incoming)
    now, counts = world.kernel.now, chats.counts
    if message.place in chats.active:
        chats.active[message.place] = now
    counts["answered"] += 1
    counts["answer_ns"] += response.answered_ns - message.sent_ns
    counts["tools"] += response.tools
    counts["shortened"] += bool(response.shortened)
    if response.refusal is not None:
        counts[f"refused_{response.refusal}"] += 1
    user = chats.conversations.resolve_user(message.platform, message.platform_user_id)
    world.event_bus.report(
        ChatAnswered(
            account=message.platform_user_id,
            channel=message.platform_channel_id,
            content=response.content,
            cost_micro=response.cost_micro,
            ending=response.ending,
            error=response.error,
            files=list(response.files),
            incomplete=response.incomplete,
            iterations=response.iterations,
            job=message.job,
            level=user.permission.name.lower(),
            models=list(response.models),
            platform=message.platform,
            refusal=response.refusal,
            seconds=(response.answered_ns - message.sent_ns) / 1e9,
            shortened=response.shortened,
            stop=response.stop,
            text_tokens=response.text_tokens,
            thread=message.platform_thread_id,
            tokens=response.tokens,
            tools=response.tools,
            user=user.id,
        )
    )
    return {
        "refusal": response.refusal,
        "error": response.error,
        "iterations": response.iterations,
        "tools": response.tools,
        "tokens": response.tokens,
        "cost_micro": response.cost_micro,
    }


async def _wait_in_line(world: World, agent: Inhabitant, **arguments: Any) -> IncomingMessage:
    """Check a message, and wait until the line of its conversation has room."""
    incoming = attrs.evolve(_incoming(agent, **arguments), sent_ns=world.kernel.now)
    while True:
        worker = Chats.of(world).worker_of(incoming)
        if worker is None:
            break
        try:
            await worker.wait_for_room()
            break
        except ClosedError:  # it was let go meanwhile: another one answers
            Chats.of(world).let_go(incoming.place)
    return incoming


@action("send_chat_message", permission=Permission.GUEST, wait=_wait_in_line, everywhere=False, draws=False)
def send_chat_message(
    world: World,
    agent: Inhabitant,
    incoming: IncomingMessage,
    text: str,
    channel: str,
    platform: str = "chat",
    server: str | None = None,
    thread: str | None = None,
    attachments: Any = None,
) -> dict[str, Json]:
    """Write a message in a chat as a person; the agent of the conversation answers. In a full line, this waits.

    Args:
        text: the text.
        channel: the channel.
        platform: the platform, such as discord.
        server: the server of the platform, which chooses the persona.
        thread: the thread in the channel: a conversation of its own.
        attachments: files, as mappings with `filename`, `mime_type`, `size_bytes`, `url`, `minio_key` and, for a text,
            `content`.
    """
    return {"agent": Chats.of(world).pass_on(incoming)}


def _incoming(
    agent: Inhabitant,
    text: str,
    channel: str,
    platform: str = "chat",
    server: str | None = None,
    thread: str | None = None,
    attachments: Any = None,
) -> IncomingMessage:
    """Return a message of an agent, after all checks."""
    check_place(platform, channel, thread)
    files = [] if attachments is None else attachments
    if not text.strip() and not files:
        raise Refused("the message needs a text")
    if not isinstance(files, list | tuple) or len(files) > _MOST_ATTACHMENTS:
        raise Refused(f"attachments is a list of at most {_MOST_ATTACHMENTS} files")
    for one in files:
        _check_attachment(one)
    made = IncomingMessage(
        platform=platform,
        platform_user_id=agent.agent_id,
        platform_server_id=server,
        platform_channel_id=channel,
        platform_thread_id=thread,
        content=text,
        attachments=tuple(files),
    )
    freeze(made.to_json())
    return made


_ATTACHMENT = {
    "filename": str, "mime_type": str, "size_bytes": int, "url": str, "minio_key": str, "content": str,
}  # fmt: skip


def _check_attachment(one: Any) -> None:
    if not isinstance(one, dict) or not isinstance(one.get("filename"), str):
        raise Refused("an attachment is a mapping with a filename")
    for key, value in one.items():
        if key not in _ATTACHMENT:
            raise Refused(f"an attachment has no {key!r:.40}{_near(key)}")
        negative = isinstance(value, int) and value < 0
        if not isinstance(value, _ATTACHMENT[key]) or isinstance(value, bool) or negative:
            raise Refused(f"the {key} of an attachment cannot be {value!r:.40}")


def _near(key: object) -> str:
    hint = did_you_mean(str(key), _ATTACHMENT)
    return f"; {hint}" if hint else ""


@action("share_location", permission=Permission.GUEST, everywhere=False, draws=False)
def share_location(world: World, agent: Inhabitant, place: str, platform: str = "chat") -> None:
    """Tell chat agents where one is; reminders for this place come.

    Args:
        place: the place.
        platform: the platform of the account.
    """
    chats = Chats.of(world)
    if not place.strip() or len(place) > 200:
        raise Refused("a place has 1 to 200 characters")
    freeze(place)
    chats.locate(chats.conversations.resolve_user(platform, agent.agent_id), place.strip())


ACTIONS = (send_chat_message, share_location)
"""The actions that every world with chats has."""


def _prepare(plan: WorldPlan) -> None:
    """Note the template, and let each tool outside be tried once more after a failure, if that does no harm."""
    chats, registry = Chats.of(plan.world), Tools.on(plan.world)
    chats.template = next(entry.name for entry in plan.scenario.agents if is_kind(entry, "chat_agent"))
    for name, tool in registry.by_name.items():
        if tool.runs != "core" and tool.safety != "unsafe" and not tool.retries:
            registry.by_name[name] = attrs.evolve(tool, retries=1)


def _check(scenario: Any, until_ns: int | None) -> None:
    """Refuse chats that cannot work, before the run."""
    entries = [entry for entry in scenario.agents if is_kind(entry, "chat_agent")]
    settings = scenario.sections.get("chat")
    if settings is None:
        if entries:
            raise UsageError(f"agents.{entries[0].name} answers in chats, but there are none", hint="add `chat: {}`")
        return
    if len(entries) != 1 or not entries[0].template:
        hint = "have one entry {name: agent, kind: chat_agent, template: true, permission: owner}"
        raise UsageError("chats need one template of the kind chat_agent", hint=hint)
    where = f"agents.{entries[0].name}"
    if CONVERSATIONS.key not in scenario.sections:
        raise UsageError(f"{where} answers in conversations", hint="add `conversations: {}`")
    if scenario.models is None:
        raise UsageError(f"{where} asks language models, but the scenario has none", hint="add `models: {}`")
    check_tools(scenario, "chat.tools", settings.tools)
    check_modules(scenario, "chat.guest_modules", settings.guest_modules)
    for name, persona in settings.personas.items():
        check_modules(scenario, f"chat.personas.{name}.modules", persona.modules)
    tiers = scenario.models.tiers
    for name, persona in settings.personas.items():
        if persona.model is not None and persona.model not in tiers:
            hint = did_you_mean(persona.model, tiers) or "add it to `models.tiers`"
            raise UsageError(f"chat.personas.{name}.model: there is no tier {persona.model!r}", hint=hint)


define_family(
    Family(
        "chat_agent",
        ChatAgent,
        settings=ChatAgentSettings,
        prepare=_prepare,
        check=_check,
        actions=(answer_chat, run_python),
        tools=TOOLS,
        draws=(),
    )
)
