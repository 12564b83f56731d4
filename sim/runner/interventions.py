"""The interventions of a scenario: what is done to a run from outside at given times.

Each is a step of the run with a source of its own, before everything else that is due at its time. So it takes effect
as a branch from this time would, and it takes no counter from others. What it did is an event that agents cannot see.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypedDict

import attrs

from sim.actors import Agent, AgentLoop, AgentState
from sim.base.errors import LimitError, RunError, UsageError
from sim.base.text import of_error, recordable_text
from sim.kernel import Actor, Source, Timer
from sim.kernel.actor import entry_source
from sim.kernel.codec import Json, JsonObject, freeze
from sim.runner.events import InterventionApplied, InterventionRefused
from sim.runner.scenario_timers import INTERVENTION, Timetable
from sim.scenario.assembly.build import Simulation
from sim.scenario.assembly.live_parameters import LiveParameters
from sim.scenario.overrides import Override
from sim.scenario.schema import Scenario
from sim.world import Message, Service
from sim.world.actions.messages import deliver
from sim.world.edits import EditRule, Edits
from sim.world.events import MessageRefused

if TYPE_CHECKING:
    from sim.agents.interview import Question, SurveyAnswer
    from sim.llm.types import ChatMessage
    from sim.scenario.interventions import Intervention

MOST_ANSWERS: Final = 10_000
"""The most answers of one survey: the prompts of all of them are made at one instant."""

_ENDED = (AgentState.STOPPING, AgentState.STOPPED)

_NAME: Final = "intervention"
"""The name of the source of all interventions."""

_FIRST = -1  # the priority of interventions: before everything else that is due in the round


@attrs.define
class AskedQuestion:
    """The answers to one question of a survey at one of the times when it was asked.

    Attributes:
        place: the place of the question in its survey, from 1.
        of: how many questions the survey has.
        question: the question.
        answers: how many agents were asked, and have answered or failed to.
        missing: how many of these have no answer, or none of the form that the question asks for.
        numbers: the number and the sum of numeric answers.
        chosen: how often each option was chosen.
        survey: the name of the survey.
        time_ns: when it was asked, in simulated nanoseconds.
        each: the answers one by one: the agent, its group, and the value; None: it is missing.
    """

    place: int
    of: int
    question: "Question"
    survey: str
    time_ns: int
    answers: int = 0
    missing: int = 0
    numbers: tuple[int, float] = (0, 0.0)
    chosen: Counter[str] = attrs.field(factory=Counter)
    each: list[tuple[str, str, str | float | None]] = attrs.field(factory=list)

    def add(self, answer: "SurveyAnswer", group: str) -> None:
        """Count an answer of an agent of a group."""
        self.each.append((answer.agent, group, answer.value))
        self.answers += 1
        self.missing += answer.error is not None
        if isinstance(answer.value, str):
            self.chosen[answer.value] += 1
        elif answer.value is not None:
            self.numbers = self.numbers[0] + 1, self.numbers[1] + answer.value

    def to_json(self) -> dict[str, Json]:
        """Return the answers as a JSON-like mapping; a mean or a share of no answers is None."""
        count, total = self.numbers
        valid = self.chosen.total()
        shares = {option: self.chosen[option] / valid if valid else None for option in self.question.options}
        return {
            "survey": self.survey,
            "number": self.place,
            "of": self.of,
            "question": self.question.ask,
            "answers": self.answers,
            "missing": self.missing,
            **({"mean": total / count if count else None} if self.question.scale or self.question.number else {}),
            **({"shares": shares} if shares else {}),
        }


class _Done(TypedDict, total=False):
    """What an intervention did: fields of `InterventionApplied`."""

    agents: int
    questions: int
    set: Any  # frozen
    topic: str


class Interventions(Service):
    """Carries out the interventions of one run.

    Args:
        simulation: the world and its agents.
        live: its live parameters.

    Attributes:
        asked: the questions of all surveys so far, once for each time when they were asked, with their answers.
    """

    name: ClassVar[str] = "interventions"

    def __init__(self, simulation: Simulation, live: LiveParameters) -> None:
        self._world = simulation.world
        self._kernel = simulation.world.kernel
        self._manager = simulation.manager
        self._scenario = simulation.scenario
        self._live = live
        self._sources: dict[int, Source] = {}  # by place in the list
        self._counts = {"applied": 0, "refused": 0, "answers": 0}
        self._ends: dict[str, int] = {}  # agent → when the pause ends that an intervention began last
        self.asked: list[AskedQuestion] = []
        self._asked: dict[Actor, None] = {}  # who waits for the answers of the last surveys
        self._surveys: dict[tuple[str, int], AskedQuestion] = {}  # by survey and place of the question
        self._timetable: Timetable[Intervention] = Timetable(self._world, self._at, self._carry_out)

    def start(self) -> None:
        """Set the first timers."""
        self._enter(self._scenario)
        self._timetable.start(self._scenario.interventions)

    def change(self, scenario: Scenario, after: int) -> None:
        """Take the interventions from `scenario`; see `ScenarioTimers.change`."""
        self._enter(scenario)
        self._timetable.replace(scenario.interventions, after)

    def carry_out_end(self) -> Collection[Actor]:
        """Carry out what is due at the end of the run. Return the actors that wait for the answers of its surveys."""
        for place, entry in enumerate(self._scenario.interventions):
            if entry.at == "end":
                with self._kernel.acting_as(self._source(place)):
                    self._carry_out(place, entry)
        return self._asked.keys()

    def surveys(self) -> list[dict[str, Json]]:
        """Return the answers to each question of each survey, of the last time when it was asked.

        Returns:
            JSON-like mappings: `survey`, `number` of the question, `of` how many, `question`, `answers`, `missing`; the
            `mean` of numbers; the `shares` of options.
        """
        return [asked.to_json() for asked in self._surveys.values()]

    @property
    def harmless(self) -> list[Timer]:
        """The timers of the next surveys, which change no agent."""
        entries = self._scenario.interventions
        return [timer for place, timer in self._timetable.pending.items() if entries[place].survey is not None]

    def metrics(self) -> Mapping[str, float]:
        """See `Service.metrics`."""
        return self._counts

    def summary(self) -> JsonObject:
        """See `Service.summary`."""
        return dict(self._counts) if any(self._counts.values()) else {}

    def _enter(self, scenario: Scenario) -> None:
        """Add the service to the world once it has something to do."""
        self._scenario = scenario
        if scenario.interventions and self.name not in self._world.services:
            self._world.add_service(self)

    def _at(self, place: int, time: int, callback: Any) -> Timer:
        return self._kernel.call_at(max(time, self._kernel.now), callback, self._source(place), priority=_FIRST)

    def _source(self, place: int) -> Source:
        source = self._sources.get(place)
        if source is None:
            source = self._sources[place] = entry_source(_NAME, INTERVENTION, place)
        return source

    # -- what happens

    def _carry_out(self, place: int, intervention: "Intervention") -> None:
        """Carry out an intervention, and record what it did, or why it was not possible."""
        verb, name = intervention.verb, intervention.name or f"interventions[{place}]"
        try:
            done = _VERBS[verb](self, place, name, intervention)
        except (UsageError, LimitError) as error:
            self._counts["refused"] += 1
            reason = recordable_text(str(error))[:2000]
            self._kernel.report(InterventionRefused(does=verb, name=name, reason=reason))
        else:
            self._counts["applied"] += 1
            self._kernel.report(InterventionApplied(does=verb, name=name, **done))

    def _chosen(self, place: int, intervention: "Intervention") -> list[Agent]:
        """Return the agents that an intervention concerns."""
        where = intervention.where
        if where is None:
            return self._live.select(intervention.chosen)
        whom = ", ".join(sorted(intervention.chosen))
        label = intervention.name or f"{intervention.verb} {whom}: {where.text}"
        draws = self._kernel.streams.draws("intervention", label).moment(self._kernel.now)  # others if it repeats now
        return self._live.select(intervention.chosen, where, draws.getrandbits(64))

    def _set(self, place: int, name: str, intervention: "Intervention") -> _Done:
        values: JsonObject = intervention.set or {}
        among = {agent.agent_id for agent in self._chosen(place, intervention)} if intervention.selects else None
        overrides = [Override.of(key, value, within=f"{name}.set.") for key, value in values.items()]
        agents = self._live.change(overrides, among, first=True)
        return {"set": freeze(values), "agents": agents}

    def _publish(self, place: int, name: str, intervention: "Intervention") -> _Done:
        assert intervention.publish is not None, "the table of verbs says so"
        self._world.event_bus.publish(intervention.publish.topic, intervention.publish.data)
        return {"topic": intervention.publish.topic}

    def _send(self, place: int, name: str, intervention: "Intervention") -> _Done:
        send = intervention.send
        assert send is not None, "the table of verbs says so"
        raw, sent = freeze(send.data), 0
        for agent in self._chosen(place, intervention):
            if not agent.alive:
                continue
            message = Message(_NAME, agent.agent_id, send.topic, raw, self._kernel.now)
            why = deliver(self._world, message)
            if why is not None:
                self._kernel.report(MessageRefused(reason=why, to=agent.agent_id, topic=send.topic))
            sent += why is None
        return {"topic": send.topic, "agents": sent}

    def _pause(self, place: int, name: str, intervention: "Intervention") -> _Done:
        assert intervention.pause is not None, "the table of verbs says so"
        span = intervention.pause.for_
        paused = [loop for loop in self._loops(place, intervention) if loop.state not in _ENDED]
        for loop in paused:
            self._ends.pop(loop.agent_id, None)
            loop.pause()
        if span is not None:
            until = self._kernel.now + span
            self._ends.update((loop.agent_id, until) for loop in paused)
            self._at(place, until, partial(self._resume_at, until, [loop.agent_id for loop in paused]))
        return {"agents": len(paused)}

    def _resume_at(self, until: int, agents: Sequence[str]) -> None:
        """End the pauses that end now, except those that have ended or were prolonged."""
        for agent_id in agents:
            if self._ends.get(agent_id) == until:
                del self._ends[agent_id]
                loop = self._manager.get_loop(agent_id)
                if loop is not None:
                    loop.end_pause()

    def _resume(self, place: int, name: str, intervention: "Intervention") -> _Done:
        resumed = 0
        for loop in self._loops(place, intervention):
            self._ends.pop(loop.agent_id, None)
            resumed += loop.end_pause()
        return {"agents": resumed}

    def _loops(self, place: int, intervention: "Intervention") -> list[AgentLoop]:
        return [agent.loop for agent in self._chosen(place, intervention)]

    def _edit(self, place: int, name: str, intervention: "Intervention") -> _Done:
        """Leave out messages or events from now on, or give them other data."""
        catching = intervention.catching
        assert catching is not None, "the table of verbs says so"
        topic = catching.event if catching.message is None else catching.message
        assert topic is not None, "one of the two is given"
        Edits.on(self._world).follow(
            EditRule(
                kind="event" if catching.message is None else "message",
                topic=topic,
                senders=self._ids(catching.from_),
                receivers=self._ids(catching.to),
                left=catching.count,
                until_ns=None if catching.for_ is None else self._kernel.now + catching.for_,
                replaced=None if intervention.replace is None else freeze(intervention.replace.data),
            )
        )
        return {"topic": topic}

    def _ids(self, names: tuple[str, ...] | None) -> frozenset[str] | None:
        return frozenset(agent.agent_id for agent in self._live.select(names)) if names else None

    # -- surveys

    def _survey(self, place: int, name: str, intervention: "Intervention") -> _Done:
        """Have all questions asked, with what the agents know now."""
        assert intervention.survey is not None, "the table of verbs says so"
        questions = intervention.survey.questions
        agents = [agent for agent in self._chosen(place, intervention) if agent.alive]
        if len(agents) * len(questions) > MOST_ANSWERS:
            raise UsageError(
                f"{len(agents)} agents and {len(questions)} questions are more than {MOST_ANSWERS} answers",
                hint="ask fewer of them, with agents or where",
            )
        all_asked = [
            AskedQuestion(number, len(questions), question, name, self._kernel.now)
            for number, question in enumerate(questions, 1)
        ]
        self.asked += all_asked
        self._surveys |= {(name, asked.place): asked for asked in all_asked}
        for agent in agents:
            for asked in all_asked:  # an actor for each, so that real models are asked all at once
                messages = self._prompt(name, agent, asked)
                if messages is None:
                    continue
                asking = self._kernel.spawn(f"survey:{agent.agent_id}", self._ask(name, agent, asked, messages))
                if intervention.at == "end":
                    self._asked[asking] = None
        return {"agents": len(agents), "questions": len(questions)}

    def _prompt(self, name: str, agent: Agent, asked: AskedQuestion) -> "Sequence[ChatMessage] | None":
        """Return the prompt for an answer; None if the agent cannot say what it is, which is recorded."""
        from sim.agents.interview import SurveyAnswer, interview_prompt  # the import is slow

        try:
            return interview_prompt(self._world, agent, asked.question)
        except (MemoryError, RunError):
            raise  # these concern the process or the run, not the agent
        except Exception as error:  # whatever `about` of a class raises
            failed = SurveyAnswer(agent.agent_id, asked.question.ask, None, error=of_error(error))
            self._note(name, agent, asked, failed)
            return None

    async def _ask(self, name: str, agent: Agent, asked: AskedQuestion, messages: "Sequence[ChatMessage]") -> None:
        from sim.agents.interview import SurveyAnswer, interview  # the import is slow

        try:
            answer = await interview(self._world, agent, asked.question, messages)
        except (MemoryError, RunError):
            raise  # these concern the process or the run, not the answer
        except Exception as error:  # whatever a provider raises: the other answers must not be lost
            answer = SurveyAnswer(agent.agent_id, asked.question.ask, None, error=of_error(error))
        self._counts["answers"] += answer.answer is not None
        self._note(name, agent, asked, answer)

    def _note(self, name: str, agent: Agent, asked: AskedQuestion, answer: "SurveyAnswer") -> None:
        from sim.agents.interview import record_answer  # the import is slow

        asked.add(answer, agent.group)
        record_answer(self._world, name, answer)


_VERBS: Final = {
    "set": Interventions._set,
    "publish": Interventions._publish,
    "send": Interventions._send,
    "pause": Interventions._pause,
    "resume": Interventions._resume,
    "survey": Interventions._survey,
    "suppress": Interventions._edit,
    "replace": Interventions._edit,
}
