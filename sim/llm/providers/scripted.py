"""The `scripted` provider: rules that a scenario gives. Offline, free, the same each time; it never waits.

A rule says which requests it answers and how. The first that fits answers. It sees what a model would see, the request,
and the state of the agent that asks; it has no other access to how a scenario is meant to end.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from sim.errors import UsageError
from sim.expressions import ExpressionError
from sim.kernel import Stream
from sim.kernel.codec import encode
from sim.llm.embeddings import embedding
from sim.llm.rules import Functions, Reply, ScriptedRule
from sim.llm.streaming import parts_of
from sim.llm.tokens import APPROXIMATE, count_answer, count_request
from sim.llm.types import (
    ChatMessage,
    Completion,
    ModelError,
    ModelRequest,
    Observer,
    TokenUsage,
    ToolCall,
)
from sim.world import World

_LONGEST = 100_000  # signs of a text that patterns look at and expressions see; the rest is left out


@attrs.define
class Asker:
    """On whose behalf a rule draws and looks around. Its stream is not the agent's own: another provider in place of
    this one moves none of the agent's draws.
    """

    agent_id: str
    rng: Stream


class Scripted:
    """A provider that answers by rules.

    Args:
        world: where those who ask live.
        rules: in order.
        functions: gives the functions of expressions on behalf of an asker.
    """

    name = "scripted"

    def __init__(self, world: World, rules: Sequence[ScriptedRule], functions: Callable[[Asker], Functions]) -> None:
        self._world = world
        self._rules = rules
        self._functions = functions
        self._calls: dict[tuple[str, str], int] = {}  # by agent and use
        self._tool_calls: dict[str, int] = {}  # by agent

    async def complete(self, model: str, request: ModelRequest, observe: Observer | None = None, /) -> Completion:
        """Answer as the first rule that fits says; at once. Texts to embed need no rule.

        Raises:
            ModelError: if that rule fails, has no value, or no rule fits.
        """
        if request.texts:
            return embedding(model, request)
        asker = self._asker()
        calls = self._calls.get((asker.agent_id, request.use), 0)
        self._calls[asker.agent_id, request.use] = calls + 1
        names = self._names(model, request, asker, calls)
        functions = self._functions(asker)
        try:
            rule, names = self._rule(request, names, functions)
            reply = _draw(rule.replies, asker.rng, names, functions)
            if reply.fail is not None:
                message = f"the scripted rule {rule.name!r} failed the call ({reply.fail})"
                raise ModelError(reply.fail, message, retry_after=reply.retry_after)
            text = "" if reply.say is None else _as_text(reply.say.evaluate(names, functions))
            tool_calls = self._tools(asker, reply, names, functions)
        except (ExpressionError, UsageError) as error:
            raise ModelError("bad_request", f"a scripted rule cannot answer: {error}", hint=error.hint) from error
        usage = TokenUsage(count_request(APPROXIMATE, request), count_answer(APPROXIMATE, text, tool_calls))
        answer = Completion(text, tool_calls, reply.stop or ("tool_use" if tool_calls else "end_turn"), usage, model)
        if observe is not None:
            for delta in next(parts_of(answer, 1)):
                observe(delta)
        return answer

    def _asker(self) -> Asker:
        agent_id = self._world.kernel.acting().name
        return Asker(agent_id, self._world.stream(agent_id, "scripted"))

    def _names(self, model: str, request: ModelRequest, asker: Asker, calls: int) -> dict[str, Any]:
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
            "tools": [tool.name for tool in request.tools],
            "calls": calls,
            "messages": len(request.messages),
            "result": _last_result(request.messages),
            "state": {} if agent is None else agent.state,
            "pi": math.pi,
        }

    def _rule(
        self, request: ModelRequest, names: dict[str, Any], functions: Functions
    ) -> tuple[ScriptedRule, dict[str, Any]]:
        """Return the first rule that fits, and the names with what its patterns keep."""
        for rule in self._rules:
            kept = _kept(rule, names)
            if kept is None:
                continue
            seen = {**names, **kept}
            if rule.when is None or rule.when.evaluate(seen, functions):
                return rule, seen
        said = f"{names['role']}: {names['text'][:80]!r}"
        raise ModelError(
            "bad_request",
            f"no scripted rule answers {names['me']} (use {request.use}, {said})",
            hint="add a rule without conditions at the end of models.rules",
        )

    def _tools(
        self, asker: Asker, reply: Reply, names: Mapping[str, object], functions: Functions
    ) -> tuple[ToolCall, ...]:
        wanted = {} if reply.call is None else reply.call.evaluate(names, functions)
        if not isinstance(wanted, dict):
            raise UsageError(f"call is a mapping from tools to arguments, not {wanted!r:.60}")
        calls = []
        for tool, arguments in wanted.items():
            number = self._tool_calls[asker.agent_id] = self._tool_calls.get(asker.agent_id, 0) + 1
            text = arguments if isinstance(arguments, str) else encode(arguments).decode()
            calls.append(ToolCall(f"call-{asker.agent_id}-{number}", tool, text))
        return tuple(calls)


def _kept(rule: ScriptedRule, names: Mapping[str, Any]) -> dict[str, str] | None:
    """Return what the patterns of a rule keep, or None if the rule does not fit; its condition is not looked at."""
    if rule.agents and names["me"] not in rule.agents and names["group"] not in rule.agents:
        return None
    if rule.uses and names["use"] not in rule.uses:
        return None
    if rule.role is not None and rule.role != names["role"]:
        return None
    if rule.tool is not None and rule.tool not in names["tools"]:
        return None
    kept: dict[str, str] = {}
    for pattern, text in ((rule.text, names["text"]), (rule.system, names["system"]), (rule.result, names["result"])):
        if pattern is None:
            continue
        found = None if text is None else pattern.match(text)
        if found is None:
            return None
        kept.update(found)
    return kept


def _draw(replies: tuple[Reply, ...], rng: Stream, names: Mapping[str, object], functions: Functions) -> Reply:
    """Return one reply, drawn by weight; nothing is drawn if there is only one."""
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
    return replies[-1]  # what is left is a rounding error


def _as_weight(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise UsageError(f"the weight of a choice is a number from 0, not {value!r}")
    return float(value)


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else encode(value).decode()


def _last_result(messages: Sequence[ChatMessage]) -> str | None:
    """Return the last tool result that no answer has followed yet, or None."""
    last = messages[-1] if messages else None
    return last.content[:_LONGEST] if last is not None and last.role == "tool" else None
