"""The loop of model calls and tool calls.

    model → tool calls → results → model → ... until the model calls no tool, calls a tool that ends the loop, or a
    limit is reached.

Tool calls are actions of the agent (`use_tool`), so each is checked, priced and recorded. A call with a fault (an
unknown tool, arguments that do not fit, an answer that was cut off) is not run. It is kept, audited and counted like
any other, and its result is the error. The loop keeps no state: its messages go in and come out.
"""

from collections.abc import Awaitable, Callable, Sequence

import attrs

from sim.agents.engine.calls import Called, read_calls, refusal, spec_of
from sim.agents.engine.limits import Ending, LoopLimits, ending_of, passes
from sim.base.errors import LimitError
from sim.kernel.codec import Json, JsonObject, encode
from sim.llm.answers import wrong_choice, wrong_text
from sim.llm.reading import has_written_call
from sim.llm.service import Models
from sim.llm.tool_calls import sound
from sim.llm.types import (
    Answer,
    ChatMessage,
    Completion,
    ModelError,
    ModelRequest,
    Observer,
    ToolSpec,
    varied,
)
from sim.resources import MICRO
from sim.tools import Tool, ToolAccess, Tools
from sim.tools.registry import note_not_run
from sim.world import Action, ActionResult, Inhabitant, World

CUT_MARK = "\n... [cut: {left} more characters]"
"""What a model sees at the end of a result that was cut."""


@attrs.frozen
class LoopResult:
    """What a loop did.

    Attributes:
        ending: why it ended.
        text: the text of the last answer.
        calls: the tool calls of the last answer, with their arguments: the decision, if the loop ended with one.
        messages: the messages that the loop added to those it was given.
        iterations: the number of model calls that were answered.
        tools: the number of tool calls that were run.
        tokens: the tokens of all calls.
        cost_micro: the cost of all calls, in micro-units.
        completion: the last answer; None if there was none.
        error: what went wrong, if there is a `cause`, or the ending is `invalid_answer`.
        retryable: whether the same loop may succeed later, if there is a `cause`.
        cause: why a model call was refused or not answered; None: all were answered. It is `Skipped` if a limit of the
            scenario with the policy `skip` refused it.
    """

    ending: Ending
    text: str = ""
    calls: tuple[JsonObject, ...] = ()
    messages: tuple[ChatMessage, ...] = ()
    iterations: int = 0
    tools: int = 0
    tokens: int = 0
    cost_micro: int = 0
    completion: Completion | None = None
    error: str | None = None
    retryable: bool = False
    cause: ModelError | LimitError | None = None


@attrs.define
class _Progress:
    """What a loop has done so far."""

    messages: list[ChatMessage]
    received: int  # how many of the messages the loop began with
    began_ns: int
    iterations: int = 0
    tools: int = 0
    tokens: int = 0
    cost_micro: int = 0
    invalid: int = 0
    last_tool: str = ""
    in_a_row: int = 0
    completion: Completion | None = None
    calls: tuple[Called, ...] = ()  # of the last answer


_PLAIN = ModelRequest(())


