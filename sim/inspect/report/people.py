"""A row and a history for each agent."""

from collections import deque
from collections.abc import Mapping
from itertools import chain
from typing import Any

import attrs

from sim.events.coerce import whole
from sim.events.event_text import event_text
from sim.kernel.codec import encode
from sim.kernel.rows import RecordedEvent

MAX_ROWS = 2000
"""The most agents with a row. If there are more, those with errors come first, then the most active."""

_LINES = 40_000
"""The most lines of all histories together."""

_FIRST, _LAST = 40, 80
"""The most lines of the beginning and of the end of each history."""

_LONGEST_STATE = 2000


@attrs.define
class Person:
    """The collected data of one agent."""

    done: int = 0
    refused: int = 0
    events: int = 0
    calls: int = 0
    cost_micro: int = 0
    first: list[RecordedEvent] = attrs.field(factory=list)
    last: deque[RecordedEvent] = attrs.field(factory=lambda: deque(maxlen=_LAST))

    def tell(self, row: RecordedEvent) -> None:
        """Add an event to the history."""
        self.events += 1
        (self.first if len(self.first) < _FIRST else self.last).append(row)


class People:
    """Collects the events of each agent and the messages to it."""

    def __init__(self) -> None:
        self.known: dict[str, Person] = {}

    def add(self, row: RecordedEvent, data: Mapping[str, Any], *, agent: bool) -> None:
        """Add an event.

        Args:
            row: the event.
            data: its data.
            agent: whether its source is an agent; the scenario and the health monitor have no history.
        """
        if not agent:
            return
        topic = row.topic
        person = self.known.get(row.actor)
        if person is None:
            person = self.known[row.actor] = Person()
        if topic == "message.sent":
            receiver = self.known.get(str(data.get("to")))
            if receiver is not None and receiver is not person:
                receiver.tell(row)
        elif topic.startswith("action."):
            if data.get("success"):
                person.done += 1
            else:
                person.refused += 1
        elif topic == "model.call":
            person.calls += 1
            person.cost_micro += whole(data.get("cost_micro"))
        person.tell(row)

    def chosen(self, errors: Mapping[str, int]) -> list[str]:
        """Return the agents with a row, in order of their first event."""
        if len(self.known) <= MAX_ROWS:
            return list(self.known)
        worst = sorted(self.known, key=lambda name: (-errors.get(name, 0), -self.known[name].events))
        kept = set(worst[:MAX_ROWS])
        return [name for name in self.known if name in kept]

    def story(self, name: str, shown: int) -> dict[str, Any]:
        """Return the history of an agent: lines of its beginning and its end, and the total number.

        Args:
            name: the name of the agent.
            shown: the number of agents that share the lines.
        """
        person = self.known[name]
        room = max(8, _LINES // max(1, shown))
        first = person.first[: min(_FIRST, room)]
        rest = [*person.first[len(first) :], *person.last]
        last = rest[-min(_LAST, room - len(first)) :] if room > len(first) else []
        return {
            "lines": [
                [row.time_ns / 1e9, " ".join(part for part in event_text(row.topic, row.data, name) if part)]
                for row in chain(first, last)
            ],
            "gap": len(first) if person.events > len(first) + len(last) else None,  # index of the first omitted line
            "total": person.events,
        }


def state_text(state: Any) -> str:
    """Return the state variables of an agent as JSON text, cut off if long."""
    text = encode(state).decode()
    return text if len(text) <= _LONGEST_STATE else f"{text[:_LONGEST_STATE]}..."
