"""The shipped scenarios are recorded as before, event by event. See `shipped`."""

import json
from collections import Counter
from typing import Any

import pytest

from sim.events.event_type import EventData
from sim.events.topic import OWN_TOPICS, OWN_WORDS
from sim.kernel.codec import encode
from sim.record import open_run
from tests.golden.make import MAKERS, RUNS
from tests.golden.shipped import FILE, ROOT, UNTIL, recorded
from tests.golden.shipped import RUNS as SHIPPED

EXPECTED: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))


def test_each_shipped_scenario_is_here() -> None:
    """A scenario that is added to the project is held to its hash from then on."""
    assert sorted(UNTIL) == sorted(path.stem for path in (ROOT / "scenarios").glob("*.yaml"))
    assert sorted(EXPECTED) == sorted(f"{name} {mode}" for name, mode in SHIPPED)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mode"), SHIPPED)
def test_a_shipped_scenario_is_recorded_as_before(name: str, mode: str) -> None:
    """Its hash and the topics of its events are those that were noted when what is recorded last had to change."""
    assert recorded(name, mode) == EXPECTED[f"{name} {mode}"]


@pytest.fixture(scope="module")
def topics() -> frozenset[str]:
    """The topics of all golden runs and of the runs of shipped scenarios."""
    found = {topic for one in EXPECTED.values() for topic in one["topics"]}
    for name in MAKERS:
        with open_run(RUNS / name, verify=False) as stored:
            found |= {topic for (topic,) in stored.query("SELECT DISTINCT topic FROM events")}
    return frozenset(found)


def test_each_recorded_event_is_read_as_its_event_type() -> None:
    """Each event of the golden runs has the data of its type, to the byte: none is malformed or loses a field."""
    read = Counter[str]()
    for name in MAKERS:
        with open_run(RUNS / name, verify=False) as stored:
            for row in stored.rows():
                event = row.event
                if event is not None:
                    assert isinstance(event, EventData), event
                    assert encode(getattr(event, "values", event)) == bytes(row.raw), row.topic
                    read[row.topic] += 1
    assert {"metric.sample", "state.sample", "model.call", "action.write"} <= set(read)
    assert read.total() > 1000


def test_each_topic_of_the_simulation_is_in_a_golden_run(topics: frozenset[str]) -> None:
    """Each topic of an event type is recorded as before."""
    missing = sorted(OWN_TOPICS - topics)
    assert not missing, f"no golden run has {', '.join(missing)}: add one, for example to tests/golden/mishaps.yaml"


def test_each_word_of_the_simulation_is_in_a_golden_run(topics: frozenset[str]) -> None:
    """Of each word that is reserved as a whole, there is at least one topic in these runs."""
    missing = sorted(OWN_WORDS - {topic.partition(".")[0] for topic in topics})
    assert not missing, f"no golden run has a topic that begins with {', '.join(missing)}: add one"
