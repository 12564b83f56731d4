"""The `scripted` provider: answers by the rules of a scenario. It is offline, free and deterministic, and never waits.

A rule has conditions for requests, and an answer. The first rule that matches answers. A rule sees the request, as a
model does, and the state of the calling agent, and nothing else of the world.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from sim.base.errors import UsageError
from sim.base.expressions import ExpressionError, Functions, Names
from sim.base.text import dotted_name
from sim.kernel.codec import encode
from sim.kernel.rng import Draws
from sim.llm.embeddings import embedding
from sim.llm.rules import Reply, ScriptedRule
from sim.llm.streaming import parts_of
from sim.llm.tokens import APPROXIMATE, count_answer, count_request
from sim.llm.tool_calls import wire_name
from sim.llm.types import (
    ChatMessage,
    Completion,
    ModelError,
    ModelRequest,
    Observer,
    RuleFault,
    TokenUsage,
    ToolCall,
)
from sim.world import World

_LONGEST = 100_000  # characters of a text that patterns and expressions see; the rest is cut off

_RECENT = 50  # messages of a conversation that expressions see


@attrs.define
class Asker:
    """The agent on whose behalf a rule is evaluated.

    Its random stream is separate from the agent's own, so that a different provider changes no draw of the agent.
    """

    agent_id: str
    rng: Draws


class _Names(dict[str, Any]):
    """The names of a rule; the conversation is computed at its first use, because few rules read it."""

    def __init__(self, messages: Sequence[ChatMessage], names: Names) -> None:
        super().__init__(names)
        self._messages = messages

    def __missing__(self, name: str) -> Any:
        if name != "conversation":
            raise KeyError(name)
        recent = self._messages[-_RECENT:]
        value = self[name] = [{"role": message.role, "text": message.content[:_LONGEST]} for message in recent]
        return value


class Scripted:
    """A provider that answers by rules.

    Args:
        world: the world of the calling agents.
        rules: the rules, in order of evaluation.
        functions: returns the functions of expressions for an asker.
        window: returns the context window of a model in tokens; None: not known. A call beyond it fails, as it would at
            an endpoint.
    """

    name = "scripted"

    def __init__(
        self,
        world: World,
        rules: Sequence[ScriptedRule],
        functions: Callable[[Asker], Functions],
        window: Callable[[str], int | None] = lambda model: None,
    ) -> None:
        self._window = window
        self._world = world
        self._rules = rules
        self._functions = functions
        self._calls: dict[tuple[str, str], int] = {}  # by agent and use
        self._tool_calls: dict[str, int] = {}  # by agent

    async def complete(self, model: str, request: ModelRequest, observe: Observer | None = None, /) -> Completion:
        """Answer with the first rule that matches, without delay. Embeddings need no rule.

        Raises:
            ModelError: if the rule fails or cannot be evaluated, or if no rule matches.
        """
        if request.texts:
            return embedding(model, request)
        input_tokens = count_request(APPROXIMATE, request)
        self._check_window(model, input_tokens + (request.sampling.max_tokens or 0))
        asker = self._asker(request)
        calls = self._calls.get((asker.agent_id, request.use), 0)
        self._calls[asker.agent_id, request.use] = calls + 1
        names = self._names(model, request, asker, calls)
        functions = self._functions(asker)
        rule, names = self._rule(request, names, functions)
        try:
            reply = _draw(rule.replies, asker.rng, names, functions)
            if reply.fail is not None:
                message = f"the scripted rule {rule.name!r} failed the call ({reply.fail})"
                raise ModelError(reply.fail, message, retry_after=reply.retry_after)
            text = "" if reply.say is None else _as_text(reply.say.evaluate(names, functions))
            tool_calls = self._tools(asker, reply, names, functions)
        except (ExpressionError, UsageError) as error:
            raise RuleFault(f"the scripted rule {rule.name!r} cannot answer: {error}", hint=error.hint) from error
        usage = TokenUsage(input_tokens, count_answer(APPROXIMATE, text, tool_calls))
        answer = Completion(text, tool_calls, reply.stop or ("tool_use" if tool_calls else "end_turn"), usage, model)
        if observe is not None:
            for delta in next(parts_of(answer, 1)):
                observe(delta)
        return answer

    def _check_window(self, model: str, tokens: int) -> None:
        window = self._window(model)
        if window is not None and tokens > window:
            raise ModelError("context_length", f"{tokens} tokens are more than the window of {window}")

    def _asker(self, request: ModelRequest) -> Asker:
        actor = self._world.kernel.acting().name
        return Asker(request.respondent or actor, self._world.draws_now(actor, "scripted"))

    def _names(self, model: str, request: ModelRequest, asker: Asker, calls: int) -> Names:
        agent = self._world.agents.get(asker.agent_id)
        last = request.messages[-1] if request.messages else ChatMessage("user", "")
        return {
            "me": asker.agent_id,
            "group": "" if agent is None else agent.group,
            "now": self._world.now,
            "use": request.use,
            "tier": request.tier,
            "model": model,
            "role": last.role,
            "text": last.content[:_LONGEST],
            "system": next((m.content[:_LONGEST] for m in request.messages if m.role == "system"), ""),
            "tools": [dotted_name(tool.name) for tool in request.tools],
            "calls": calls,
            "messages": len(request.messages),
            "result": _last_result(request.messages),
            "turn": _turn(request.messages),
            "state": {} if agent is None else agent.state,
            "pi": math.pi,
        }

    def _rule(self, request: ModelRequest, names: Names, functions: Functions) -> tuple[ScriptedRule, Names]:
        """Return the first rule that matches, and the names with its captures."""
        for rule in self._rules:
            kept = _kept(rule, names)
            if kept is None:
                continue
            seen = _Names(request.messages, {**names, **kept})
            try:
                applies = rule.when is None or rule.when.evaluate(seen, functions)
            except ExpressionError as error:
                message = f"the scripted rule {rule.name!r} cannot be evaluated: {error}"
                raise RuleFault(message, hint=error.hint) from error
            if applies:
                return rule, seen
        said = f"{names['role']}: {names['text'][:80]!r}"
        raise RuleFault(
            f"no scripted rule answers {names['me']} (use {request.use}, {said})",
            hint="add a rule without conditions at the end of models.rules",
        )

    def _tools(self, asker: Asker, reply: Reply, names: Names, functions: Functions) -> tuple[ToolCall, ...]:
        wanted = {} if reply.call is None else reply.call.evaluate(names, functions)
        parts = wanted if isinstance(wanted, list) else [wanted]
        if not all(isinstance(part, dict) for part in parts):
            raise UsageError(f"call is a mapping from tools to arguments, or a list of such, not {wanted!r:.60}")
        calls = []
        for tool, arguments in (item for part in parts for item in part.items()):
            number = self._tool_calls[asker.agent_id] = self._tool_calls.get(asker.agent_id, 0) + 1
            text = arguments if isinstance(arguments, str) else encode(arguments).decode()
            calls.append(ToolCall(f"call-{asker.agent_id}-{number}", wire_name(tool), text))
        return tuple(calls)


def _kept(rule: ScriptedRule, names: Names) -> dict[str, str] | None:
    """Return the captures of a rule, or None if it does not match. The `when` condition is not evaluated."""
    if rule.agents and names["me"] not in rule.agents and names["group"] not in rule.agents:
        return None
    if rule.uses and names["use"] not in rule.uses:
        return None
    if rule.role is not None and rule.role != names["role"]:
        return None
    if rule.tool is not None and wire_name(rule.tool) not in map(wire_name, names["tools"]):
        return None
    kept: dict[str, str] = {}
    for pattern, text in ((rule.text, names["text"]), (rule.system, names["system"]), (rule.result, names["result"])):
        if pattern is None:
            continue
        captures = None if text is None else pattern.match(text)
        if captures is None:
            return None
        kept.update(captures)
    return kept


def _draw(replies: tuple[Reply, ...], rng: Draws, names: Names, functions: Functions) -> Reply:
    """Return one reply, drawn by weight. A single reply needs no random draw."""
    if len(replies) == 1:
        return replies[0]
    weights = [1.0 if r.weight is None else _as_weight(r.weight.evaluate(names, functions)) for r in replies]
    total = math.fsum(weights)
    if total <= 0:
        raise UsageError("the weights of a choice must not all be 0")
    left = rng.random() * total
    for reply, weight in zip(replies, weights, strict=True):
        left -= weight
        if left < 0:
            return reply
    return replies[-1]  # `left` is still above 0 only by a rounding error


def _as_weight(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise UsageError(f"the weight of a choice is a number from 0, not {value!r}")
    return float(value)


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else encode(value).decode()


def _turn(messages: Sequence[ChatMessage]) -> int:
    """Return how often the model has answered since the last message of the user."""
    turn = 0
    for message in reversed(messages):
        if message.role == "user":
            break
        turn += message.role == "assistant"
    return turn


def _last_result(messages: Sequence[ChatMessage]) -> str | None:
    """Return the tool result in the last message, or None."""
    last = messages[-1] if messages else None
    return last.content[:_LONGEST] if last is not None and last.role == "tool" else None
