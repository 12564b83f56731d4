"""The shipped scenarios are recorded as before, event by event. See `shipped`."""

import json
from typing import Any

import pytest

from sim.events.topic import OWN_TOPICS
from sim.record import open_run
from tests.golden.make import MAKERS, RUNS
from tests.golden.shipped import FILE, ROOT, UNTIL, recorded
from tests.golden.shipped import RUNS as SHIPPED

EXPECTED: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))

IN_NONE = {
    "artifact.deleted", "chat.budget_reset", "conversation.removed", "conversation.revised", "conversation.summarized",
    "conversation.summary_failed", "conversation.withheld", "execution.retry", "execution.returned", "memory.forgotten",
    "memory.pruned", "memory.repeated", "memory.summarised", "message.refused",
}  # fmt: skip
"""Topics that no run of this folder holds: the tests of their packages alone do."""


def test_each_shipped_scenario_is_here() -> None:
    """A scenario that is added to the project is held to its hash from then on."""
    assert sorted(UNTIL) == sorted(path.stem for path in (ROOT / "scenarios").glob("*.yaml"))
    assert sorted(EXPECTED) == sorted(f"{name} {mode}" for name, mode in SHIPPED)


@pytest.mark.parametrize(("name", "mode"), SHIPPED)
def test_a_shipped_scenario_is_recorded_as_before(name: str, mode: str) -> None:
    """Its hash and the topics of its events are those that were noted when what is recorded last had to change."""
    assert recorded(name, mode) == EXPECTED[f"{name} {mode}"]


def test_all_topics_of_the_simulation_are_held() -> None:
    """Each topic that is listed as the simulation's own is in a golden run or a shipped scenario, but for a few."""
    held = {topic for one in EXPECTED.values() for topic in one["topics"]}
    for name in MAKERS:
        with open_run(RUNS / name, verify=False) as stored:
            held |= {topic for (topic,) in stored.query("SELECT DISTINCT topic FROM events")}
    assert OWN_TOPICS - held == IN_NONE
