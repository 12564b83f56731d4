"""A row and a story for each agent."""

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
"""Agents that get a row; of more, those with errors and then the busiest."""

_LINES = 40_000
"""Lines of all stories together."""

_FIRST, _LAST = 40, 80
"""Lines that are kept of the beginning and of the end of each story."""

_LONGEST_STATE = 2000


@attrs.define
class Person:
    """What is kept of one agent while the events go by."""

    done: int = 0
    refused: int = 0
    events: int = 0
    calls: int = 0
    cost_micro: int = 0
    first: list[RecordedEvent] = attrs.field(factory=list)
    last: deque[RecordedEvent] = attrs.field(factory=lambda: deque(maxlen=_LAST))

    def tell(self, row: RecordedEvent) -> None:
        """Take a line into the story."""
        self.events += 1
        (self.first if len(self.first) < _FIRST else self.last).append(row)


class People:
    """Keeps what each agent did and what was sent to it."""

    def __init__(self) -> None:
        self.known: dict[str, Person] = {}

    def add(self, row: RecordedEvent, data: Mapping[str, Any], *, agent: bool) -> None:
        """Take in an event.

        Args:
            row: the event.
            data: its data.
            agent: whether it is by an agent; the scenario and the monitor have no story.
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
        """Return the agents that get a row, in the order in which they came."""
        if len(self.known) <= MAX_ROWS:
            return list(self.known)
        worst = sorted(self.known, key=lambda name: (-errors.get(name, 0), -self.known[name].events))
        kept = set(worst[:MAX_ROWS])
        return [name for name in self.known if name in kept]

    def story(self, name: str, shown: int) -> dict[str, Any]:
        """Return an agent's story: lines of its beginning and its end, and how many there are in all.

        Args:
            name: of the agent.
            shown: how many agents share the lines.
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
            "gap": len(first) if person.events > len(first) + len(last) else None,  # lines are left out after so many
            "total": person.events,
        }


def state_text(state: Any) -> str:
    """Return an agent's variables as JSON text, cut if they are long."""
    text = encode(state).decode()
    return text if len(text) <= _LONGEST_STATE else f"{text[:_LONGEST_STATE]}..."
