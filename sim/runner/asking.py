"""`ask`: questions to the agents of a recorded run, at one of its moments (edge).

The run is replayed up to the moment, and the questions are asked there, in a branch of which nothing is kept. So the
run and its agents do not change, and they can be asked about any moment, as often as one likes.
"""

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from sim.actors import Agent
from sim.agents.interview import USE, Question, SurveyAnswer, interview, interview_prompt
from sim.base.errors import RunError, UsageError
from sim.base.expressions import did_you_mean
from sim.base.text import of_error, plain
from sim.kernel import to_ns, to_seconds, to_text
from sim.kernel.duration import seconds_text
from sim.kernel.effects import EffectHandle
from sim.kernel.levels import level_of
from sim.llm.service import Models
from sim.llm.shared_answers import SharedAnswers
from sim.llm.types import ChatMessage, ModelRequest
from sim.record import HashRecorder
from sim.record.answer_book import ANSWERS, AnswerBook
from sim.record.frames import Frame, Library, frame
from sim.record.history import RunHistory
from sim.record.reader import StoredRun, open_run, run_folder
from sim.record.verifying_recorder import VerifyingRecorder
from sim.runner.branching import end_of
from sim.runner.engine import execute
from sim.runner.event_loop import in_definitions, in_plain_code
from sim.runner.options import AskOptions, ReplayOptions, taking
from sim.runner.rebuild import RecordedSpec, check_endpoint, check_not_running
from sim.runner.result import SurveyCost
from sim.runner.runner import RunController
from sim.runner.spec import Kept

if TYPE_CHECKING:
    from sim.base.pages import Table

Prompt = tuple[Agent, Question, tuple[ChatMessage, ...]]
"""An agent, a question to it, and what the model is asked in its place."""

MOST_ANSWERS: Final = 100_000
_CONCURRENT: Final = 256  # questions that are under way at the same time


@attrs.frozen(repr=False)
class Survey:
    """The answers of the agents of a run at one moment.

    Attributes:
        run: the folder of the run.
        seconds: the moment, in simulated seconds.
        cost: what it could have cost; it was shown before.
        answers: the answers, agent by agent; empty if `confirm` refused.
        reused: how many requests had been answered in an earlier survey of this run.
    """

    run: str
    seconds: float
    cost: SurveyCost
    answers: tuple[SurveyAnswer, ...]
    reused: int = 0

    def frame(self, *, as_: Library | None = None) -> Frame:
        """Return a row for each answer as a DataFrame; `as_` is as in `Run.frame`."""
        columns = [field.name for field in attrs.fields(SurveyAnswer)]
        rows = [(self.seconds, *attrs.astuple(answer)) for answer in self.answers]
        return frame((["time", *columns], rows), as_, expand=False)

    def _table(self) -> "Table":
        from sim.base.pages import Table  # a run needs no page

        answers = [(one.agent, one.question, one.answer if one.error is None else one.error) for one in self.answers]
        return Table(("agent", "question", "answer"), answers)

    def __repr__(self) -> str:
        when = f"{self.cost.agents} agents of {Path(self.run).name} at {seconds_text(self.seconds)}"
        return plain(when) + "\n" + self._table().text() if self.answers else f"<no answers of {plain(when)}>"

    def _repr_html_(self) -> str:
        return self._table().html()


@taking(AskOptions)
@in_definitions
async def ask_async(run: str | PathLike[str], questions: Sequence[Question | str], options: AskOptions) -> Survey:
    """Ask agents of a recorded run questions, as they are at one moment; see `sim.agents.interview`.

    The run is not changed. Answers of models at an endpoint are kept in the run folder (`answers.db`), so that a survey
    that was interrupted, or is repeated, pays for no answer twice.

    Args:
        run: the run: its folder, or its name in the folder `runs`.
        questions: the questions.
        options: see `AskOptions`.

    Raises:
        UsageError: if the record ends before, an agent does not exist, the scenario has no language models, or answers
            are to come in batches.
        RunError: if the run cannot be replayed.
    """
    asked = tuple(one if isinstance(one, Question) else Question(one) for one in questions)
    if not asked:
        raise UsageError("there are no questions", hint='for example: sim ask RUN "How are you?"')
    if options.access is not None and options.access.batching:
        raise UsageError("questions to agents are answered online, not in batches", hint="leave --batch out")
    if len({one.ask for one in asked}) < len(asked):
        raise UsageError("a question is asked twice", hint="word it differently, to separate its answers")
    with open_run(run_folder(run)) as stored:
        check_not_running(stored)
        end = end_of(stored)
        at_ns = end if options.at is None else to_ns(options.at)
        if at_ns > end:
            raise UsageError(f"the record of {run} ends at {to_text(end)}, before {to_text(at_ns)}")
        check_endpoint(stored, options, options.models)
        survey = _Survey(stored, at_ns, asked, options.agents, options.confirm)
        return await survey.carry_out(options, options.models)


ask = in_plain_code(ask_async)


