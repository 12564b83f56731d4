"""Memories in a scenario: actions of rules, the run file, and the same run in every way of running."""

from pathlib import Path

import pytest

import sim
from sim.base.permissions import Permission
from sim.memory import MemorySettings, section
from sim.record import open_run
from sim.world import Action
from tests.actors.helpers import Lab

SCENARIO = """
name: notes
until: 3h
memory: {cap: 5, hits: 2}
agents:
  - name: clerk
    count: 2
    state: {seen: 0}
    loop: {min_loop_delay: 10m}
    rules:
      - when: iteration == 3
        do: {forget: {memory: 1}}
      - do:
          - remember: {content: "='a lawn of ' + str(randint(1, 9))", importance: 4, expires: 30m, task: 2}
          - recall: {query: lawn, within: 1h, task: 2}
        set: {seen: "=seen + len(result.data)"}
"""


@pytest.fixture
def lab() -> Lab:
    """A world with memories and two agents."""
    lab = Lab()
    section.MEMORY.add_to(lab.world, MemorySettings())
    lab.add("a")
    lab.add("b")
    return lab


def act(lab, action, agent="a", /, **arguments):
    """Have an agent act."""
    with lab.kernel.acting_as(lab.kernel.scenario):
        return lab.world.act(lab.script(agent), Action(action, arguments))


def test_an_agent_remembers_recalls_and_forgets(lab):
    """The actions use the memories of the agent that acts; what they return is plain data."""
    assert act(lab, "remember", content="x lawn", importance=7, task=3, expires="1h").data == {"memory": 1}
    act(lab, "remember", "b", content="y lawn")
    (found,) = act(lab, "recall", query="lawn").data
    assert found == {
        "memory": 1, "content": "x lawn", "kind": "observation", "importance": 7, "source": "agent", "task": 3,
        "time": 0.0,
    }  # fmt: skip
    assert act(lab, "recall", query="lawn", kind="context").data == []
    assert act(lab, "recall", query="lawn", task=4).data == []
    lab.kernel.advance_to(3600 * 10**9)
    assert len(act(lab, "recall", query="lawn", within="1h").data) == 1
    assert act(lab, "recall", query="lawn", within="59m").data == []
    assert act(lab, "forget", memory=1).success
    assert act(lab, "recall", query="lawn").data == []


def test_an_agent_searches_its_sessions(lab):
    """The action returns the summaries, and no messages."""
    memories = lab.world.services["memories"]
    with lab.kernel.acting_as(lab.kernel.scenario):
        talk, times = [{"content": "mortgage"}], {"started_ns": 0, "completed_ns": 0}
        memories.archive("a", "s", talk, "Money.", "done", **times, token_count=1)
    assert act(lab, "search_sessions", query="mortgage", time_frame="today").data == [
        {"session": "s", "summary": "Money.", "messages": 1, "reason": "done", "started": 0.0, "completed": 0.0}
    ]
    assert act(lab, "search_sessions", "b", query="mortgage").data == []


@pytest.mark.parametrize(
    ("kind", "arguments", "why"),
    [
        ("remember", {"content": ""}, "the memory needs a text"),
        ("remember", {"content": "x", "kind": "y"}, "there is no kind of memory 'y'"),
        ("remember", {"content": "x", "importance": 11}, "from 1 to 10, not 11"),
        ("remember", {"content": "x", "expires": "soon"}, "'soon' is not a duration"),
        ("remember", {"content": "x" * 2001}, "2001 is over the limit of 2000"),
        ("remember", {"content": "x", "source": "person"}, "remember has no argument 'source'"),
        ("recall", {"query": "x", "limit": 0}, "1 to 100 results"),
        ("recall", {"query": "x", "within": -1}, "between 0 and 146 years"),
        ("forget", {"memory": 9}, "a has no memory 9"),
        ("search_sessions", {"query": "x", "time_frame": "soon"}, "not a time frame"),
    ],
)
def test_a_wrong_action_is_refused(lab, kind, arguments, why):
    """A refusal names the fault and changes nothing; an agent cannot say where its text comes from."""
    result = act(lab, kind, **arguments)
    assert not result.success
    assert why in result.error
    assert lab.world.services["memories"].state() is None


def test_a_guest_may_recall_and_not_remember(lab):
    """Reading needs no trust; changing memories needs that of a user."""
    lab.script("a").permission = Permission.GUEST
    assert act(lab, "recall", query="x").success
    assert "needs the permission user" in act(lab, "remember", content="x").error
    assert "needs the permission user" in act(lab, "forget", memory=1).error


def test_a_world_without_the_section_has_no_such_action():
    """Only worlds with memories have the actions."""
    lab = Lab()
    lab.add("a")
    assert "there is no action kind 'remember'" in act(lab, "remember", content="x").error


def test_agents_may_not_publish_what_the_memories_publish(lab):
    """The record of memories cannot be falsified by an agent's own event."""
    for topic in ("memory.added", "memory.pruned", "memory.summarised", "memory.forgotten", "session.archived"):
        assert "not for agents" in act(lab, "publish", topic=topic, data={}).error


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_a_scenario_with_memories_runs_and_replays(tmp_path, mode):
    """A run has the same hash with asyncio and trio, its replay agrees, and the summary has the numbers."""
    path = tmp_path / "notes.yaml"
    path.write_text(SCENARIO)
    period = ["execution.tick.period=1m"]
    result = sim.run(path, mode=mode, overrides=period, out=tmp_path)
    assert result.errors == 0
    assert result.services["memories"]["added"] > 20
    assert result.services["memories"]["forgotten"] == 2
    assert result.run is not None
    other = sim.run(path, mode=mode, overrides=period, backend="trio", out=tmp_path)
    assert other.hash == result.hash
    assert sim.replay(result.run).same


def test_the_run_file_shows_memories_and_sessions(tmp_path):
    """The view `memories` has a row a memory, with when and why it was lost."""
    path = tmp_path / "notes.yaml"
    path.write_text(SCENARIO)
    result = sim.run(path, out=tmp_path)
    assert result.run is not None
    with open_run(Path(result.run)) as run:
        rows = run.query('SELECT agent, memory, kind, importance, source, task, expires - time, "end" FROM memories')
        ended = [row for row in rows if row[-1]]
        assert [row[:2] for row in ended] == [("clerk-1", 1), ("clerk-2", 1)]
        assert set(rows) == {row for row in rows if row[2:7] == ("observation", 4, "agent", 2, 1800.0)}
        assert run.query("SELECT * FROM sessions") == []
