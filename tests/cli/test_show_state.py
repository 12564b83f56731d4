"""`sim show RUN state`: what stands at one moment of a run, on the command line."""

import json

import pytest


@pytest.fixture
def run(tiny, sim):
    """The name of a recorded run."""
    assert sim("run", tiny, "-q").code == 0
    return "tiny"


def test_all_agents_and_what_they_share_are_shown(run, sim):
    """A line for each agent, what is shared and what is due; what it costs stands on stderr."""
    done = sim("show", run, "state", "--at", "5m")
    assert done.code == 0
    assert "at 5m, after" in done.out
    assert all(f"walker-{number}" in done.out for number in (1, 2, 3))
    assert "metrics at 4m" in done.out
    assert "an event or a sample" in done.out
    assert done.err.startswith("sim: a replay of about ")


def test_one_agent_is_shown_whole(run, sim):
    """Its variables, messages and timers; `--json` has all of them."""
    done = sim("show", run, "state", "walker-1", "--at", "5m")
    assert (done.code, "luck" in done.out, "next iteration" in done.out) == (0, False, True)
    found = json.loads(sim("show", run, "state", "walker-1", "--at", "5m", "--json").out)
    assert (found["time"], found["agent"], found["state"]) == (300, "walker-1", "running")
    every = json.loads(sim("show", run, "state", "--at", "5m", "--json").out)
    assert every["agents"]["walker-1"] == {key: one for key, one in found.items() if key not in ("time", "agent")}


def test_lists_have_limits_and_say_what_is_left_out(run, sim):
    """`--limit` counts lines, and the number of those that are left out is said."""
    done = sim("show", run, "state", "--at", "5m", "--limit", "1")
    assert "walker-2" not in done.out
    assert "sim: note: 2 more are left out; --limit 0 shows all" in done.err


def test_what_is_wrong_is_said_in_one_sentence(run, sim):
    """A time after the end, an unknown agent, and an event that is no number are refused with what to do."""
    assert "ends at 10m, before 11m" in sim("show", run, "state", "--at", "11m").err
    assert "did you mean 'walker-1'?" in sim("show", run, "state", "walker1", "--at", "5m").err
    assert "--at event:ID needs the id of an event, not 'x'" in sim("show", run, "state", "--at", "event:x").err
    assert "--at means nothing for events" in sim("show", run, "events", "--at", "5m").err


def test_causes_have_a_limit_of_their_own(run, sim):
    """Without `--limit`, at most 20 steps are shown; an event is named by its id."""
    done = sim("show", run, "sql", "SELECT min(id) FROM events WHERE topic = 'metric.sample'", "--json")
    id = json.loads(done.out)["rows"][0][0]
    found = json.loads(sim("show", run, "causes", id, "--json").out)
    assert 1 <= len(found["steps"]) <= 20
    assert found["event"] == id
    assert "causes needs the id of an event" in sim("show", run, "causes").err
