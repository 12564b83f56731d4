"""The answer to a message, in the nine steps of seed 002: `run(IncomingMessage) → AgentResponse`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from sim.agents.chat import context
from sim.agents.chat.budget import USER_BUDGET
from sim.agents.chat.records import AgentResponse, FileRecord, IncomingMessage
from sim.agents.chat.service import Chats
from sim.agents.chat.settings import Persona
from sim.agents.chat.summary import summarise
from sim.agents.conversation import Conversation, User
from sim.agents.engine import FINISHED, CoreLoop, LoopLimits, LoopResult
from sim.errors import Cancelled, Interrupt, LimitError, RunError
from sim.llm.service import Models
from sim.llm.types import Answer, ChatMessage, ModelRequest, Sampling, ToolSpec
from sim.text import of_error
from sim.tools import Tool, Tools
from sim.world import ActionResult, Inhabitant, Refused, World

BUDGET_MESSAGE: Final = "Your token budget for this period is used up. It is renewed on {when}."
ERROR_MESSAGE: Final = "I encountered an internal error. Please try again."
NO_MODEL_MESSAGE: Final = "I cannot answer at the moment. Please try again later."
UNFINISHED_MESSAGE: Final = "I could not finish this."

FILES_HINT: Final = (
    "Use file_manager.read_document(file_id) to read text files, or code_executor.load_file(file_id) then run_python "
    "to process them."
)


@attrs.frozen
class Turn:
    """What is known when a message is answered.

    Attributes:
        world: the world.
        agent: the agent of the conversation.
        user: who wrote.
        persona: who answers; None: the default prompt.
        conversation: the conversation.
        content: the text, with the list of attachments.
        message: the number of the message in the conversation.
        use: the use case of the model calls.
    """

    world: World
    agent: Inhabitant
    user: User
    persona: Persona | None
    conversation: Conversation
    content: str
    message: int
    use: str

    @property
    def chats(self) -> Chats:
        """The service."""
        return Chats.of(self.world)

    @property
    def behalf(self) -> tuple[str, ...]:
        """For whom the agent works: the user, and all whose texts the model sees. The least of them counts."""
        heard = self.chats.conversations.behalf(self.conversation.id)
        return tuple(dict.fromkeys((self.user.id, *heard)))


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
    persona = resolve_persona(chats, incoming)
    conversation = resolve_conversation(chats, user, incoming)
    content = register_attachments(chats, user, incoming)
    message = chats.conversations.append(conversation.id, "user", user.id, content, _about(incoming, persona))
    turn = Turn(world, agent, user, persona and persona[1], conversation, content, message.id, use)
    chats.conversations.claim(conversation.id, agent.agent_id)
    try:
        response = save(turn, await _answer(turn) if allowed else over_budget(turn))
        if response.refusal is None:
            await summarise(world, agent, chats, user, conversation)
    finally:
        chats.conversations.release(conversation.id)
    return response


async def _answer(turn: Turn) -> AgentResponse:
    """Do the steps from the tools to the answer. Whatever fails, the answer is polite, and the record has the cause."""
    try:
        tools = get_available_tools(turn)
        request = _request(turn, tools)
        return await loop(turn, build_context(turn, request), tools, request)
    except (Cancelled, Interrupt, RunError, MemoryError):
        raise  # these concern the agent, the process or the run, not the message
    except Exception as error:  # of a tool, a model or this code
        return AgentResponse(ERROR_MESSAGE, error=of_error(error), refusal="internal_error")


# -- 1. to 5.


def resolve_user(chats: Chats, incoming: IncomingMessage) -> User:
    """1. Return the user of an account; a guest is made for one that is not known, so this never fails."""
    return chats.conversations.resolve_user(incoming.platform, incoming.platform_user_id)


def check_budget(chats: Chats, user: User) -> bool:
    """2. Return whether the user has tokens left. Without a limit there are always some."""
    return chats.budgets.check(user)


def resolve_persona(chats: Chats, incoming: IncomingMessage) -> tuple[str, Persona] | None:
    """3. Return the persona and its name: of the server, else of the platform, else the default."""
    return chats.persona(incoming)


def resolve_conversation(chats: Chats, user: User, incoming: IncomingMessage) -> Conversation:
    """4. Return the conversation of the channel or thread; a thread is a conversation of its own."""
    return chats.conversations.resolve(
        user, incoming.platform, incoming.platform_channel_id, incoming.platform_thread_id
    )


def get_available_tools(turn: Turn) -> list[Tool]:
    """5. Return the tools: those of the modules of the persona that the levels of all who are heard allow."""
    settings, registry = turn.chats.settings, Tools.of(turn.world)
    modules = settings.guest_modules if turn.persona is None else turn.persona.modules
    for name in settings.tools:
        registry.find(name)  # tools of actions exist once they were asked for
    names = [name for name, tool in registry.known.items() if tool.module in modules]
    return registry.offered(turn.agent, names, turn.behalf)


def _request(turn: Turn, tools: Sequence[Tool]) -> ModelRequest:
    specs = tuple(ToolSpec(tool.wire_name, tool.description, tool.parameters) for tool in tools)
    if turn.persona is None:
        return ModelRequest((), tools=specs, use=turn.use)
    sampling = Sampling(max_tokens=turn.persona.max_tokens)
    return ModelRequest((), tools=specs, use=turn.use, tier=turn.persona.model, sampling=sampling)


# -- 6. and 7.


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


def build_context(turn: Turn, request: ModelRequest) -> list[ChatMessage]:
    """7. Return the prompt: of the persona, with memories, the summary and recent messages."""
    return context.build_context(
        turn.world, turn.chats, turn.agent, turn.user, turn.conversation, turn.persona, turn.content, request
    )


# -- 8. the loop


async def loop(
    turn: Turn, messages: Sequence[ChatMessage], tools: Sequence[Tool], request: ModelRequest
) -> AgentResponse:
    """8. Call the model, run the tools that it calls, and repeat, up to the most iterations."""
    settings, files, models = turn.chats.settings, dict[str, Mapping[str, Any]](), list[str]()
    keep = turn.chats.conversations.note(turn.conversation.id, turn.agent.agent_id)

    def note(message: ChatMessage) -> None:
        if message.tool_calls or message.role == "tool":  # the final text is kept by `save`, with what belongs to it
            keep(message)

    def on_result(tool: Tool, result: ActionResult) -> None:
        for one in extract_files(result.data if result.success else None):
            files.setdefault(str(one["url"]), one)

    engine = CoreLoop(
        turn.world, turn.agent, tools, request=request, behalf=turn.behalf, note=note, on_result=on_result,
        limits=LoopLimits(iterations=settings.iterations, result_length=settings.result_length),
        complete=log_token_usage(turn, models),
    )  # fmt: skip
    result = await engine.run(messages)
    response = AgentResponse(
        result.text, tuple(files.values()), iterations=result.iterations, tools=result.tools, tokens=result.tokens,
        cost_micro=result.cost_micro, models=tuple(dict.fromkeys(models)),
    )  # fmt: skip
    return response if result.ending in FINISHED else _without_end(turn, result, response)


def log_token_usage(turn: Turn, models: list[str]) -> Callable[[ModelRequest], Awaitable[Answer]]:
    """8b. Return what makes a call within the budget of the user, and logs its tokens.

    Args:
        turn: what is answered.
        models: gets the models that answer.
    """
    chats, user = turn.chats, turn.user

    async def complete(request: ModelRequest) -> Answer:
        service = Models.of(turn.world)
        plan = service.plan(turn.agent, request)
        most = chats.budgets.hold(user, plan.input_tokens, plan.max_tokens)
        held, used = plan.input_tokens + most, 0
        try:
            given = attrs.evolve(request, sampling=attrs.evolve(request.sampling, max_tokens=most))
            answer: Answer = await service.complete(turn.agent, given)
            usage = answer.completion.usage
            used = usage.input_tokens + usage.output_tokens
        finally:
            chats.budgets.settle(user, held, used)
        models.append(answer.completion.model)
        chats.counts["tokens"] += used
        chats.counts["fallbacks"] += bool(answer.fallbacks)
        turn.world.event_bus.tell("chat.tokens", {
            "user": user.id, "conversation": turn.conversation.id, "model": answer.completion.model,
            "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "cost_micro": answer.cost_micro,
        })  # fmt: skip
        return answer

    return complete


def _without_end(turn: Turn, result: LoopResult, response: AgentResponse) -> AgentResponse:
    """Return the answer of a loop that has not come to its end, with the cause."""
    if isinstance(result.cause, LimitError) and result.cause.kind == USER_BUDGET:
        over = over_budget(turn)
        return attrs.evolve(response, content=over.content, error=over.error, refusal=over.refusal)
    if result.ending == "model_error":
        return attrs.evolve(response, content=NO_MODEL_MESSAGE, error=result.error, refusal="no_model")
    content, error = result.text or UNFINISHED_MESSAGE, result.error or result.ending
    return attrs.evolve(response, content=content, error=error, refusal="not_finished")


def over_budget(turn: Turn) -> AgentResponse:
    """Return the answer to a user whose budget is used up."""
    reset, calendar = turn.chats.budgets.account(turn.user).reset_ns, turn.world.calendar
    when = f"second {reset / 1e9:g}" if calendar is None else f"{calendar.at(reset):%Y-%m-%d %H:%M}"
    return AgentResponse(BUDGET_MESSAGE.format(when=when), error="the token budget is used up", refusal="budget")


# -- 9. files and messages


def extract_files(result: Any) -> list[Mapping[str, Any]]:
    """9. Return the files in the whole result of a tool: a `url` at its top, and those in its list `files`."""
    if not isinstance(result, Mapping):
        return []
    listed = result.get("files")
    parts = [result, *(listed if isinstance(listed, list | tuple) else [])]
    return [
        {"filename": str(part.get("filename", "file")), "url": part["url"], "file_id": part.get("file_id")}
        for part in parts
        if isinstance(part, Mapping) and isinstance(part.get("url"), str)
    ]


def save(turn: Turn, response: AgentResponse) -> AgentResponse:
    """9. Keep the answer as a message of the conversation, with its files, model and tokens.

    A refusal is an answer too: the next model call must not take the question for an open one.
    """
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
    turn.chats.conversations.append(
        turn.conversation.id, "assistant", turn.agent.agent_id, text, about, seen=turn.message
    )
    return attrs.evolve(response, content=text, answered_ns=turn.world.kernel.now)