@attrs.define
class _Survey:
    """One survey under way."""

    stored: StoredRun
    at_ns: int
    questions: tuple[Question, ...]
    names: tuple[str, ...]
    confirm: Callable[[SurveyCost], bool] | None
    cost: SurveyCost | None = None
    answers: list[SurveyAnswer | None] = attrs.field(factory=list)
    failure: Exception | None = None

    async def carry_out(self, again: ReplayOptions, models: tuple[str, ...]) -> Survey:
        rebuilt = RecordedSpec.from_record(self.stored, again, checked=True)
        rebuilt.check_moment(self.stored.path, self.at_ns)
        if models:
            rebuilt.check_models(models)
        await rebuilt.prepare()
        service = Models.of(rebuilt.simulation.world)
        history = RunHistory(self.stored, max(1, self.at_ns), hold_all=True)  # at time 0, agents begin
        keeper = VerifyingRecorder(
            history, rebuilt.pause, HashRecorder(level=level_of(self.stored.info.options)), copy=True
        )
        with AnswerBook(self.stored.path / ANSWERS) as book:
            service.shared = SharedAnswers(book, "survey")
            await execute(rebuilt, again, Kept(keeper), past=history, then=partial(self._begin, rebuilt, models))
        if self.failure is not None:
            raise self.failure
        if self.cost is None:
            raise RunError(f"the replay of {self.stored.path} has not reached {to_text(self.at_ns)}")
        answers = tuple(one for one in self.answers if one is not None)
        return Survey(
            str(self.stored.path), to_seconds(self.at_ns - (self.at_ns == 1)), self.cost, answers, service.counts.reused
        )

    def _begin(
        self, rebuilt: RecordedSpec, models: tuple[str, ...], runner: RunController, _: list[EffectHandle]
    ) -> bool:
        """Have the questions asked when the replay has reached its moment; return whether there is anything to ask."""
        if models:
            rebuilt.change_models_to(models)
        try:
            prompts = self._prompts(runner)
        except UsageError as error:
            self.failure = error
            return False
        assert self.cost is not None, "it is known with the prompts"
        if not prompts or (self.confirm is not None and not self.confirm(self.cost)):
            return False
        self._ask(runner, prompts)
        return True

    def _ask(self, runner: RunController, prompts: Sequence[Prompt]) -> None:
        """Start the actors that ask; the last one ends the run."""
        world, kernel = runner.simulation.world, runner.simulation.world.kernel
        world.on_hold = True  # no simulated time passes, so no agent does anything
        self.answers = [None] * len(prompts)
        waiting = iter(enumerate(prompts))
        left = min(_CONCURRENT, len(prompts))

        async def ask_some() -> None:
            for index, (agent, question, messages) in waiting:
                self.answers[index] = await _asked(world, agent, question, messages)

        def ended(*_: object) -> None:
            nonlocal left
            left -= 1
            if not left:
                kernel.halt()

        with kernel.acting_as(kernel.supervisor):
            for number in range(left):
                kernel.spawn(f"survey:{number}", ask_some(), on_exit=ended)

    def _prompts(self, runner: RunController) -> list[Prompt]:
        world = runner.simulation.world
        respondents = self._respondents(runner)
        if (count := len(respondents) * len(self.questions)) > MOST_ANSWERS:
            raise UsageError(f"{count:,} answers are more than {MOST_ANSWERS:,}", hint="ask fewer agents")
        prompts = [(agent, one, interview_prompt(world, agent, one)) for agent in respondents for one in self.questions]
        models = Models.of(world)
        plans = [models.plan(agent, ModelRequest(messages, use=USE)) for agent, _, messages in prompts]
        self.cost = SurveyCost(
            len(respondents),
            len(self.questions),
            sum(plan.input_tokens for plan in plans),
            sum(plan.cost_micro for plan in plans) / 1e6,
            any(plan.outside for plan in plans),
        )
        return prompts

    def _respondents(self, runner: RunController) -> list[Agent]:
        """Return the agents that are asked.

        Raises:
            UsageError: if a name is not that of an agent, an entry or a group.
        """
        respondents: dict[str, Agent] = {}
        for name in self.names or (None,):
            chosen = runner.live.select([] if name is None else [name])
            if name is not None and not chosen:
                names = [*runner.simulation.world.agents, *(entry.name for entry in runner.simulation.scenario.agents)]
                raise UsageError(f"there is no agent {name!r:.60} at that time", hint=did_you_mean(name, names))
            respondents |= {agent.agent_id: agent for agent in chosen if agent.alive}
        return list(respondents.values())


async def _asked(world: Any, agent: Agent, question: Question, messages: tuple[ChatMessage, ...]) -> SurveyAnswer:
    try:
        return await interview(world, agent, question, messages)
    except (MemoryError, RunError):
        raise  # these concern the process, not the answer
    except Exception as error:  # whatever a provider raises: the other answers must not be lost
        return SurveyAnswer(agent.agent_id, question.ask, None, error=of_error(error))
