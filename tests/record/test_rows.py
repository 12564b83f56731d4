"""The one reader of recorded events: which it yields, and how their data are read."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sim.actors.events import AgentCrashed, StateChanged
from sim.events.event_type import Malformed
from sim.kernel.rows import EventRow
from sim.record import open_run
from sim.record.recorder import RunRecorder
from sim.record.rows import Wanted

Start = Callable[..., RunRecorder]
ROWS: tuple[EventRow, ...] = (
    (1, 0, 0, 1, 1, "a", "agent.state", {"from": "stopped", "to": "starting", "reason": ""}, (1, 1)),
    (2, 0, 0, 1, 2, "b", "agent.crashed", {"errors": 3, "since": "a later version"}, (1, 1)),
    (3, 0, 0, 1, 3, "a", "agent.state", {"forged": True}, (1, 1)),
    (4, 0, 0, 1, 4, "a", "lead.created", [1, None], (1, 1)),
)


@pytest.fixture
def folder(start: Start) -> Path:
    """The folder of a run with these events, many times over, so that there are several chunks."""
    with start() as recorder:
        for _ in range(2000):
            for row in ROWS:
                recorder.event(row)
    return recorder.folder


def test_rows_are_all_events_in_order(folder: Path) -> None:
    """Without arguments, each event is yielded once, in order, with what `events` has of it, and numbered from 1."""
    with open_run(folder) as stored:
        assert [row.whole() for row in stored.rows()] == list(stored.events())
        assert [row.id for row in stored.rows()] == list(range(1, 8001))
        numbers = [(id, actor) for id, actor in stored.query("SELECT id, actor FROM events")]
        assert [(row.id, row.actor) for row in stored.rows()] == numbers


def test_rows_are_chosen_by_topic_actor_and_number(folder: Path) -> None:
    """Patterns of topics, actors, and the number after which reading goes on, each choose what `events` would."""
    with open_run(folder) as stored:
        chosen = [row.id for row in stored.rows(("agent.*",), ("a",), after=4090)]
        wanted = [(n, row) for n, row in enumerate(stored.events(), 1) if n > 4090]
        assert chosen == [n for n, row in wanted if row.actor == "a" and row.topic.startswith("agent.")]
        assert not list(stored.rows(after=8000))
        assert [row.id for row in stored.rows(after=7999)] == [8000]


def test_data_are_read_as_their_event_types(folder: Path) -> None:
    """An event has its type; what a later version added is left out; forged data are malformed, and counted."""
    with open_run(folder) as stored:
        (_, first, _, _, chunk) = next(stored.chunks())
        wanted = Wanted()
        events = [row.event for row in wanted.of(first, chunk, 0)][:4]
    assert events[:2] == [StateChanged(before="stopped", reason="", after="starting"), AgentCrashed(errors=3)]
    assert isinstance(events[2], Malformed)
    assert events[3] is None
    assert wanted.malformed == 1024
