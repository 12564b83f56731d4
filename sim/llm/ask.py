"""The action `ask`: a policy agent asks a model, and uses the text and the tool calls of the answer in its rules.

The tools of a question are not run by anybody: a call of one is the model's decision in a form that a rule can read.
One that was not offered, or whose arguments do not fit, is never handed on; the model is told, and asked again.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from sim.llm.models import Models, Skipped
from sim.llm.port import Answer, ChatMessage, Completion, ModelError, ModelRequest, Sampling, ToolSpec
from sim.llm.toolcalls import faults
from sim.resources import MICRO
from sim.world import ActionHandler, Inhabitant, Refused, World

ASKS = 3
"""How often a question is put, if the tool calls of the answers cannot be used."""


@attrs.frozen
class Asked:
    """What came of a question: the result of the action, and what was said for the agent's history."""

    data: Mapping[str, Any]
    said: str


@attrs.frozen
class Ask:
    """The action, with the tools that a scenario declares."""

    tools: Mapping[str, ToolSpec]

    def handler(self) -> ActionHandler:
        """Return the action for a world's registry."""
        return ActionHandler("ask", _done, wait=self._ask, ends=True, scope="own")

    async def _ask(
        self,
        world: World,
        agent: Inhabitant,
        prompt: str,
        system: str = "",
        use: str = "agent",
        tier: str = "",
        tools: Any = (),
        history: str = "",
        max_tokens: Any = None,
        temperature: Any = None,
    ) -> Asked:
        if not isinstance(tools, list | tuple):
            raise Refused(f"tools is a list of names from models.tools, not {tools!r:.60}")
        opening = [ChatMessage("system", system)] if system else []
        request = ModelRequest(
            (*opening, *_past(agent, history), ChatMessage("user", prompt)),
            tools=tuple(self._tool(name) for name in tools),
            sampling=Sampling(
                temperature=_number("temperature", temperature), max_tokens=_whole("max_tokens", max_tokens)
            ),
            use=use,
            tier=tier or None,
        )
        try:
            return await _sound(Models.of(world), agent, request)
        except Skipped as error:
            raise Refused(str(error), skip=True) from error
        except ModelError as error:
            raise Refused(f"no model answered: {error}") from error

    def _tool(self, name: object) -> ToolSpec:
        tool = self.tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise Refused(f"there is no tool {name!r} in models.tools")
        return tool


async def _sound(models: Models, agent: Inhabitant, request: ModelRequest) -> Asked:
    """Ask until every tool call of the answer may be used.

    Raises:
        Refused: if that was never so.
    """
    answers: list[Answer] = []
    wrong: Mapping[str, str] = {}
    for _ in range(ASKS):
        answers.append(await models.complete(agent, request))
        completion = answers[-1].completion
        wrong = faults(completion, request.tools)
        if not wrong:
            return _asked(answers)
        request = attrs.evolve(request, messages=(*request.messages, *_complaint(completion, wrong)))
    raise Refused(f"the model's tool calls cannot be used: {next(iter(wrong.values()))}")


def _complaint(completion: Completion, wrong: Mapping[str, str]) -> Sequence[ChatMessage]:
    """Return what the model is told. Its broken calls are not repeated to it: some servers refuse such a history."""
    names = {call.id: call.name for call in completion.tool_calls}
    told = " ".join(f"The call of {names[id][:64]} was not run: {fault}." for id, fault in wrong.items())
    return ChatMessage("assistant", completion.text or "(a tool call)"), ChatMessage("user", f"{told} Call it again.")


def _asked(answers: Sequence[Answer]) -> Asked:
    completion = answers[-1].completion
    calls = [{"name": call.name, "arguments": call.parsed()} for call in completion.tool_calls]
    data = {
        "text": completion.text,
        "calls": calls,
        "stop": completion.stop,
        "model": completion.model,
        "tokens": sum(a.completion.usage.input_tokens + a.completion.usage.output_tokens for a in answers),
        "cost": sum(answer.cost_micro for answer in answers) / MICRO,
    }
    made = [f"{call.name}({call.arguments})" for call in completion.tool_calls]
    return Asked(data, "\n".join(part for part in (completion.text, *made) if part))


def _done(
    world: World,
    agent: Inhabitant,
    granted: Asked,
    prompt: str,
    system: str = "",
    use: str = "agent",
    tier: str = "",
    tools: Any = (),
    history: str = "",
    max_tokens: Any = None,
    temperature: Any = None,
) -> Mapping[str, Any]:
    if history:
        new = [{"role": "user", "content": prompt}, {"role": "assistant", "content": granted.said}]
        agent.state[history] = [*agent.state[history], *new]
    return granted.data


def _past(agent: Inhabitant, history: str) -> Sequence[ChatMessage]:
    """Return the conversation that a state variable holds."""
    if not history:
        return ()
    past = agent.state.get(history)
    if not isinstance(past, list):
        raise Refused(f"history names a state variable that holds a list, and {history!r} does not")
    roles = ("user", "assistant", "system")
    messages = []
    for message in past:
        if not isinstance(message, dict) or message.get("role") not in roles:
            raise Refused(f"{history} must hold mappings with role ({', '.join(roles)}) and content")
        messages.append(ChatMessage(message["role"], str(message.get("content", ""))))
    return messages


def _number(name: str, value: object) -> float | None:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value >= 0):
        return value
    raise Refused(f"{name} must be a number from 0, not {value!r}")


def _whole(name: str, value: object) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
        return value
    raise Refused(f"{name} must be a whole number above 0, not {value!r}")
