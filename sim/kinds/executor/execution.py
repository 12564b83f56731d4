"""One execution while a step of it is under way, and the calls of models that are made for it."""

import re
from typing import TYPE_CHECKING, Final

import attrs

from sim.agents.engine import prompt
from sim.agents.engine.limits import TASK_COST, least_answer
from sim.base.errors import LimitError
from sim.kernel import to_seconds
from sim.kernel.codec import JsonObject
from sim.kinds.executor.events import ExecutionRetried
from sim.kinds.executor.records import TaskState
from sim.kinds.executor.service import Executors
from sim.kinds.executor.settings import ExecutorSettings
from sim.llm.reading import value_in
from sim.llm.service import CallPlan, Models
from sim.llm.types import Answer, ChatMessage, ModelError, ModelRequest, TokenUsage
from sim.resources import MICRO
from sim.world import World

if TYPE_CHECKING:
    from sim.kinds.executor.base_agent import BaseAgent

_RATING: Final[JsonObject] = {
    "type": "object",
    "properties": {"score": {"type": "number", "minimum": 0, "maximum": 1}, "why": {"type": "string"}},
    "required": ["score", "why"],
    "additionalProperties": False,
}
_TOKEN: Final = re.compile(r"[\w.,+−-]*[0-9][\w.,+−-]*")
_NUMBER: Final = re.compile(r"\+?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+|0?,[0-9]+|1,0)(?:[eE][+-]?[0-9]+)?")
_OF: Final = re.compile(r"\s*(?:/|out of|of)\s*([0-9]+(?:\.[0-9]+)?)(?![\w.,]*[0-9])")
_PERCENT: Final = re.compile(r"\s*(?:%|per ?cent)")
_WORD: Final = re.compile(r"[ \t]+[^\W\d_]")


