"""The one reader of recorded events: which it yields, and how their data are read."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sim.actors.events import AgentCrashed, StateChanged
from sim.events.event_type import Malformed
from sim.kernel.codec import encode
from sim.kernel.rows import EventRow
from sim.record import open_run
from sim.record.files import versions
from sim.record.malformed import MalformedEvents
from sim.record.recorder import RunRecorder
from sim.record.rows import MOST_TOPICS, Wanted

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
    """An event has its type; what a later version added is left out; forged data are malformed."""
    with open_run(folder) as stored:
        (_, first, _, _, chunk) = next(stored.chunks())
        wanted = Wanted()
        events = [row.event for row in wanted.of(first, chunk, 0)][:4]
    assert events[:2] == [StateChanged(before="stopped", reason="", after="starting"), AgentCrashed(errors=3)]
    assert isinstance(events[2], Malformed)
    assert events[3] is None


def test_malformed_events_are_counted_by_topic(folder: Path) -> None:
    """The count names each topic with the number and the first fault of its malformed events; data of agents are none.
    Read at once or one by one, the same events are malformed.
    """
    with open_run(folder) as stored:
        found = stored.malformed()
        one_by_one = [row.topic for row in stored.rows() if isinstance(row.event, Malformed)]
    assert found.to_json()["events"] == found.total == len(one_by_one) == 2000
    assert found.read == 8000
    (topic,) = found.topics
    assert (topic, found.topics[topic].events) == ("agent.state", 2000)
    assert "missing required field `from`" in found.topics[topic].problem


@pytest.mark.slow
def test_topics_without_number_take_no_memory_without_bound() -> None:
    """Actions can have any name: of very many malformed topics the first are counted one by one, and the rest together;
    readers of events keep as little.
    """
    row = [0, 0, 0, 1, 1, "a", "", {}, None]
    names = [f"action.a{n}" for n in range(12_000)]
    chunks = [encode([[*row[:6], name, {}, None] for name in names[n : n + 4000]]) for n in range(0, 12_000, 4000)]
    found, wanted = MalformedEvents(), Wanted()
    for chunk in chunks:
        found.take(chunk)
        assert all(isinstance(row.event, Malformed) for row in wanted.of(1, chunk, 0))
    assert (found.total, found.read, len(found.topics)) == (12_000, 12_000, 1001)
    assert found.topics["(others)"].events == 11_000
    assert len(wanted._readers) == len(wanted._wanted_topics) == len(found._readers) == MOST_TOPICS


@pytest.mark.parametrize(
    ("version", "cure"),
    [
        ("0.0.1", "They were recorded by sim 0.0.1, and this is sim"),
        (versions()["sim"], "the record or a package was changed: use another copy of it"),
    ],
)
def test_malformed_events_are_named_with_what_to_do(folder: Path, version: str, cure: str) -> None:
    """The sentence has the numbers, the topics, how to read them as recorded, and what to do: by the version."""
    with open_run(folder) as stored:
        said = stored.malformed().sentence(version) or ""
    assert said.startswith("2,000 of 8,000 events do not have the form of their topic: agent.state 2,000 (Object")
    assert "`sim show RUN events --topic agent.state --json`" in said
    assert cure in said


def test_a_record_of_this_version_has_no_malformed_events(start: Start) -> None:
    """Without malformed events there is no sentence."""
    with start() as recorder:
        recorder.event(ROWS[0])
    with open_run(recorder.folder) as stored:
        assert stored.malformed().sentence("0.0.1") is None
