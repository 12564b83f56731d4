"""The latest actions and messages of each agent, for interviews.

A world does not keep what its agents did: the record does, and nothing in the core reads the record. This service keeps
the last few events of each agent. It only listens, so a run is the same with it and without it.
"""

from collections import deque
from typing import Any, ClassVar, Final, Self, cast

from sim.events.event_text import event_text
from sim.kernel import Recorder, to_text
from sim.kernel.codec import Raw
from sim.kernel.rows import EventRow
from sim.world import Service, World
from sim.world.events import MessageSent

MOST: Final = 20
"""The most events that are kept of an agent."""

_LARGE = 2000  # bytes of data above which an event is large
_MOST_LARGE = 16 * 2**20  # bytes of data of the latest large events of all agents; of older ones, the text is kept

_Short = tuple[int, tuple[str, ...]]
"""What is kept of an older large event: its time in nanoseconds, and the parts of its text."""

_IDLE = frozenset({"action.noop", "action.rest", "action.sleep"})


class LatestEvents(Service):
    """The latest actions and messages of each agent of a world. A world with language models has it."""

    name: ClassVar[str] = "latest_events"

    def __init__(self) -> None:
        self._events: dict[str, deque[EventRow | _Short]] = {}
        self._large: deque[tuple[str, EventRow, int]] = deque()  # with the agent, and the bytes of its data
        self._bytes = 0  # of all these

    @classmethod
    def on(cls, world: World) -> Self:
        """Return the service of a world; add it if the world has none."""
        service = world.services.get(cls.name)
        if not isinstance(service, cls):
            service = cls()
            world.add_service(service)
        return service

    def through(self, inner: Recorder) -> "ForwardingRecorder":
        """Return a recorder that passes everything on to `inner`, and notes what agents do."""
        return ForwardingRecorder(self, inner)

    def note(self, row: EventRow) -> None:
        """Keep an event if it is an action or a message."""
        actor, topic, data = row[5:8]
        if isinstance(data, MessageSent):
            for agent_id in dict.fromkeys((actor, data.to)):
                self._keep(agent_id, row, data.data)
        elif topic.startswith("action.") and topic not in _IDLE:
            self._keep(actor, row, data)

    def of_agent(self, agent_id: str) -> list[str]:
        """Return the latest actions and messages of an agent as text, one line each, oldest first."""
        return [_line(event, agent_id) for event in self._events.get(agent_id, ())]

    def _keep(self, agent_id: str, row: EventRow, data: object) -> None:
        events = self._events.get(agent_id)
        if events is None:
            events = self._events[agent_id] = deque(maxlen=MOST)
        events.append(row)
        if isinstance(data, Raw) and len(data) > _LARGE:
            self._large.append((agent_id, row, len(data)))
            self._bytes += len(data)
            while self._bytes > _MOST_LARGE:
                self._shorten()

    def _shorten(self) -> None:
        """Keep only the text of the oldest large event, if its agent still has it. Most have been replaced by then."""
        agent_id, row, size = self._large.popleft()
        self._bytes -= size
        events = self._events[agent_id]
        for place, event in enumerate(events):
            if event is row:
                events[place] = row[0], event_text(row[6], row[7], agent_id)
                return


def _line(event: "EventRow | _Short", agent_id: str) -> str:
    """Return an event as one line, as a part of the history of an agent."""
    time, parts = event if len(event) == 2 else (event[0], event_text(event[6], event[7], agent_id))
    when = to_text(time - time % 1_000_000)  # to the millisecond
    return " ".join(f"at {when}: {' '.join(part for part in parts if part)}".split())


class ForwardingRecorder:
    """A recorder that passes everything on to another one.

    Attributes:
        inner: the other one.
    """

    def __init__(self, service: LatestEvents, inner: Recorder) -> None:
        self.inner = inner
        self._note = service.note
        self._event = inner.event

    def event(self, row: EventRow, /) -> None:
        """Pass on and note an event."""
        self._event(row)
        self._note(row)

    def unrecorded(self, row: EventRow, /) -> None:
        """Note an event that is not on record."""
        self._note(row)

    def __getattr__(self, name: str) -> Any:
        """Return any other method or attribute of the inner recorder."""
        return getattr(self.inner, name)


def listening(world: World, recorder: Recorder) -> Recorder:
    """Return the recorder for a world: one that notes the latest events before `recorder`, if the world keeps them."""
    service = world.services.get(LatestEvents.name)
    return cast(Recorder, service.through(recorder)) if isinstance(service, LatestEvents) else recorder