@attrs.frozen
class Execution:
    """A task, the executor that works on it, and their world.

    Attributes:
        world: the world.
        agent: the executor.
        executors: the service.
        state: the task.
        settings: what the executor is.
    """

    world: World
    agent: "BaseAgent"
    executors: Executors
    state: TaskState
    settings: ExecutorSettings

    def is_over(self) -> bool:
        """Return whether the step under way must not continue: its time or money is used up, or a person is needed."""
        state = self.state
        state.timeout_reached = state.timeout_reached or not self.executors.time.left_ns(state)
        return state.timeout_reached or state.resource_limit_hit or state.escalation_triggered

    async def complete(self, request: ModelRequest) -> Answer:
        """Call a model for the task. By the rule `strict`, the answer is as long as the cost limit allows at most.

        Args:
            request: the request.

        Raises:
            LimitError: if the prompt and a short answer could exceed the cost limit, or a limit of the scenario does
                not allow the call.
            ModelError: if no model answers.
        """
        models, most = Models.of(self.world), self._affordable(request)
        if most is None:
            return await models.complete(self.agent, request)
        try:
            answer = await models.complete(self.agent, _with_most(request, most))
        except ModelError as error:
            if error.kind != "reasoning":
                raise
            raise self._too_expensive(request) from error  # what it had for its answer went into reasoning
        self.state.resource_limit_hit = answer.completion.stop == "max_tokens"
        return answer

    def _affordable(self, request: ModelRequest) -> int | None:
        """Return the longest answer in tokens that the cost limit allows; None if it allows all that is wanted.

        Raises:
            LimitError: if it does not allow a short one.
        """
        left = self.state.left_micro
        if self.executors.settings.cost_rule == "seed":
            return None
        plan = Models.of(self.world).plan(self.agent, request)
        if (whole := self._most_micro(plan, plan.max_tokens)) <= left:
            return None
        fewest = least_answer(plan.max_tokens)
        if (least := self._most_micro(plan, fewest)) > left:
            raise self._too_expensive(request)
        most = fewest + (plan.max_tokens - fewest) * (left - least) // (whole - least)
        while most > fewest and self._most_micro(plan, most) > left:  # costs are rounded up
            most -= 1
        return most

    def _most_micro(self, plan: CallPlan, max_tokens: int) -> int:
        """Return the highest possible cost of a call with an answer of at most `max_tokens`.

        The tokens of a prompt are known for models inside the simulation. At an endpoint they are not, so what the plan
        says is cautious.
        """
        models, targets = Models.of(self.world), plan.route.targets
        costs = [models.cost(target.model, TokenUsage(plan.input_tokens, max_tokens)) for target in targets]
        if not plan.outside:
            return max(costs)
        fewer = [models.cost(target.model, TokenUsage(plan.input_tokens, plan.max_tokens)) for target in targets]
        return max(costs) + max(0, plan.cost_micro - max(fewer))

    def _too_expensive(self, request: ModelRequest) -> LimitError:
        state = self.state
        state.resource_limit_hit = True
        plan = Models.of(self.world).plan(self.agent, request)
        needed = self._most_micro(plan, least_answer(plan.max_tokens))
        left = max(0, state.left_micro)
        text = f"a call for up to {needed / MICRO:g} is more than the {left / MICRO:g} left of the cost limit"
        return LimitError(TASK_COST, needed, left, self.agent.agent_id, message=text)

    def delay_ns(self, use: str, number: int, error: str) -> int:
        """Note that no model answered, and return after which time to ask again: twice as long each time.

        Args:
            use: the use case of the call.
            number: how often this has happened before.
            error: why.
        """
        delay = min(self.executors.settings.retry_delay << number, self.executors.time.left_ns(self.state))
        self.executors.report(
            ExecutionRetried, self.state, use=use, attempt=number + 1, delay=to_seconds(delay), error=error
        )
        return delay

    async def rate(self, use: str, instructions: str, sections: JsonObject) -> "Rating | ModelError | LimitError":
        """Ask a model for a number from 0 to 1.

        Args:
            use: the use case of the call.
            instructions: what the number says.
            sections: the data to judge.

        Returns:
            The answer, or why no model answered.
        """
        system = f"{instructions} Begin with one number from 0.0 to 1.0, then say why in one sentence."
        messages = (ChatMessage("system", system), ChatMessage("user", prompt("", sections)))
        try:
            answer = await self.complete(ModelRequest(messages, use=use, immediate=True, preferred_format=_RATING))
        except (ModelError, LimitError) as error:
            return error
        text = answer.completion.text
        score = value_in(text, ("score",))
        return Rating(number_of(text if score is None else str(score)), text)


def _with_most(request: ModelRequest, most: int) -> ModelRequest:
    """Return a request whose answer has at most as many tokens."""
    return attrs.evolve(request, sampling=attrs.evolve(request.sampling, max_tokens=most))


def refused_or_silent(ending: str, verb: str) -> str:
    """Return why there is no answer: a limit of the scenario refused the call, or no model has answered."""
    return f"no model {verb}" if ending == "model_error" else f"the limit {ending} refuses the call"


@attrs.frozen
class Rating:
    """What a model says when it is asked for a number: the number, None if there is none, and the whole text."""

    number: float | None
    text: str


def number_of(text: str) -> float | None:
    """Return the first number of a text as a share; None if it cannot be read as one, and then nothing is guessed.

    A share is written as 0.7, 0,7, 70 %, 7/10, 7 of 10 or 7 out of 10. A count is none: "1 criterion is missing".
    """
    token = _TOKEN.search(text)
    if token is None or _NUMBER.fullmatch(number := token[0].rstrip(".,")) is None:
        return None
    value, rest = float(number.replace(",", ".")), text[token.end() :]
    if _PERCENT.match(rest):
        value /= 100
    elif of := _OF.match(rest):
        value = value / whole if (whole := float(of[1])) else -1
    elif token[0].isdecimal() and _WORD.match(rest):
        return None
    return value if 0 <= value <= 1 else None
