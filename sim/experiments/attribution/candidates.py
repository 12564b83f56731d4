"""Candidates: what can be left out of a recorded run, to see whether it decided the outcome."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, Literal

import attrs

from sim.base.errors import SimError
from sim.base.text import plain
from sim.events.topic import matches
from sim.experiments.attribution.task import FutureChange
from sim.kernel import to_text
from sim.kernel.codec import encode, recordable
from sim.record.reader import StoredRun
from sim.runner.edited import MESSAGE, editable, editable_topics
from sim.runner.options import ReplayOptions
from sim.runner.plain import StepMoment
from sim.runner.rebuild import RecordedSpec
from sim.scenario import Scenario
from sim.world.edits import Edit

Kind = Literal["event", "state", "agent", "intervention"]

MOST_EVENTS: Final = 10_000
"""The most messages and published events that are candidates: those that came first."""


@attrs.frozen
class Candidate:
    """Something that can be left out.

    Attributes:
        kind: a message or published event, an initial value of a state variable, an agent, an intervention.
        name: what it is, in a few words.
        change: what leaves it out.
        moment: the moment before it.
        event: its number in the record, if it is an event.
    """

    kind: Kind
    name: str
    change: FutureChange
    moment: StepMoment
    event: int | None = None


@attrs.frozen
class EventCandidates:
    """The messages and published events of a run that are left out.

    Attributes:
        topics: the topics to which anything listened in the run, and that of messages.
        count: how many events they have.
        unheard: how many events other topics have, to which nothing listened.
    """

    topics: tuple[str, ...]
    count: int
    unheard: int

    @classmethod
    def of(cls, stored: StoredRun, patterns: Sequence[str]) -> "EventCandidates":
        """Return those of a run.

        Args:
            stored: the run.
            patterns: the patterns of topics to which anything listened; see `Futures.patterns`.
        """
        counts = editable_topics(stored)
        heard = {
            topic: count
            for topic, count in counts.items()
            if topic == MESSAGE or any(matches(pattern, topic) for pattern in patterns)
        }
        return cls(tuple(heard), sum(heard.values()), sum(counts.values()) - sum(heard.values()))

    def sentences(self) -> list[str]:
        """Return which events are no candidates, a sentence each."""
        sentences = []
        if self.unheard:
            if self.unheard == 1:
                what, topics = "1 published event was", "its topic"
            else:
                what, topics = f"{self.unheard:,} published events were", "their topics"
            sentences.append(f"{what} not left out, because nothing listened to {topics} in the run.")
        if self.count > MOST_EVENTS:
            sentences.append(
                f"Of {self.count:,} messages and published events, the first {MOST_EVENTS:,} were left out, and no"
                " later ones but those of the largest jumps."
            )
        return sentences

    def candidates(self, stored: StoredRun, numbers: Sequence[int] = ()) -> list[Candidate]:
        """Return the first of these events; only those with these numbers, if there are any."""
        return [event_candidate(edit) for edit in editable(stored, self.topics, numbers, MOST_EVENTS)]


def event_candidate(edit: Edit) -> Candidate:
    """Return the candidate of one event."""
    what = f"message {edit.topic} to {edit.to}" if edit.to is not None else f"published event {edit.topic}"
    name = plain(f"event {edit.event}: {what} at {to_text(edit.time_ns)}")
    return Candidate("event", name, FutureChange(without=(edit,)), StepMoment(edit.time_ns), edit.event)


def inputs_of(stored: StoredRun, again: ReplayOptions, scenario: Scenario, start: StepMoment) -> list[Candidate]:
    """Return the certain inputs of a run: they are no matter of chance, so no step of the run decides about them.

    They are the initial values of state variables in which an agent differs from more than half of its entry, which
    get the value of the others; all agents that there are at the start, which pause for good; and interventions.
    """
    spec = RecordedSpec.from_record(stored, again, checked=True)
    agents = spec.simulation.world.agents
    candidates: list[Candidate] = []
    for entry in scenario.agents:
        own = {name: dict(agent.state) for name, agent in agents.items() if _is_of(name, entry.name)}
        candidates += _states(own, start)
    candidates += [Candidate("agent", plain(name), FutureChange(paused=(name,)), start) for name in agents]
    if start == StepMoment(0):
        candidates += [
            Candidate("intervention", _intervention(place, one), FutureChange(dropped=(place,)), start)
            for place, one in enumerate(scenario.interventions)
        ]
    return candidates


def _is_of(agent: str, entry: str) -> bool:
    return agent == entry or (agent.startswith(f"{entry}-") and agent.removeprefix(f"{entry}-").isdecimal())


def _states(own: dict[str, dict[str, Any]], start: StepMoment) -> list[Candidate]:
    """Return the values in which agents of one entry differ from more than half of them."""
    candidates = []
    for key in dict.fromkeys(key for state in own.values() for key in state):
        try:
            texts = {name: encode(recordable(state[key], key)) for name, state in own.items() if key in state}
        except SimError:
            continue  # an object of an agent in Python
        ((usual, count),) = Counter(texts.values()).most_common(1)
        if count * 2 <= len(own):
            continue
        value = next(own[name][key] for name, text in texts.items() if text == usual)
        if isinstance(value, str) and value.startswith("="):
            continue  # as a live value, it would be an expression
        candidates += [
            Candidate(
                "state",
                plain(f"{name}.{key} = {text.decode()[:60]} at the start (others: {usual.decode()[:60]})"),
                FutureChange(values=((f"agents.{name}.state.{key}", value),)),
                start,
            )
            for name, text in texts.items()
            if text != usual
        ]
    return candidates


def _intervention(place: int, entry: Any) -> str:
    return plain(entry.name or f"interventions[{place}]")