@attrs.frozen
class CoreLoop:
    """A loop of model calls and tool calls for one agent.

    Args:
        world: the world of the agent.
        agent: the agent.
        tools: the tools that the model can call.
        decisions: tools that are not run, as tools or only as models see them: a call of one ends the loop, and is its
            result.
        limits: the limits.
        stop_tools: names of tools after which the loop ends, such as `chat.send_message`.
        request: the options of each model call (use, tier, sampling, ...); its messages and tools are replaced.
        behalf: agents and users for whom the agent works; see `ToolAccess.refusal`.
        observe: called with each part of an answer as it arrives. It must not change the world.
        note: called with each message that the loop adds, in order, so that a conversation can keep it.
        on_result: called with each tool that was run and its whole result, of which the model sees the beginning.
        complete: called for each model call instead of `Models.complete`, for example to keep a budget of a user. It
            raises as that does.
    """

    world: World
    agent: Inhabitant
    tools: Sequence[Tool] = ()
    decisions: Sequence[Tool | ToolSpec] = ()
    limits: LoopLimits = attrs.field(factory=LoopLimits)
    stop_tools: frozenset[str] = frozenset()
    request: ModelRequest = _PLAIN
    behalf: tuple[str, ...] = ()
    observe: Observer | None = None
    note: Callable[[ChatMessage], None] | None = None
    on_result: Callable[[Tool, ActionResult], None] | None = None
    complete: Callable[[ModelRequest], Awaitable[Answer]] | None = None

    async def run(self, messages: Sequence[ChatMessage]) -> LoopResult:
        """Run the loop. This is its main loop.

        Args:
            messages: the system prompt and the history so far; the last one is what the model answers.
        """
        done = _Progress(list(messages), len(messages), self.world.kernel.now)
        while True:
            if (limit := self._limit_reached(done)) is not None:
                return self._result(done, limit)
            try:
                fault = await self._ask(done)
            except (ModelError, LimitError) as error:
                return self._failed(done, error)
            if fault is None and not done.calls:
                return self._result(done, "natural_completion")
            if fault is None and any(one.tool is None and one.fault is None for one in done.calls):
                return self._result(done, "decision")
            if await self._run_calls(done):
                return self._result(done, "stop_tool")
            if fault is not None:
                done.invalid += 1
                if done.invalid > self.limits.invalid_answers:
                    return attrs.evolve(self._result(done, "invalid_answer"), error=fault)

    async def _ask(self, done: _Progress) -> str | None:
        """Ask the model and add its answer; return why nothing of the answer can be used, or None."""
        deciding = (one if isinstance(one, ToolSpec) else spec_of(one) for one in self.decisions)
        offered = (*map(spec_of, self.tools), *deciding)
        request = varied(self.request, messages=tuple(done.messages), tools=offered)
        if self.complete is not None:
            answer = await self.complete(request)
        else:
            answer = await Models.of(self.world).complete(self.agent, request, self.observe)
        completion = done.completion = answer.completion
        done.tokens += completion.usage.input_tokens + completion.usage.output_tokens
        done.cost_micro += answer.cost_micro
        done.iterations += 1
        done.calls = read_calls(completion, request, self.tools, self.decisions, self._not_offered)
        if done.calls:  # kept before anything is run, whatever is wrong with them
            self._add(done, ChatMessage("assistant", completion.text, completion.tool_calls))
            return refusal(done.calls) if all(one.fault is not None for one in done.calls) else None
        fault = wrong_choice(completion, request.tool_choice) or wrong_text(completion, request)
        if fault is None:
            self._add(done, ChatMessage("assistant", completion.text))
            return None
        said = ChatMessage("assistant", completion.text or "(nothing)")
        done.messages += said, ChatMessage("user", fault)
        return f"{fault} {_WRITTEN}" if has_written_call(completion, request) else fault

    async def _run_calls(self, done: _Progress) -> bool:
        """Run the tool calls of an answer in order; return whether one of them ends the loop."""
        made, stop = set[tuple[str, str]](), False
        for one in done.calls:
            tool, name = one.tool, one.call.name
            key = (name, encode(one.arguments).decode())
            if one.fault is not None or tool is None:
                result = self._not_run(one, f"the call was not run: {one.fault}. {_THEN}")
            elif key in made and tool.safety == "unsafe":
                result = self._not_run(one, _AGAIN)
            elif (limit := self._call_limit(done, name)) is not None:
                result = self._not_run(one, f"{tool.name} was not run: the limit {limit} is reached")
            else:
                made.add(key)
                result = await self._use(tool, one.arguments)
                done.tools += 1
                if self.on_result is not None:
                    self.on_result(tool, result)
                stop = stop or (result.success and tool.name in self.stop_tools)
            done.in_a_row = done.in_a_row + 1 if name == done.last_tool else 1
            done.last_tool = name
            self._add(done, ChatMessage("tool", self._seen(result), tool_call_id=one.call.id))
        return stop

    def _not_offered(self, name: str) -> str | None:
        """Return why a tool that exists is not offered here; None if there is no such tool."""
        registry = self.world.services.get(Tools.name)
        tool = registry.look_up(name) if isinstance(registry, Tools) else None
        if tool is None:
            return None
        why = ToolAccess.on(self.world).unseen(self.agent, tool, self.behalf)
        return f"the tool {tool.name!r} is not offered here: {why or 'the agent was not given it'}"

    def _not_run(self, one: Called, why: str) -> ActionResult:
        """Note that a call is not run, and return what the model learns of it."""
        note_not_run(self.world, self.agent, (one.call.name, one.call.arguments), why)
        return ActionResult(False, error=why)

    def _call_limit(self, done: _Progress, name: str) -> Ending | None:
        """Return the limit that forbids a further call in an answer, which can have any number of them; or None."""
        most = self.limits.same_tool
        if most is not None and name == done.last_tool and done.in_a_row >= most:
            return "same_tool"
        return "max_time" if self.world.kernel.now - done.began_ns >= self.limits.time else None

    async def _use(self, tool: Tool, arguments: JsonObject) -> ActionResult:
        params: dict[str, Json] = {"tool": tool.name, "args": dict(arguments)}
        if self.behalf:
            params["on_behalf_of"] = self.behalf[0] if len(self.behalf) == 1 else list(self.behalf)
        return await self.world.execute(self.agent, Action("use_tool", params))

    def _seen(self, result: ActionResult) -> str:
        """Return the result of a tool as the model sees it."""
        if result.success:
            return cut(encode({"success": True, "observation": result.data}).decode(), self.limits.result_length)
        return cut(encode({"success": False, "error": result.error}).decode(), self.limits.result_length)

    def _add(self, done: _Progress, message: ChatMessage) -> None:
        """Add a message for the model, in a form that every endpoint takes, and have it kept unchanged."""
        calls = message.tool_calls
        done.messages.append(attrs.evolve(message, tool_calls=tuple(map(sound, calls))) if calls else message)
        if self.note is not None:
            self.note(message)

    def _limit_reached(self, done: _Progress) -> Ending | None:
        """Return the limit that forbids another model call, or None."""
        limits = self.limits
        if done.iterations >= limits.iterations:
            return "max_iterations"
        if limits.same_tool is not None and done.in_a_row >= limits.same_tool:
            return "same_tool"
        if self.world.kernel.now - done.began_ns >= limits.time:
            return "max_time"
        if limits.history is not None and sum(one.role != "system" for one in done.messages) >= limits.history:
            return "history_length"
        if limits.tokens is not None and done.tokens >= limits.tokens:
            return "max_tokens"
        if limits.cost is not None and done.cost_micro >= limits.cost * MICRO:
            return "max_cost"
        return None

    def _failed(self, done: _Progress, error: ModelError | LimitError) -> LoopResult:
        """Return the result of a loop whose next call was refused or not answered. A limit that skips calls passes."""
        result = self._result(done, ending_of(error))
        return attrs.evolve(result, error=str(error), retryable=passes(error), cause=error)

    def _result(self, done: _Progress, ending: Ending) -> LoopResult:
        completion = done.completion
        return LoopResult(
            ending=ending,
            text="" if completion is None else completion.text,
            calls=tuple({"name": one.call.name, "arguments": one.arguments} for one in done.calls),
            messages=tuple(done.messages[done.received :]),
            iterations=done.iterations,
            tools=done.tools,
            tokens=done.tokens,
            cost_micro=done.cost_micro,
            completion=completion,
        )


_THEN = "Call it again, or answer without it."

_AGAIN = "the same call was made before in this answer, so it was not run again"

_WRITTEN = (
    "The answer has a tool call that is written as text: models.endpoints.NAME.tool_calls: text has such calls read, "
    "where NAME is the provider of the model."
)


def cut(text: str, length: int) -> str:
    """Return a text of at most `length` characters, with a mark that says how much is missing."""
    if len(text) <= length:
        return text
    mark = CUT_MARK.format(left=len(text) - length)
    return text[:length] + mark
