"""One execution while a step of it is under way, and the calls of models that are made for it."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from sim.agents.engine import prompt
from sim.agents.executor.records import LLMCall, TaskState
from sim.agents.executor.service import Executors
from sim.agents.executor.settings import ExecutorSettings
from sim.errors import LimitError
from sim.kernel import to_seconds
from sim.llm.reading import value_in
from sim.llm.service import Models
from sim.llm.types import Answer, ChatMessage, ModelError, ModelRequest, TokenUsage
from sim.world import Inhabitant, World

TASK_COST: Final = "cost of the task"
"""The kind of the `LimitError` when a call could exceed the cost limit of a task."""

_RATING: Final[Mapping[str, Any]] = {
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
    agent: Inhabitant
    executors: Executors
    state: TaskState
    settings: ExecutorSettings

    def is_over(self) -> bool:
        """Return whether the step under way must not go on: its time or money is used up, or a person is needed."""
        state = self.state
        state.timeout_reached = state.timeout_reached or not self.executors.time.left_ns(state)
        return state.timeout_reached or state.resource_limit_hit or state.escalation_triggered

    async def complete(self, request: ModelRequest) -> Answer:
        """Call a model for the task, if the call cannot exceed the cost limit.

        Args:
            request: the request.

        Raises:
            LimitError: if it could, or a limit of the scenario does not allow the call.
            ModelError: if no model answers.
        """
        state, models = self.state, Models.of(self.world)
        most, left = models.plan(self.agent, request).cost_micro, state.cost_limit_micro - state.total_cost_micro
        if most > left:
            state.resource_limit_hit = True
            raise LimitError(TASK_COST, most, left, self.agent.agent_id)
        try:
            answer = await models.complete(self.agent, request)
        except ModelError as error:  # its attempts can have cost something
            used = [(attempt.model, attempt.usage) for attempt in error.attempts if attempt.usage is not None]
            if used:
                self._spend(request.use, [usage for _, usage in used], sum(models.cost(*one) for one in used))
            raise
        self._spend(request.use, [answer.completion.usage], answer.cost_micro)
        return answer

    def _spend(self, use: str, usages: Sequence[TokenUsage], cost_micro: int) -> None:
        """Note what a call used."""
        state, tokens = self.state, sum(usage.input_tokens + usage.output_tokens for usage in usages)
        state.token_usage.append(tokens)
        state.llm_calls.append(LLMCall(use, tokens, cost_micro))
        state.total_cost_micro += cost_micro
        self.executors.spend(cost_micro)

    def delay_ns(self, use: str, number: int, error: str) -> int:
        """Note that no model answered, and return after which time to ask again: twice as long each time.

        Args:
            use: the use case of the call.
            number: how often this has happened before.
            error: why.
        """
        delay = min(self.executors.settings.retry_delay << number, self.executors.time.left_ns(self.state))
        self.executors.report("retry", self.state, use=use, attempt=number + 1, delay=to_seconds(delay), error=error)
        return delay

    async def rate(
        self, use: str, instructions: str, sections: Mapping[str, Any]
    ) -> "Rating | ModelError | LimitError":
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


def is_quota(error: object) -> bool:
    """Return whether a hard limit of an account, or the ceiling of the run, refused a call.

    The executor is then paused until the operator acts, and its task waits with it.
    """
    return isinstance(error, ModelError) and error.kind == "quota"


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
