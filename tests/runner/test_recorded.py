"""What is read of a recorded run for pages about it: its scenario, and what branches and people changed during it."""

from pathlib import Path

import pytest

import sim
from sim.base.errors import RunError
from sim.cli.render.transcript import clock_of
from sim.kernel.duration import seconds_text
from sim.record import open_run
from sim.runner import fingerprint, rebuild, spec
from sim.runner.recorded import changes_of, recorded_scenario
from sim.scenario.loading import loads
from tests.record import resealed

PLAIN = """
name: tiny
until: 6s
agents: [{name: one, state: {x: 1}, loop: {min_loop_delay: 1s}, rules: [{do: noop}]}]
limits: {calls: {agent: 5 per 1s}}
"""


@pytest.fixture(scope="module")
def past(tmp_path_factory) -> Path:
    """A recorded run."""
    folder = tmp_path_factory.mktemp("past")
    (folder / "tiny.yaml").write_text(PLAIN)
    run = sim.run(folder / "tiny.yaml", out=folder / "runs").run
    assert run is not None
    return Path(run)


@pytest.fixture
def branched(past, tmp_path) -> Path:
    """A branch of a branch, each with a change."""
    first = sim.branch(past, at="2s", overrides=["limits.calls.agent=4 per 1s"], seed=5, out=tmp_path)
    assert first.run is not None
    changes = ["agents.one.loop.min_loop_delay=2s", "agents.one.state.x=3"]
    second = sim.branch(first.run, at="4s", overrides=changes, out=tmp_path)
    assert second.run is not None
    return Path(second.run)


def test_a_branch_of_a_branch_has_the_changes_of_both(branched):
    """The scenario of a run has what each of its branches changed, and not what the last one alone did."""
    with open_run(branched) as stored:
        found = [(one.at_ns, one.change.overrides, one.change.seed, one.by_branch) for one in changes_of(stored)]
        scenario = recorded_scenario(stored)
    assert found == [
        (2 * 10**9, ("limits.calls.agent=4 per 1s",), 5, True),
        (4 * 10**9, ("agents.one.loop.min_loop_delay=2s", "agents.one.state.x=3"), None, True),
    ]
    assert scenario is not None
    assert scenario.agents[0].loop.min_loop_delay == 2 * 10**9
    assert scenario.limits["calls"].agent == loads(PLAIN.replace("agent: 5", "agent: 4")).limits["calls"].agent


def test_an_input_that_is_no_change_is_refused(branched, tmp_path):
    """A record can come from anybody: an input of another form ends in one sentence, and a page has no scenario."""
    resealed.change(branched, "UPDATE arrivals SET data = '[1]' WHERE kind = 'branch'")
    with open_run(branched, verify=False) as stored:
        with pytest.raises(RunError, match=r"the input \d+ is no change of parameters"):
            list(changes_of(stored))
        assert recorded_scenario(stored) is None


def test_the_code_of_a_branch_is_read_once(past, tmp_path, monkeypatch):
    """What was compared with the record is what the record of the branch has, also if a file changes in between."""
    read: list[object] = []

    def counted(classes):
        read.append(1)
        return fingerprint.code_hashes(classes)

    monkeypatch.setattr(rebuild, "code_hashes", counted)
    monkeypatch.setattr(spec, "code_hashes", counted)
    made = sim.branch(past, at="2s", seed=5, out=tmp_path)
    assert made.run is not None
    assert len(read) == 1
    with open_run(made.run) as stored, open_run(past) as before:
        assert stored.info.code == before.info.code


def test_the_civil_time_of_an_edited_scenario_is_not_used(tmp_path):
    """Times are civil if the scenario of the run says so; one that was edited since may say another start."""
    file = tmp_path / "tiny.yaml"
    file.write_text(f"{PLAIN}calendar: {{start: 2026-03-01 08:00, zone: UTC}}\n")
    run = sim.run(file, out=tmp_path / "runs").run
    assert run is not None
    with open_run(run) as stored:
        assert clock_of(stored)(10**9) == "2026-03-01 08:00:01"
    with (Path(run) / "scenario.yaml").open("a") as edited:
        edited.write("# edited\n")
    with open_run(run, verify=False) as stored:
        assert clock_of(stored)(10**9) == seconds_text(1.0)
