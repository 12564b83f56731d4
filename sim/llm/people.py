"""Answers of people: a person from outside the run answers as an agent instead of its model.

That is one kind of input, `answer`, which says one of two things:

    {"agent": A, "within_ns": N, "otherwise": T}   calls of A wait for a person for N simulated nanoseconds each
    {"question": Q, "text": T, "call": C}          this is the answer to Q

A call that nothing has answered in time is answered by T, or by the model if T is None; so is one whose answer has
neither text nor call. With N = 0, the model answers all further calls, and those that wait.

As an input, an answer is durable before the agent sees it, and a replay applies it at its place. While a person is
awaited, a helper actor performs an effect of the kind `answer`, as for approvals: its latency is measured, which lets
simulated time follow real time, and it is in flight, so the run neither ends nor counts as deadlocked. The agent waits
for the question and not for the effect. The time limit is simulated, so it is the same in a replay.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import attrs

from sim.actors.inputs import ANSWER
from sim.base.errors import Cancelled
from sim.host.person import await_person
from sim.kernel import Actor, Effect, Latch, Timer, perform
from sim.kernel.codec import Json, JsonObject, decode, encode
from sim.kernel.duration import MAX_NS
from sim.llm.answers import check_answer
from sim.llm.types import Answer, Attempt, ChatMessage, Completion, ModelError, ModelRequest, TokenUsage, ToolCall
from sim.world import World

PERSON: Final = "person"
"""The provider of an answer by a person, and its model, unless that is `OTHERWISE`."""

OTHERWISE: Final = "otherwise"
"""The model of the text that a person has given for calls that no person answers in time."""

ENDINGS: Final = ("answered", "late", "unfit", "left", "stopped", "refused")
"""What `People.ended` counts."""

_NO_TIMEOUT: Final = 1e8  # real seconds, three years: the question has its own limit, in simulated time
_SHOWN: Final = 4_000  # characters of a request that a person is shown, the last ones


@attrs.frozen
class Place:
    """How a person answers for an agent.

    Attributes:
        within_ns: for how many simulated nanoseconds each call waits for a person.
        otherwise: the answer after that; None: the model answers.
    """

    within_ns: int
    otherwise: str | None


@attrs.define(eq=False)
class Question:
    """A call that waits for a person.

    Attributes:
        id: its name, such as `question-1`, unique in its run.
        agent: the agent that calls.
        request: what it asks.
        until_ns: when the time of the person is over, in simulated nanoseconds.
        answered: is set with the completion; with None, the model answers.
    """

    id: str
    agent: str
    request: ModelRequest
    until_ns: int
    answered: Latch
    limit: Timer | None = None
    helper: Actor | None = None

    def to_json(self) -> dict[str, Json]:
        """Return what a person needs to answer, JSON-like."""
        request = self.request
        text = "\n\n".join(_shown(message) for message in request.messages if message.content or message.tool_calls)
        before = len(text) - _SHOWN
        return {
            "question": self.id, "agent": self.agent,
            "text": text if before <= 0 else f"... {before:,} characters before this ...\n{text[before:]}",
            "tools": [
                {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
                for tool in request.tools
            ],
            "choice": request.tool_choice,
            "format": _first(request.response_format, request.preferred_format),
            "until": self.until_ns / 10**9,
        }  # fmt: skip

    def to_record(self, within_ns: int) -> dict[str, Json]:
        """Return what is on record of it: what a person is shown, with the time limit as it was set.

        The format is text, as the views of a record do not look into the parts of a long schema.
        """
        shown = self.to_json()
        form = shown["format"]
        return {
            **{name: shown[name] for name in ("question", "agent", "text", "tools", "choice")},
            "format": None if form is None else encode(form).decode(), "within_ns": within_ns,
        }  # fmt: skip


def _first(*formats: JsonObject | None) -> Any:
    return next((decode(encode(one)) for one in formats if one is not None), None)


def _shown(message: ChatMessage) -> str:
    """Return a message as a person reads it, with the calls of tools that a model has made in it."""
    calls = [f"calls {call.name} {call.arguments}" for call in message.tool_calls]
    return f"{message.role}: " + "\n".join([message.content, *calls] if message.content else calls)


class People:
    """The agents for whom people answer, and their open questions.

    Args:
        world: the world of the run.

    Attributes:
        ended: how many questions ended in which way: `answered` by a person; `late`, not answered in time; `unfit`, not
            answered in time, and the agent could not take the text that was given for that; `left` to the model;
            `stopped`, because the agent was. Also how many inputs were `refused`; no question ends with that.
        places: how a person answers, by agent.
        questions: the calls that wait, by id, in order.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._kernel = world.kernel
        self._asked = 0
        self.ended: Counter[str] = Counter()
        self.places: dict[str, Place] = {}
        self.questions: dict[str, Question] = {}
        world.on_input(ANSWER, self.take)

    async def answer(self, agent: str, request: ModelRequest) -> Answer | None:
        """Wait for the answer of a person to a call; None: the model answers.

        Args:
            agent: the agent that calls, one of `places`.
            request: its request, for words: a person gives no embeddings.
        """
        question = self._ask(agent, request, self.places[agent])
        try:
            completion: Completion | None = await question.answered.wait()
        except (Cancelled, Exception):  # the agent was stopped; not GeneratorExit, which must not record anything
            self._end(question, "stopped")
            raise
        if completion is None:
            return None
        return Answer(completion, (Attempt(PERSON, completion.model, "ok", None, usage=completion.usage),))

    def _ask(self, agent: str, request: ModelRequest, place: Place) -> Question:
        kernel = self._kernel
        self._asked += 1
        until_ns = min(MAX_NS, kernel.now + place.within_ns)
        question = Question(f"question-{self._asked}", agent, request, until_ns, Latch(kernel))
        self.questions[question.id] = question
        question.limit = kernel.call_at(until_ns, lambda: self._late(question, place.otherwise))
        effect = Effect(
            ANSWER,
            question.to_record(place.within_ns),
            await_person,
            deadline_ns=min(MAX_NS, until_ns - kernel.now + 1),  # the limit of the question comes first
            timeout=_NO_TIMEOUT,
            safety="idempotent",
        )
        question.helper = kernel.spawn(question.id, _perform(effect))
        kernel.recorder.flush()  # so that the person can read what led to it
        return question

    def take(self, data: Any) -> str | None:
        """Apply the input, and return why it is refused; None if it is not."""
        refused = self._take(data)
        self.ended["refused"] += refused is not None
        return refused

    def _take(self, data: Any) -> str | None:
        match data:
            case {"agent": str(agent), "within_ns": int(within), "otherwise": None | str() as otherwise} if (
                within.__class__ is int
            ):
                return self._place(agent, within, otherwise)
            case {"question": str(id), "text": str(text), "call": None | dict() as call}:
                question = self.questions.get(id)
                if question is None:
                    past = id in {f"question-{number + 1}" for number in range(self._asked)}
                    return f"{id:.80} does not wait for an answer any more" if past else f"there is no call {id!r:.80}"
                return self._answer(question, text, call)
            case _:
                return "an answer needs a question and a text, or an agent and a time"

    def _place(self, agent: str, within_ns: int, otherwise: str | None) -> str | None:
        if not 0 <= within_ns <= MAX_NS:
            return "the time for an answer is a whole number of nanoseconds from 0"
        if agent not in self._world.agents:
            return f"there is no agent {agent!r:.80} to answer for"
        if within_ns:
            self.places[agent] = Place(within_ns, otherwise)
            return None
        self.places.pop(agent, None)
        for question in list(self.questions.values()):
            if question.agent == agent:
                self._end(question, "left")
        return None

    def _answer(self, question: Question, text: str, call: JsonObject | None) -> str | None:
        """Answer a call, and return why the agent could not take the answer; None if it can."""
        if not text and call is None:
            self._end(question, "left")
            return None
        try:
            completion = _completion(question, text, call)
        except ModelError as error:
            return str(error)
        self._end(question, "answered", completion)
        return None

    def _late(self, question: Question, otherwise: str | None) -> None:
        """End a question that no person has answered in time: with a text, or with None for the model."""
        if otherwise is None:
            self._end(question, "late")
            return
        try:
            completion = _completion(question, otherwise, None, OTHERWISE)
        except ModelError:  # the agent could not take it
            self._end(question, "unfit")
        else:
            self._end(question, "late", completion)

    def _end(self, question: Question, how: str, completion: Completion | None = None) -> None:
        """End a question, count how, and let the agent continue: with an answer, or with None for the model."""
        if self.questions.pop(question.id, None) is None:
            return
        self.ended[how] += 1
        if question.limit is not None:
            question.limit.cancel()
        if question.helper is not None and question.helper.coro is not None:
            self._kernel.cancel(question.helper)
        question.answered.set(completion)

    def summary(self) -> dict[str, int]:
        """Return how many questions there were, and how they ended; empty if no person was ever asked."""
        if not self._asked:
            return {}
        return {"asked": self._asked, **{how: self.ended[how] for how in ENDINGS}}

    def state(self) -> Any:
        """Return what belongs to the state of the run, for its final digest; None if no person ever answered."""
        if not (self.places or self._asked):
            return None
        places = {agent: attrs.asdict(self.places[agent]) for agent in sorted(self.places)}
        return {"asked": self._asked, "places": places}


def _completion(question: Question, text: str, call: JsonObject | None, model: str = PERSON) -> Completion:
    """Return the words of a person, as they are, as the answer of a model of this name.

    Raises:
        ModelError: if the agent could not take it.
    """
    request = question.request
    calls: tuple[ToolCall, ...] = ()
    if call is not None:
        name, args = call.get("tool"), call.get("args")
        if name not in [tool.name for tool in request.tools]:
            raise ModelError("bad_request", f"the agent offers no tool {name!r:.60}")
        if not isinstance(args, Mapping):
            raise ModelError("bad_request", "the arguments of a tool are an object of JSON")
        calls = (ToolCall(question.id, str(name), encode(args).decode()),)
    completion = Completion(text, calls, "tool_use" if calls else "end_turn", TokenUsage(0, 0), model)
    if (why := check_answer(completion, request)) is not None:
        raise ModelError("bad_request", why)
    return completion


async def _perform(effect: Effect) -> None:
    await perform(effect)
