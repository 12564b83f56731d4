"""The action `ask`: a policy agent asks a model, and uses the text and the tool calls of the answer in its rules.

The tools of a question are not executed. A tool call is the decision of the model, in a form that a rule can read. A
call of a tool that was not offered, or with arguments that do not fit, is not passed on: the model gets the error and
is asked again. The same applies to an answer that does not fit `response_format` or `tool_choice`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import attrs

from sim.llm.answers import TOOL_CHOICES, answer_schema_fault, check_answer, extra_body_fault, value_of
from sim.llm.service import Models, Skipped
from sim.llm.types import Answer, ChatMessage, Completion, ModelError, ModelRequest, Sampling, ToolSpec
from sim.resources import MICRO
from sim.world import ActionHandler, Inhabitant, Refused, World
from sim.world.action import Means, action

ASKS = 3
"""The most requests for one question, if the answers are not valid."""


@attrs.frozen
class AskOutcome:
    """The result of a question: the data of the action, and the text for the history of the agent."""

    data: Mapping[str, Any]
    said: str


async def _unbound(world: World, agent: Inhabitant, **arguments: Any) -> AskOutcome:
    raise AssertionError("each scenario gives the action its own wait, with its tools")


Number = Annotated[Any, Means("number")]


@action("ask", ends=True, scope="own", wait=_unbound, everywhere=False)
def ask(
    world: World,
    agent: Inhabitant,
    granted: AskOutcome,
    prompt: str,
    system: str = "",
    use: str = "agent",
    tier: Annotated[str, Means("tier")] = "",
    tools: Annotated[Any, Means("tools")] = (),
    history: Annotated[str, Means("history")] = "",
    max_tokens: Number = None,
    temperature: Number = None,
    top_p: Number = None,
    seed: Number = None,
    stop: Any = None,
    response_format: Annotated[Any, Means("answer schema")] = None,
    tool_choice: Annotated[Any, Means("text")] = None,
    extra_body: Annotated[Any, Means("extra body")] = None,
    stream: Any = None,
) -> Mapping[str, Any]:
    """Ask a language model.

    Args:
        prompt: the question.
        system: the system prompt.
        use: the use case of the call, as in `models.uses`.
        tier: the tier of the model; overrides the tier of the use case.
        tools: names of tools in `models.tools` that the model can call.
        history: the state variable that holds the conversation so far.
        max_tokens: the most tokens of the answer.
        temperature: the sampling temperature.
        top_p: the probability mass of nucleus sampling.
        seed: the sampling seed, for endpoints that accept one.
        stop: texts that end the answer when the model generates one of them.
        response_format: a JSON Schema for the text of the answer.
        tool_choice: auto, none, required, or the name of a tool.
        extra_body: further fields of the request body, for the endpoint.
        stream: whether the endpoint sends the answer in parts.
    """
    if history:
        new = [{"role": "user", "content": prompt}, {"role": "assistant", "content": granted.said}]
        agent.state[history] = [*agent.state[history], *new]
    return granted.data


@attrs.frozen
class Ask:
    """The action, with the tools that a scenario declares."""

    tools: Mapping[str, ToolSpec]

    def handler(self) -> ActionHandler:
        """Return the action handler for the registry of a world."""
        return attrs.evolve(ask, wait=self._ask)

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
        **options: Any,
    ) -> AskOutcome:
        if not isinstance(tools, list | tuple):
            raise Refused(f"tools is a list of names from models.tools, not {tools!r:.60}")
        opening = [ChatMessage("system", system)] if system else []
        offered = tuple(self._tool(name) for name in tools)
        request = ModelRequest(
            (*opening, *_past(agent, history), ChatMessage("user", prompt)),
            tools=offered,
            sampling=_sampling(options),
            use=use,
            tier=tier or None,
            stream=_flag("stream", options.get("stream")),
            response_format=_schema(options.get("response_format")),
            tool_choice=_choice(options.get("tool_choice"), offered),
            extra_body=_extra_body(options.get("extra_body")),
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


async def _sound(models: Models, agent: Inhabitant, request: ModelRequest) -> AskOutcome:
    """Ask until an answer is valid.

    Raises:
        Refused: if no answer was valid after `ASKS` requests.
    """
    asked, answers = request, []
    for _ in range(ASKS):
        answers.append(await models.complete(agent, asked))
        completion = answers[-1].completion
        wrong = check_answer(completion, request)
        if wrong is None:
            return _asked(answers, request)
        asked = attrs.evolve(asked, messages=(*asked.messages, *_complaint(completion, wrong)))
    what = "tool calls" if completion.tool_calls else "answer"
    raise Refused(f"the {what} of the model {completion.model} cannot be used, after {ASKS} requests: {wrong}")


def _complaint(completion: Completion, wrong: str) -> Sequence[ChatMessage]:
    """Return the error messages to the model. They omit its faulty calls: some servers refuse such a history."""
    said = completion.text or ("(a tool call)" if completion.tool_calls else "(nothing)")
    return ChatMessage("assistant", said), ChatMessage("user", wrong)


def _asked(answers: Sequence[Answer], request: ModelRequest) -> AskOutcome:
    completion = answers[-1].completion
    calls = [{"name": call.name, "arguments": call.parsed()} for call in completion.tool_calls]
    data: dict[str, Any] = {
        "text": completion.text,
        "calls": calls,
        "stop": completion.stop,
        "model": completion.model,
        "tokens": sum(a.completion.usage.input_tokens + a.completion.usage.output_tokens for a in answers),
        "cost": sum(answer.cost_micro for answer in answers) / MICRO,
    }
    if request.response_format is not None:
        data["value"] = value_of(completion, request)
    made = [f"{call.name}({call.arguments})" for call in completion.tool_calls]
    return AskOutcome(data, "\n".join(part for part in (completion.text, *made) if part))


def _past(agent: Inhabitant, history: str) -> Sequence[ChatMessage]:
    """Return the conversation in a state variable."""
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


def _sampling(options: Mapping[str, Any]) -> Sampling:
    stop = options.get("stop") or ()
    texts = (stop,) if isinstance(stop, str) else stop
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) and text for text in texts):
        raise Refused(f"stop must be a text or a list of texts, not {stop!r:.60}")
    return Sampling(
        temperature=_number("temperature", options.get("temperature")),
        top_p=_number("top_p", options.get("top_p"), 1),
        max_tokens=_whole("max_tokens", options.get("max_tokens"), 1),
        stop=tuple(texts),
        seed=_whole("seed", options.get("seed"), 0),
    )


def _flag(name: str, value: object) -> bool:
    if value is None or isinstance(value, bool):
        return bool(value)
    raise Refused(f"{name} must be true or false, not {value!r:.60}")


def _schema(value: Any) -> Mapping[str, Any] | None:
    fault = None if value is None else answer_schema_fault(value)
    if fault is not None:
        raise Refused(f"response_format: {'.'.join(map(str, fault[0])) or 'the schema'}: {fault[1]}")
    schema: Mapping[str, Any] | None = value
    return schema


def _choice(value: object, tools: Sequence[ToolSpec]) -> str | None:
    if value in (None, ""):
        return None
    names = (*TOOL_CHOICES, *(tool.name for tool in tools))
    if not isinstance(value, str) or value not in names:
        raise Refused(f"tool_choice must be one of {', '.join(names)}, not {value!r:.60}")
    if not tools:
        raise Refused("tool_choice needs tools: name them in tools")
    return value


def _extra_body(value: Any) -> Mapping[str, Any] | None:
    fault = None if value is None else extra_body_fault(value)
    if fault is not None:
        raise Refused(fault)
    body: Mapping[str, Any] | None = value
    return body


def _number(name: str, value: object, most: float = math.inf) -> float | None:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most):
        return value
    raise Refused(f"{name} must be a number from 0{'' if most == math.inf else f' to {most:g}'}, not {value!r}")


def _whole(name: str, value: object, least: int) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= least):
        return value
    raise Refused(f"{name} must be a whole number from {least}, not {value!r}")
