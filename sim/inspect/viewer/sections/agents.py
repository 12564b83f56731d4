"""A row for each agent: what it did, how often it failed, what it has, and its states over time."""

from typing import Final

import attrs

from sim.events.coerce import figure, mapping, whole
from sim.inspect.viewer.section import Data, Event, Folds, Json, Section
from sim.inspect.viewer.sections.errors import Errors
from sim.inspect.viewer.sections.graph import Graph
from sim.inspect.viewer.sections.states import States
from sim.kernel.codec import encode
from sim.llm.events import ModelCalled
from sim.resources import MICRO
from sim.world.events import ActionTaken, MessageSent

MAX_ROWS: Final = 2000
"""The most agents with a row. If there are more, those with errors come first, then the most active."""

_LONGEST_STATE: Final = 2000


@attrs.define
class Person:
    """What one agent did: actions done and refused, events, calls of models, and what they cost."""

    done: int = 0
    refused: int = 0
    events: int = 0
    calls: int = 0
    cost_micro: int = 0


class Agents(Section):
    """Counts what each agent did.

    Attributes:
        known: what each agent did, by name, in the order of their first events.
    """

    title = "Agents"
    place = 160
    topics = ("**",)

    def __init__(self, folds: Folds) -> None:
        super().__init__(folds)
        self.people: dict[str, Person] = {}
        self._lanes = folds.of(States).times.swimlanes
        self._errors, self._graph = folds.of(Errors), folds.of(Graph)

    def add(self, event: Event, data: Data) -> None:
        """Count an event. The scenario and the health monitor are no agents, because they have no state."""
        person = self.people.get(event.actor)
        if person is None:
            if event.actor not in self._lanes:
                return
            person = self.people[event.actor] = Person()
        person.events += 1
        if isinstance(data, ActionTaken):
            person.done += data.success
            person.refused += not data.success
        elif isinstance(data, MessageSent):
            receiver = self.people.get(data.to)
            if receiver is not None and receiver is not person:
                receiver.events += 1
        elif isinstance(data, ModelCalled):
            person.calls += 1
            person.cost_micro += whole(data.cost_micro)

    @property
    def wakeups(self) -> int:
        """How often agents woke up."""
        return sum(lane.wakeups for lane in self._lanes.values())

    def to_json(self) -> Json:
        """Return the rows; None if there are no agents."""
        if not self.people:
            return None
        digest = mapping(self.folds.stored.info.digest)
        agents, balances = mapping(digest.get("agents")), mapping(mapping(digest.get("ledger")).get("balances"))
        rows = [self._row(name, mapping(agents.get(name)).get("state"), balances.get(name)) for name in self._chosen()]
        models = any(person.calls for person in self.people.values())
        return {"rows": rows, "total": len(self.people), "models": models}

    def _chosen(self) -> list[str]:
        """Return the agents with a row, in order of their first event."""
        if len(self.people) <= MAX_ROWS:
            return list(self.people)
        errors = self._errors.by_agent
        worst = sorted(self.people, key=lambda name: (-errors.get(name, 0), -self.people[name].events))
        kept = set(worst[:MAX_ROWS])
        return [name for name in self.people if name in kept]

    def _row(self, name: str, state: Json, balance: Json) -> dict[str, Json]:
        person, lane, messages, micro = self.people[name], self._lanes[name], self._graph.messages, figure(balance)
        return {
            "name": name,
            "group": self.folds.groups.of(name),
            "state": lane.final,
            "done": person.done,
            "refused": person.refused,
            "errors": self._errors.by_agent.get(name, 0),
            "wakeups": lane.wakeups,
            "sent": messages.sent[name],
            "received": messages.received[name],
            "cost": person.cost_micro / MICRO,
            "balance": None if micro is None else micro / MICRO,
            "lane": lane.signs.decode(),
            "has": None if state is None else _state_text(state),
        }


def _state_text(state: Json) -> str:
    """Return the state variables of an agent as JSON text, cut off if long."""
    text = encode(state).decode()
    return text if len(text) <= _LONGEST_STATE else f"{text[:_LONGEST_STATE]}..."
