"""The answer to a message, in nine steps: `run(IncomingMessage) → AgentResponse`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from sim.agents.conversation import Conversation, ConversationMessage, User
from sim.agents.engine import FINISHED, CoreLoop, LoopResult, section, spec_of
from sim.agents.engine.limits import least_answer
from sim.base.errors import Cancelled, Interrupt, LimitError, RunError
from sim.base.text import of_error
from sim.kernel.codec import Json, JsonObject
from sim.kinds.chat import context
from sim.kinds.chat.events import TokensUsed
from sim.kinds.chat.records import WITHHELD, AgentResponse, FileRecord, IncomingMessage, Refusal
from sim.kinds.chat.service import SCHEDULER, Chats
from sim.kinds.chat.settings import Persona
from sim.kinds.chat.summary import summarise
from sim.llm.service import CallPlan, Models, Skipped
from sim.llm.types import Answer, ChatMessage, ModelRequest, Sampling
from sim.tools import Tool, Tools
from sim.tools.registry import WORLD
from sim.world import ActionResult, Inhabitant, Refused, World

USED_UP: Final = "Your token budget for this period is used up."
TOO_SMALL: Final = (
    "Your token budget for this period has {left:,} tokens left, and this answer needs at least {need:,}."
)
SET_ASIDE: Final = (
    "Your other messages are still being answered, and {held:,} tokens are set aside for them. Of the rest of your"
    " token budget, {left:,} tokens are left, and this answer needs at least {need:,}. Please ask again when the others"
    " are answered."
)
NEVER_ENOUGH: Final = "This answer needs at least {need:,} tokens, more than your whole token budget of {limit:,}."
NO_BUDGET: Final = "Your token budget is 0, so I cannot answer."
RENEWED: Final = "It is renewed on {when}."
ERROR_MESSAGE: Final = "I encountered an internal error. Please try again."
NO_MODEL_MESSAGE: Final = "I cannot answer at the moment. Please try again later."
UNFINISHED_MESSAGE: Final = "I could not finish this: the limit {limit} was reached."

FILES_HINT: Final = (
    "Use file_manager.read_document(file_id) to read text files, or code_executor.load_file(file_id) then run_python "
    "to process them."
)


@attrs.define
class Turn:
    """What is known when a message is answered.

    Attributes:
        world: the world.
        agent: the agent of the conversation.
        user: who wrote.
        persona: who answers, with the name; None: the default prompt.
        conversation: the conversation.
        incoming: the message that came.
        use: the use case of the model calls.
        message: the number of the message in the conversation; 0 as long as it is not kept.
        shortened: how many earlier messages the shortest prompt left out, to stay within the budget.
        so_far: the calls that were answered, the tools that were run, and what they took, for the answer.
    """

    world: World
    agent: Inhabitant
    user: User
    persona: tuple[str, Persona] | None
    conversation: Conversation
    incoming: IncomingMessage
    use: str
    message: int = 0
    shortened: int = 0
    so_far: AgentResponse = attrs.field(factory=lambda: AgentResponse(""))

    @property
    def chats(self) -> Chats:
        """The service."""
        return Chats.of(self.world)

    def behalf(self, message: ConversationMessage) -> tuple[str, ...]:
        """Return for whom the agent works: the user, and all whose texts the model sees. The least of them counts.

        Args:
            message: the message that is answered.
        """
        if self.chats.settings.rights == "own":
            return (self.user.id,)
        heard = self.chats.conversations.behalf(self.conversation.id, then=message)
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
    persona = resolve_persona(chats, incoming)
    conversation = resolve_conversation(chats, user, incoming)
    turn = Turn(
        world=world, agent=agent, user=user, persona=persona, conversation=conversation, incoming=incoming, use=use
    )
    try:
        response = save(turn, await _answer(turn))
        if response.refusal not in WITHHELD:
            await summarise(world, agent, chats, user, conversation)
    finally:
        chats.conversations.release(conversation.id)
    return response


async def _answer(turn: Turn) -> AgentResponse:
    """Do the steps from the budget to the answer. Whatever fails, the answer is polite; the record has the cause."""
    try:
        if not check_budget(turn):
            return over_budget(turn)
        content, files = draft_attachments(turn)
        message = _draft(turn, content)
        behalf = turn.behalf(message)
        tools = get_available_tools(turn, behalf)
        request = _request(turn, tools)
        messages = build_context(turn, message, request)
        short = _shortage(turn, request, messages)
        if short is not None:
            return over_budget(turn, short)
        take_in(turn, message, files)
        return await loop(turn, messages, tools, request, behalf)
    except (Cancelled, Interrupt, RunError, MemoryError):
        raise  # these concern the agent, the process or the run, not the message
    except Exception as error:  # of a tool, a model or this code
        return attrs.evolve(
            turn.so_far,
            content=ERROR_MESSAGE,
            error=of_error(error),
            refusal="internal_error",
            shortened=turn.shortened,
        )


# -- 1. to 5.


def resolve_user(chats: Chats, incoming: IncomingMessage) -> User:
    """1. Return the user of an account; a guest is made for one that is not known, so this never fails."""
    return chats.conversations.resolve_user(incoming.platform, incoming.platform_user_id)


def check_budget(turn: Turn) -> bool:
    """2. Return whether the user has tokens left. Without a limit there are always some."""
    return turn.chats.budgets.check(turn.user)


def resolve_persona(chats: Chats, incoming: IncomingMessage) -> tuple[str, Persona] | None:
    """3. Return the persona and its name: of the server, else of the platform, else the default."""
    return chats.persona(incoming)


def resolve_conversation(chats: Chats, user: User, incoming: IncomingMessage) -> Conversation:
    """4. Return the conversation of the channel or thread; a thread is a conversation of its own."""
    return chats.conversations.resolve(
        user, incoming.platform, incoming.platform_channel_id, incoming.platform_thread_id
    )


def get_available_tools(turn: Turn, behalf: tuple[str, ...]) -> list[Tool]:
    """5. Return the tools: those of the modules of the persona that the levels of all in `behalf` allow."""
    settings, registry = turn.chats.settings, Tools.of(turn.world)
    modules = settings.guest_modules if turn.persona is None else turn.persona[1].modules
    for name in settings.tools:
        registry.find(name)  # tools of actions exist once they were asked for
    # Of the actions of the world, those that `chat.tools` names: others may be known because another agent used them.
    names = [
        name
        for name, tool in registry.by_name.items()
        if tool.module in modules and (not name.startswith(WORLD) or name in settings.tools)
    ]
    return registry.offered(turn.agent, names, behalf)


def _request(turn: Turn, tools: Sequence[Tool]) -> ModelRequest:
    specs = tuple(map(spec_of, tools))
    if turn.persona is None:
        return ModelRequest((), tools=specs, use=turn.use)
    persona = turn.persona[1]
    return ModelRequest(
        (), tools=specs, use=turn.use, tier=persona.model, sampling=Sampling(max_tokens=persona.max_tokens)
    )


# -- 6. and 7.


def draft_attachments(turn: Turn) -> tuple[str, list[FileRecord]]:
    """6. Return the text with a list of the attachments, as a model sees it, and the files that they will be."""
    incoming = turn.incoming
    records: list[FileRecord] = []
    refused = ""
    for one in incoming.attachments:
        try:
            records.append(turn.chats.draft_file(turn.user, one, records))
        except Refused as refusal:
            refused += f"\n[An attachment was not taken: {refusal}]"
    if not records:
        return incoming.content + refused, []
    lines = [f"- {one.filename} (file_id: {one.id}, {one.size_bytes} bytes, {one.mime_type})" for one in records]
    return "\n".join([f"{incoming.content}\n\n[Attached files:]", *lines, FILES_HINT]) + refused, records


def _draft(turn: Turn, content: str, *, refused: bool = False) -> ConversationMessage:
    """Return the message as the conversation will keep it. What a job sends is no word of the person.

    Args:
        turn: what is answered.
        content: the text.
        refused: whether no model sees it.
    """
    incoming, persona = turn.incoming, turn.persona
    about = {
        "persona": None if persona is None else persona[0],
        "server": incoming.platform_server_id,
        "job": incoming.job,
    }
    details = {key: value for key, value in about.items() if value is not None}
    draft, id = turn.chats.conversations.draft, turn.conversation.id
    if incoming.job is None:
        return draft(id, "user", turn.user.id, content, details, audience="person" if refused else "all")
    text, by = section("scheduled_job", content, id=incoming.job), {**details, "user": turn.user.id}
    return draft(id, "user", SCHEDULER, text, by, audience="none" if refused else "model")


def take_in(turn: Turn, message: ConversationMessage, files: Sequence[FileRecord]) -> None:
    """Keep a message and its files. From now on the agent works on it."""
    conversations = turn.chats.conversations
    for one in files:
        turn.chats.keep_file(one)
    turn.message = conversations.append(
        message.conversation,
        message.role,
        message.author,
        message.content,
        message.metadata,
        audience=message.audience,
    ).id
    conversations.claim(message.conversation, turn.agent.agent_id)


def build_context(turn: Turn, message: ConversationMessage, request: ModelRequest) -> list[ChatMessage]:
    """7. Return the prompt: of the persona, with memories, the summary and recent messages."""
    persona = turn.persona and turn.persona[1]
    return context.build_context(
        turn.world,
        turn.chats,
        agent=turn.agent,
        user=turn.user,
        conversation=turn.conversation,
        persona=persona,
        message=message,
        request=request,
    )


def _starts(messages: Sequence[ChatMessage]) -> list[int]:
    """Return where the turns of a prompt begin."""
    return [place for place, message in enumerate(messages) if message.role == "user"]


def _shortage(turn: Turn, request: ModelRequest, messages: Sequence[ChatMessage]) -> CallPlan | None:
    """Return the shortest call, with nothing before the last turn, if the budget has no room for it; else None."""
    if not turn.chats.budgets.bounded(turn.user):
        return None
    shortest = (*messages[:1], *messages[(_starts(messages) or [1])[-1] :])
    plan = Models.of(turn.world).plan(turn.agent, attrs.evolve(request, messages=shortest))
    return None if turn.chats.budgets.fits(turn.user, plan.input_tokens, plan.max_tokens) else plan


# -- 8. the loop


async def loop(
    turn: Turn, messages: Sequence[ChatMessage], tools: Sequence[Tool], request: ModelRequest, behalf: tuple[str, ...]
) -> AgentResponse:
    """8. Call the model, run the tools that it calls, and repeat, up to the limits of an answer."""
    files = dict[str, JsonObject]()
    keep = turn.chats.conversations.note(turn.conversation.id, turn.agent.agent_id, between="model")

    def note(message: ChatMessage) -> None:
        if message.tool_calls or message.role == "tool":  # the final text is kept by `save`, with what belongs to it
            keep(message)

    def on_result(tool: Tool, result: ActionResult) -> None:
        turn.so_far = attrs.evolve(turn.so_far, tools=turn.so_far.tools + 1)
        for one in extract_files(result.data if result.success else None):
            files.setdefault(str(one["url"]), one)

    engine = CoreLoop(
        turn.world,
        turn.agent,
        tools,
        request=request,
        behalf=behalf,
        note=note,
        on_result=on_result,
        limits=turn.chats.settings.limits,
        complete=log_token_usage(turn, (_starts(messages) or [1])[-1]),
    )
    result = await engine.run(messages)
    last = result.completion
    response = attrs.evolve(
        turn.so_far,
        content=result.text,
        files=tuple(files.values()),
        ending=result.ending,
        stop=None if last is None else last.stop,
        shortened=turn.shortened,
        text_tokens=None if last is None else last.usage.output_tokens,
    )
    if result.ending not in FINISHED:
        return _without_end(turn, result, response)
    if response.stop == "max_tokens":
        why = "the text was cut off at the longest answer (max_tokens)"
        return attrs.evolve(response, error=why, refusal="not_finished", incomplete=True)
    return response


def log_token_usage(turn: Turn, question: int) -> Callable[[ModelRequest], Awaitable[Answer]]:
    """8b. Return what makes a call within the budget of the user, and logs its tokens.

    Args:
        turn: what is answered.
        question: the place in the prompt at which the last turn begins; what is before it may be left out.
    """
    chats, user = turn.chats, turn.user

    async def complete(request: ModelRequest) -> Answer:
        service = Models.of(turn.world)
        request, plan = _within_budget(turn, request, question)
        most = chats.budgets.hold(user, plan.input_tokens, plan.max_tokens)
        held, used = plan.input_tokens + most, 0
        try:
            limited = attrs.evolve(request, sampling=attrs.evolve(request.sampling, max_tokens=most))
            answer: Answer = await service.complete(turn.agent, limited)
            usage = answer.completion.usage
            used = usage.input_tokens + usage.output_tokens
        finally:
            chats.budgets.settle(user, held, used)
        so_far = turn.so_far
        turn.so_far = attrs.evolve(
            so_far,
            iterations=so_far.iterations + 1,
            tokens=so_far.tokens + used,
            cost_micro=so_far.cost_micro + answer.cost_micro,
            models=tuple(dict.fromkeys((*so_far.models, answer.completion.model))),
        )
        chats.counts["tokens"] += used
        chats.counts["fallbacks"] += bool(answer.fallbacks)
        turn.world.event_bus.report(
            TokensUsed(
                conversation=turn.conversation.id,
                cost_micro=answer.cost_micro,
                input_tokens=usage.input_tokens,
                model=answer.completion.model,
                output_tokens=usage.output_tokens,
                user=user.id,
            )
        )
        return answer

    return complete


def _within_budget(turn: Turn, request: ModelRequest, question: int) -> tuple[ModelRequest, CallPlan]:
    """Return a request, without the oldest turns if the budget has no room for them, and what it can use."""
    service, budgets = Models.of(turn.world), turn.chats.budgets
    messages, plan = request.messages, service.plan(turn.agent, request)
    for start in [place for place in _starts(messages) if 1 < place <= question]:
        if budgets.fits(turn.user, plan.input_tokens, plan.max_tokens):
            break
        request = attrs.evolve(request, messages=(*messages[:1], *messages[start:]))
        plan = service.plan(turn.agent, request)
        turn.shortened = max(turn.shortened, start - 1)
    return request, plan


def _without_end(turn: Turn, result: LoopResult, response: AgentResponse) -> AgentResponse:
    """Return the answer of a loop that has not come to its end, with the cause."""
    if isinstance(result.cause, LimitError) and result.ending == "user_budget":
        over = over_budget(turn, need=int(result.cause.value))
        return attrs.evolve(response, content=over.content, error=over.error, refusal=over.refusal)
    if result.cause is not None:
        refusal: Refusal = "skipped" if isinstance(result.cause, Skipped) else "no_model"
        return attrs.evolve(response, content=NO_MODEL_MESSAGE, error=result.error, refusal=refusal)
    content = result.text or UNFINISHED_MESSAGE.format(limit=result.ending)
    error = f"{result.ending}: {result.error}" if result.error else result.ending
    own = response.text_tokens if result.text else None
    return attrs.evolve(
        response, content=content, error=error, refusal="not_finished", incomplete=True, text_tokens=own
    )


def over_budget(turn: Turn, plan: CallPlan | None = None, *, need: int | None = None) -> AgentResponse:
    """Return the answer to a user whose budget is used up, or has no room for a call.

    Args:
        turn: what is answered.
        plan: the shortest call that could be made.
        need: the tokens that it needs at least, if this is known.
    """
    budgets = turn.chats.budgets
    limit, left, account = budgets.limit(turn.user), budgets.left(turn.user) or 0, budgets.account(turn.user)
    when = RENEWED.format(when=budgets.date(account.reset_ns))
    if plan is not None:
        need = plan.input_tokens + least_answer(plan.max_tokens)
    if limit == 0:
        error, text = "the token budget is 0", NO_BUDGET
    elif need is not None and limit is not None and left < need <= limit - account.used:
        error = (
            f"the token budget has {left:,} tokens left, {account.held:,} are set aside for other calls, and the call"
        )
        error = f"{error} needs {need:,}"
        text = SET_ASIDE.format(held=account.held, left=left, need=need)
    elif need is None or (left == 0 and limit is not None and need <= limit):
        error, text = "the token budget is used up", f"{USED_UP} {when}"
    else:
        error = f"the token budget has {left:,} tokens left, and the call needs {need:,}"
        text = f"{TOO_SMALL.format(left=left, need=need)} {when}"
        if limit is not None and need > limit:
            text = NEVER_ENOUGH.format(need=need, limit=limit)
    return AgentResponse(text, error=error, refusal="budget", ending="user_budget", shortened=turn.shortened)


# -- 9. files and messages


def extract_files(result: Any) -> list[JsonObject]:
    """9. Return the files in the whole result of a tool: a `url` at its top, and those in its list `files`."""
    if not isinstance(result, Mapping):
        return []
    listed = result.get("files")
    parts = [result, *(listed if isinstance(listed, list | tuple) else [])]
    return [_file(part) for part in parts if isinstance(part, Mapping) and isinstance(part.get("url"), str)]


def _file(part: JsonObject) -> JsonObject:
    key = {"minio_key": part["minio_key"]} if isinstance(part.get("minio_key"), str) else {}
    name = str(part.get("filename", "file"))
    return {"filename": name, "url": part["url"], "file_id": part.get("file_id"), **key}


def save(turn: Turn, response: AgentResponse) -> AgentResponse:
    """9. Keep the answer as a message of the conversation, with its files, model and tokens.

    What the person is refused is for the person: no model sees the refusal, nor the message. A text that the model
    already knows, because it came with the last calls, is kept for the person alone.
    """
    conversations, id = turn.chats.conversations, turn.conversation.id
    withheld = response.refusal in WITHHELD
    if turn.message == 0:
        take_in(turn, _draft(turn, turn.incoming.content, refused=True), ())
    elif withheld:
        conversations.withhold(id, turn.message, str(response.refusal))
    about: dict[str, Json] = {"tokens": response.text_tokens, "model": response.models[-1] if response.models else None}
    if withheld:
        about = {}
    if response.files:
        about["files"] = [dict(one) for one in response.files]
    about["refusal"] = response.refusal
    if response.incomplete:
        about |= {"incomplete": True, "ending": response.stop if response.ending in FINISHED else response.ending}
    private = withheld or (response.incomplete and response.ending not in FINISHED and response.text_tokens is not None)
    kept = {key: value for key, value in about.items() if value is not None}
    conversations.append(
        id,
        "assistant",
        turn.agent.agent_id,
        response.content,
        kept,
        seen=turn.message,
        audience="person" if private else "all",
    )
    return attrs.evolve(response, answered_ns=turn.world.kernel.now)
