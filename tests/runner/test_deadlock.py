"""The end of a run without a time limit, and the agents that are blocked for ever at the end of any run."""

from pathlib import Path

import pytest

import sim
from sim.runner import replay

PHILOSOPHERS = """
name: philosophers
until: null
agents:
  - name: a
    state: {held: 0}
    rules:
      - {when: held == 0, do: {acquire: {pool: left}}, set: {held: 1}}
      - {when: held == 1, do: {acquire: {pool: right}}, set: {held: 2}}
  - name: b
    state: {held: 0}
    rules:
      - {when: held == 0, do: {acquire: {pool: right}}, set: {held: 1}}
      - {when: held == 1, do: {acquire: {pool: left}}, set: {held: 2}}
pools: {left: {kind: resource}, right: {kind: resource}}
metrics: {every: 10m, values: {time: now}}
"""
BLOCKED = "deadlock: 2 agents are blocked: a on acquire `right`, b on acquire `left`"

WORKER = """
name: worker
until: null
agents:
  - name: worker
    rules: [{do: {get: {pool: jobs}}}]
  - name: boss
    state: {left: 3}
    loop: {min_loop_delay: 40s}
    rules:
      - {when: left > 0, do: {put: {pool: jobs, item: job}}, set: {left: "=left - 1"}}
      - {do: {sleep: {event: holiday}}}
pools: {jobs: {kind: store}}
metrics: {every: 10m, values: {time: now}}
"""


@pytest.fixture
def start(tmp_path):
    """Run a scenario, recorded."""

    def run(text: str, **options: object) -> sim.RunResult:
        path = tmp_path / "scenario.yaml"
        path.write_text(text)
        return sim.run(path, out=tmp_path / "runs", **options)  # type: ignore[arg-type]

    return run


@pytest.mark.parametrize("mode", ["autonomous", "tick"])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_deadlock_ends_a_run_without_a_time_limit(start, mode, backend):
    """Agents that wait for what the others hold end the run at once, are named with what they wait for, and the run
    replays to the same end.
    """
    result = start(PHILOSOPHERS, mode=mode, backend=backend)

    assert (result.status, result.stopped_by, result.deadlock) == ("finished", "deadlock", BLOCKED)
    assert result.sim_seconds < 10
    assert result.run is not None
    again = replay(Path(result.run), backend="trio" if backend == "asyncio" else "asyncio")
    assert (again.same, again.complete, again.hash) == (True, True, result.hash)


def test_a_deadlock_is_named_at_the_time_limit_too(start):
    """A run with a time limit lasts until then, and says that agents were blocked."""
    result = start(PHILOSOPHERS, overrides=["until=1h"])

    assert (result.sim_seconds, result.stopped_by, result.deadlock) == (3600, None, BLOCKED)


def test_blocked_agents_of_a_living_run_are_no_deadlock(start):
    """As long as anything can still happen to an agent, nothing is said of those that wait."""
    text = PHILOSOPHERS.replace("metrics:", "events: [{at: 30m, topic: bell}, {at: 2h, topic: bell}]\nmetrics:")

    assert start(text, overrides=["until=1h"]).deadlock is None
    assert start(text).sim_seconds == 7200  # the last event of the scenario, at which nothing is left


@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_a_run_ends_when_nothing_is_left_to_do(start, mode):
    """Agents that only wait for work, an event or a message end a run without a time limit; that is no deadlock."""
    result = start(WORKER, mode=mode)

    assert (result.stopped_by, result.deadlock) == ("nothing is left to do", None)
    assert result.kinds["get"] == 3
    assert result.sim_seconds < 200


def test_a_stop_condition_of_time_is_waited_for(start):
    """With a stop condition that reads the time, samples are something that is left to do."""
    text = PHILOSOPHERS + "stop: {when: now >= 3000}\n"

    assert (start(text).sim_seconds, start(text).stopped_by) == (3000, "now >= 3000")


def test_a_run_without_a_time_limit_ends_when_all_agents_have_stopped(start):
    """The end of the last agent ends the run."""
    text = WORKER.replace("{do: {sleep: {event: holiday}}}", "{do: stop}").replace(
        "- name: worker\n    rules: [{do: {get: {pool: jobs}}}]\n  ", ""
    )
    result = start(text)

    assert (result.stopped_by, result.sim_seconds) == ("all agents have stopped", 120)


@pytest.mark.slow
def test_an_interrupted_run_without_a_time_limit_is_resumed_to_its_end(start):
    """Interrupted on the way, such a run ends as one that was not."""
    text = WORKER.replace("left: 3", "left: 8000").replace("40s", "1s")
    whole = start(text)
    part = start(text, max_wall="0.05s")
    assert part.status == "interrupted"
    assert part.run is not None

    assert sim.resume(Path(part.run)).hash == whole.hash


def test_a_branch_of_a_run_without_a_time_limit(start):
    """A branch goes on without a time limit too, or until the one that it is given."""
    result = start(WORKER)
    assert result.run is not None

    assert sim.branch(Path(result.run), at="30s").stopped_by == "nothing is left to do"
    assert sim.branch(Path(result.run), at="30s", until="1h").sim_seconds == 3600
