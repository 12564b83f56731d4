"""The action `ask`: a policy agent asks a model, and uses the text and the tool calls of the answer in its rules.

Tools that the scenario declares under `models.tools` are not run: a call of one is the decision of the model, in a form
that a rule can read. Other tools (see `sim.tools`) are run, and the model gets their results, until it answers without
calling one. A call of a tool that was not offered, or with arguments that do not fit, is not passed on: the model gets
the error and is asked again. The same applies to an answer that does not fit `response_format` or `tool_choice`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import attrs

from sim.agents.engine import FINISHED, CoreLoop, LoopLimits, LoopResult, limits_from, spec_of
from sim.base.errors import LimitError
from sim.kernel.codec import Json, JsonObject
from sim.llm.answers import TOOL_CHOICES, answer_schema_fault, extra_body_fault, value_of
from sim.llm.service import Skipped
from sim.llm.types import ChatMessage, ModelRequest, Sampling, ToolSpec, varied
from sim.resources import MICRO
from sim.tools import Tool, Tools
from sim.world import ActionHandler, Inhabitant, Refused, World
from sim.world.action import Means, action

ASKS = 3
"""The most requests for one question, if the answers are not valid."""


@attrs.frozen
class AskOutcome:
    """The result of a question: the data of the action, and the text for the history of the agent."""

    data: JsonObject
    said: str


async def _unbound(world: World, agent: Inhabitant, **arguments: Any) -> AskOutcome:
    raise AssertionError("each scenario gives the action its own wait, with its tools")


Number = Annotated[Any, Means("number")]


@action("ask", ends=True, scope="own", wait=_unbound, everywhere=False, draws=False)
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
    limits: Annotated[Any, Means("mapping")] = None,
) -> JsonObject:
    """Ask a language model.

    Args:
        prompt: the question.
        system: the system prompt; default: the persona of the agent, if a table gives it one
        use: the use case of the call, as in `models.uses`.
        tier: the tier of the model; overrides the tier of the use case.
        tools: names of tools that the model can call: tools in `models.tools`, whose calls are not run, and others.
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
        limits: the limits of the model calls and tool calls of this question, by name, such as iterations.
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
        system = system or getattr(agent, "persona", "")
        opening = [ChatMessage("system", system)] if system else []
        decisions, run = self._offered(world, agent, tools)
        offered = (*decisions, *map(spec_of, run))
        request = ModelRequest((), use=use, tier=tier or None)
        if options:
            request = varied(
                request,
                sampling=_sampling(options),
                stream=_flag("stream", options.get("stream")),
                response_format=_schema(options.get("response_format")),
                tool_choice=_choice(options.get("tool_choice"), offered),
                extra_body=_extra_body(options.get("extra_body")),
            )
        limits = _LIMITS if options.get("limits") is None else limits_from(options["limits"], _LIMITS)
        loop = CoreLoop(world, agent, tools=run, decisions=decisions, limits=limits, request=request)
        result = await loop.run((*opening, *_past(agent, history), ChatMessage("user", prompt)))
        return _outcome(result, request, tools_ran=bool(run))

    def _offered(
        self, world: World, agent: Inhabitant, names: Sequence[object]
    ) -> tuple[Sequence[ToolSpec], Sequence[Tool]]:
        """Return the tools of a question: those whose call is the answer, and those that are run."""
        decisions, others = [], []
        for name in names:
            if isinstance(name, str) and name in self.tools:
                decisions.append(self.tools[name])
            elif isinstance(name, str) and "." in name:
                others.append(name)
            else:
                raise Refused(f"there is no tool {name!r} in models.tools")
        return decisions, Tools.of(world).offered(agent, others) if others else ()


_LIMITS = LoopLimits(invalid_answers=ASKS - 1)


def _outcome(result: LoopResult, request: ModelRequest, *, tools_ran: bool) -> AskOutcome:
    """Return the outcome of a question.

    Raises:
        Refused: if no answer was valid after `ASKS` requests, or no model answered.
    """
    if isinstance(result.cause, Skipped):
        raise Refused(str(result.cause), skip=True) from result.cause
    if isinstance(result.cause, LimitError):
        raise result.cause
    if result.cause is not None:
        raise Refused(f"no model answered: {result.error}") from result.cause
    completion = result.completion
    if completion is None:
        raise Refused(f"no model was asked, because a limit of the question is reached: {result.ending}")
    if result.ending == "invalid_answer":
        what = "tool calls" if completion.tool_calls else "answer"
        raise Refused(
            f"the {what} of the model {completion.model} cannot be used, after {ASKS} requests: {result.error}"
        )
    data: dict[str, Json] = {
        "text": completion.text,
        "calls": list(result.calls),
        "stop": completion.stop,
        "model": completion.model,
        "tokens": result.tokens,
        "cost": result.cost_micro / MICRO,
    }
    if tools_ran:
        data |= {"ending": result.ending, "tools": result.tools}
    if request.response_format is not None:
        data["value"] = value_of(completion, request) if result.ending in FINISHED else None
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


def _sampling(options: JsonObject) -> Sampling:
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


def _schema(value: Any) -> JsonObject | None:
    fault = None if value is None else answer_schema_fault(value)
    if fault is not None:
        raise Refused(f"response_format: {'.'.join(map(str, fault[0])) or 'the schema'}: {fault[1]}")
    schema: JsonObject | None = value
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


def _extra_body(value: Any) -> JsonObject | None:
    fault = None if value is None else extra_body_fault(value)
    if fault is not None:
        raise Refused(fault)
    body: JsonObject | None = value
    return body


def _number(name: str, value: object, most: float = math.inf) -> float | None:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most):
        return value
    raise Refused(f"{name} must be a number from 0{'' if most == math.inf else f' to {most:g}'}, not {value!r}")


def _whole(name: str, value: object, least: int) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= least):
        return value
    raise Refused(f"{name} must be a whole number from {least}, not {value!r}")
