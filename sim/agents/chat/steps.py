"""The answer to a message, in the nine steps of seed 002: `run(IncomingMessage) → AgentResponse`."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from sim.agents.chat.budget import USER_BUDGET
from sim.agents.chat.context import build_context
from sim.agents.chat.records import AgentResponse, FileRecord, IncomingMessage
from sim.agents.chat.service import Chats
from sim.agents.chat.settings import Persona
from sim.agents.chat.summary import summarise
from sim.agents.conversation import Conversation, User
from sim.agents.conversation.records import MessageRole
from sim.agents.engine import FINISHED, CoreLoop, LoopLimits, LoopResult
from sim.errors import Cancelled, Interrupt, LimitError, RunError
from sim.llm.service import Models
from sim.llm.types import Answer, ChatMessage, ModelRequest, Sampling, ToolSpec
from sim.text import of_error
from sim.tools import Tool, Tools
from sim.world import Inhabitant, Refused, World

BUDGET_MESSAGE: Final = "Your token budget for this period is used up. It is renewed on {when}."
ERROR_MESSAGE: Final = "I encountered an internal error. Please try again."
NO_MODEL_MESSAGE: Final = "I cannot answer at the moment. Please try again later."
UNFINISHED_MESSAGE: Final = "I could not finish this."

FILES_HINT: Final = (
    "Use file_manager.read_document(file_id) to read text files, or code_executor.load_file(file_id) then run_python "
    "to process them."
)


async def run(world: World, agent: Inhabitant, incoming: IncomingMessage, use: str) -> AgentResponse:
    """Answer a message. This is the whole of it, in order.

    Args:
        world: the world.
        agent: the agent of the conversation.
        incoming: the message.
        use: the use case of the model calls.
    """
    chats = Chats.of(world)
    user = resolve_user(chats, incoming)
    allowed = check_budget(chats, user)
    named = resolve_persona(chats, incoming)
    persona = None if named is None else named[1]
    conversation = resolve_conversation(chats, user, incoming)
    content = register_attachments(chats, user, incoming)
    message = chats.conversations.append(conversation.id, "user", user.id, content, _about(incoming, named))
    chats.conversations.claim(conversation.id, agent.agent_id)
    try:
        if not allowed:
            response = over_budget(world, chats, user)
        else:
            tools = get_available_tools(world, agent, chats, user, conversation, persona)
            request = _request(use, persona, tools)
            context = build_context(world, chats, agent, user, conversation, persona, content, request)
            response = await loop(world, agent, chats, user, conversation, context, tools, request, message.id)
        response = save(chats, agent, conversation, response, message.id)
        if response.refusal is None:
            await summarise(world, agent, chats, user, conversation)
    except (Cancelled, Interrupt, RunError, MemoryError):
        raise  # these concern the agent, the process or the run, not the message
    except Exception as error:  # whatever fails, the person gets a polite answer, and the record the cause
        failed = AgentResponse(ERROR_MESSAGE, error=of_error(error), refusal="internal_error")
        response = save(chats, agent, conversation, failed, message.id)
    finally:
        chats.conversations.release(conversation.id)
    return response


# -- 1. to 5.


def resolve_user(chats: Chats, incoming: IncomingMessage) -> User:
    """1. Return the user of an account; a guest is made for one that is not known, so this never fails."""
    return chats.conversations.resolve_user(incoming.platform, incoming.platform_user_id)


def check_budget(chats: Chats, user: User) -> bool:
    """2. Return whether the user has tokens left. Without a limit there are always some."""
    return chats.budgets.check(user)


def resolve_persona(chats: Chats, incoming: IncomingMessage) -> tuple[str, Persona] | None:
    """3. Return the persona: of the server, else of the platform, else the default; None: there is none."""
    return chats.persona(incoming)


def resolve_conversation(chats: Chats, user: User, incoming: IncomingMessage) -> Conversation:
    """4. Return the conversation of the channel or thread; a thread is a conversation of its own."""
    return chats.conversations.resolve(
        user, incoming.platform, incoming.platform_channel_id, incoming.platform_thread_id
    )


def get_available_tools(
    world: World, agent: Inhabitant, chats: Chats, user: User, conversation: Conversation, persona: Persona | None
) -> list[Tool]:
    """5. Return the tools: those of the modules of the persona that the levels of all who are heard allow."""
    modules = chats.settings.guest_modules if persona is None else persona.modules
    registry = Tools.of(world)
    for name in chats.settings.tools:
        registry.find(name)  # tools of actions exist once they were asked for
    names = [name for name, tool in registry.known.items() if tool.module in modules]
    return registry.offered(agent, names, _behalf(chats, user, conversation))


def _behalf(chats: Chats, user: User, conversation: Conversation) -> tuple[str, ...]:
    """Return for whom the agent works: the user, and all whose texts the model sees. The least of them counts."""
    return tuple(dict.fromkeys((user.id, *chats.conversations.behalf(conversation.id))))


def _request(use: str, persona: Persona | None, tools: Sequence[Tool]) -> ModelRequest:
    specs = tuple(ToolSpec(tool.wire_name, tool.description, tool.parameters) for tool in tools)
    if persona is None:
        return ModelRequest((), tools=specs, use=use)
    return ModelRequest((), tools=specs, use=use, tier=persona.model, sampling=Sampling(max_tokens=persona.max_tokens))


# -- 6. attachments


def register_attachments(chats: Chats, user: User, incoming: IncomingMessage) -> str:
    """6. Keep the attachments as files, and return the text with a list of them, as a model sees it."""
    records: list[FileRecord] = []
    refused = ""
    for one in incoming.attachments:
        text = one.get("content")
        try:
            records.append(chats.add_file(
                user, str(one.get("filename", "file")), str(one.get("mime_type", "")), one.get("size_bytes"),
                text if isinstance(text, str) else None,
            ))  # fmt: skip
        except Refused as refusal:
            refused += f"\n[An attachment was not taken: {refusal}]"
    if not records:
        return incoming.content + refused
    lines = [f"- {one.filename} (file_id: {one.id}, {one.size_bytes} bytes, {one.mime_type})" for one in records]
    return "\n".join([f"{incoming.content}\n\n[Attached files:]", *lines, FILES_HINT]) + refused


def _about(incoming: IncomingMessage, persona: tuple[str, Persona] | None) -> Mapping[str, Any]:
    about = {"persona": None if persona is None else persona[0], "server": incoming.platform_server_id,
             "job": incoming.job}  # fmt: skip
    return {key: value for key, value in about.items() if value is not None}


# -- 8. the loop


async def loop(
    world: World, agent: Inhabitant, chats: Chats, user: User, conversation: Conversation,
    context: list[ChatMessage], tools: Sequence[Tool], request: ModelRequest, seen: int,
) -> AgentResponse:  # fmt: skip
    """8. Call the model, run the tools that it calls, and repeat, up to the most iterations."""
    settings, models, results = chats.settings, list[str](), list[str]()
    keep = chats.conversations.note(conversation.id, agent.agent_id)

    def note(message: ChatMessage) -> None:
        if message.tool_calls or message.role == "tool":  # the final text is kept by `save`, with what belongs to it
            keep(message)
        if message.role == "tool":
            results.append(message.content)

    engine = CoreLoop(
        world, agent, tools, limits=LoopLimits(iterations=settings.iterations, result_length=settings.result_length),
        request=request, behalf=_behalf(chats, user, conversation), note=note,
        complete=log_token_usage(world, agent, chats, user, conversation, models),
    )  # fmt: skip
    result = await engine.run(context)
    files = extract_files(chats, world, agent, seen, conversation)
    response = AgentResponse(
        result.text, files, iterations=result.iterations, tools=result.tools, tokens=result.tokens,
        cost_micro=result.cost_micro, models=tuple(dict.fromkeys(models)),
    )  # fmt: skip
    return response if result.ending in FINISHED else _without_end(world, chats, user, result, response)


def log_token_usage(
    world: World, agent: Inhabitant, chats: Chats, user: User, conversation: Conversation, models: list[str]
) -> Callable[[ModelRequest], Awaitable[Answer]]:
    """8b. Return what makes a call within the budget of a user, and logs its tokens.

    Args:
        world, agent, chats, user, conversation: see `loop`.
        models: gets the models that answer.
    """

    async def complete(request: ModelRequest) -> Answer:
        service = Models.of(world)
        plan = service.plan(agent, request)
        most = chats.budgets.hold(user, plan.input_tokens, plan.max_tokens)
        held, used = plan.input_tokens + most, 0
        try:
            given = attrs.evolve(request, sampling=attrs.evolve(request.sampling, max_tokens=most))
            answer: Answer = await service.complete(agent, given)
            usage = answer.completion.usage
            used = usage.input_tokens + usage.output_tokens
        finally:
            chats.budgets.settle(user, held, used)
        models.append(answer.completion.model)
        chats.counts["tokens"] += used
        chats.counts["fallbacks"] += bool(answer.fallbacks)
        world.event_bus.tell("chat.tokens", {
            "user": user.id, "conversation": conversation.id, "model": answer.completion.model,
            "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "cost_micro": answer.cost_micro,
        })  # fmt: skip
        return answer

    return complete


def _without_end(world: World, chats: Chats, user: User, result: LoopResult, response: AgentResponse) -> AgentResponse:
    """Return the answer of a loop that has not come to its end, with the cause."""
    if isinstance(result.cause, LimitError) and result.cause.kind == USER_BUDGET:
        over = over_budget(world, chats, user)
        return attrs.evolve(response, content=over.content, error=over.error, refusal=over.refusal)
    if result.ending == "model_error":
        return attrs.evolve(response, content=NO_MODEL_MESSAGE, error=result.error, refusal="no_model")
    content, error = result.text or UNFINISHED_MESSAGE, result.error or result.ending
    return attrs.evolve(response, content=content, error=error, refusal="not_finished")


def over_budget(world: World, chats: Chats, user: User) -> AgentResponse:
    """Return the answer to a user whose budget is used up."""
    reset, calendar = chats.budgets.account(user).reset_ns, world.calendar
    when = f"second {reset / 1e9:g}" if calendar is None else f"{calendar.at(reset):%Y-%m-%d %H:%M}"
    return AgentResponse(BUDGET_MESSAGE.format(when=when), error="the token budget is used up", refusal="budget")


# -- 9. files and messages


def extract_files(
    chats: Chats, world: World, agent: Inhabitant, seen: int, conversation: Conversation
) -> tuple[Mapping[str, Any], ...]:
    """9. Return the files in the results of tools: a `url` of a result, or in its list `files`. Each is named once."""
    found: dict[str, Mapping[str, Any]] = {}
    for message in chats.conversations.messages(conversation.id):
        if message.role == "tool_result" and message.id > seen:
            for one in files_of(message.content):
                found.setdefault(str(one["url"]), one)
    return tuple(found.values())


def files_of(result: str) -> list[Mapping[str, Any]]:
    """Return the files in the result of a tool, as the engine writes it; none if it was cut."""
    try:
        observation = json.loads(result).get("observation")
    except (ValueError, AttributeError):
        return []
    if not isinstance(observation, dict):
        return []
    listed = observation.get("files")
    parts = [observation, *(listed if isinstance(listed, list) else [])]
    return [
        {"filename": str(part.get("filename", "file")), "url": part["url"], "file_id": part.get("file_id")}
        for part in parts
        if isinstance(part, dict) and isinstance(part.get("url"), str)
    ]


def save(
    chats: Chats, agent: Inhabitant, conversation: Conversation, response: AgentResponse, seen: int
) -> AgentResponse:
    """9. Keep the answer as a message of the conversation, with its files, model and tokens."""
    role: MessageRole = "error" if response.refusal in ("internal_error", "no_model", "budget") else "assistant"
    about: dict[str, Any] = {"tokens": response.tokens}
    if response.models:
        about["model"] = response.models[-1]
    if response.files:
        about["files"] = [dict(one) for one in response.files]
    if response.refusal is not None:
        about["refusal"] = response.refusal
    if response.refusal == "not_finished":
        about["incomplete"] = True
    text = response.content or UNFINISHED_MESSAGE
    chats.conversations.append(conversation.id, role, agent.agent_id, text, about, seen=seen)
    return attrs.evolve(response, content=text)
