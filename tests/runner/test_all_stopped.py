"""A run ends when all its agents have stopped."""

import pytest

import sim

STOPPING = """
name: stopping
until: 1h
agents: [{name: a, count: 3, loop: {min_loop_delay: 5}, rules: [{when: now >= 9, do: {stop: {}}}]}]
events: [{topic: news, at: 1m, every: 1m}]
"""


@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_a_run_ends_when_all_agents_have_stopped(tmp_path, mode):
    """A run whose agents have all stopped ends then, says so, and replays: injected events cannot start them again."""
    path = tmp_path / "stopping.yaml"
    path.write_text(STOPPING)
    result = sim.run(path, mode=mode, out=tmp_path / "runs")

    assert (result.status, result.stopped_by) == ("finished", "all agents have stopped")
    assert 9 <= result.sim_seconds <= 15
    assert result.states["stopped"] == 3
    assert result.run is not None
    assert sim.replay(result.run).same


def test_a_run_with_a_sleeping_agent_continues(tmp_path):
    """An agent that sleeps has not stopped: the run lasts until its time limit."""
    path = tmp_path / "stopping.yaml"
    path.write_text(STOPPING.replace("agents: [", "agents: [{name: b, rules: [{do: {sleep: {event: never}}}]}, "))
    result = sim.run(path)

    assert (result.stopped_by, result.sim_seconds) == (None, 3600.0)
