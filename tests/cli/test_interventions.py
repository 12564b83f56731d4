"""A scenario with interventions, from the command line: the same everywhere, also after a kill."""

import json
import sys

import pytest

from tests.inbox.helpers import going_on, programs
from tests.runner.test_interventions import EVERYTHING


@pytest.mark.slow
def test_a_scenario_with_interventions(sim, tmp_path, monkeypatch):
    """One hash on asyncio and trio; it replays, branches with another state, and shows what was done and answered."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "town.yaml").write_text(EVERYTHING)
    assert sim("check", "town.yaml").code == 0
    one, other = (json.loads(sim("run", "town.yaml", "--json", "--backend", host).out) for host in ("asyncio", "trio"))
    assert one["hash"] == other["hash"]
    assert one["services"]["interventions"] == {"answers": 36, "applied": 12, "refused": 0}
    assert json.loads(sim("replay", "town", "--backend", "asyncio", "--json").out)["same"]

    done = sim("branch", "town", "--at", "1d", "--set", "agents.person-3.state.beta=0", "--json")
    changed = json.loads(done.out)
    assert (done.code, changed["hash"] == one["hash"]) == (0, False)
    assert json.loads(sim("replay", "town", "--json").out)["same"]
    shown = json.loads(sim("show", "town", "surveys", "--json").out)
    assert len(shown["rows"]) == 36
    assert "person.late" in sim("show", "town", "interventions").out

    done = sim("branch", "town", "--at", "1d", "--set", "agents.person.state.beat=0")
    assert done.code == 2
    assert done.err == (
        "sim: error: --set agents.person.state.beat: person has no state variable 'beat'\nhint: did you mean 'beta'?\n"
    )


@pytest.mark.proof
@pytest.mark.skipif(sys.platform == "win32", reason="it kills a process by a signal")
def test_a_killed_process_is_resumed(sim, tmp_path, monkeypatch):
    """A process that is killed in the middle of a run with interventions is resumed to the hash of the whole run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "town.yaml").write_text(EVERYTHING)
    whole = json.loads(sim("run", "town.yaml", "--json", "--no-record").out)
    with programs(tmp_path) as start:
        program = start().begin("run", "town.yaml", "--clock", "wall", "--speed", "60000")
        folder = going_on(tmp_path / "runs")
        program.kill()
    done = sim("resume", folder, "--json")
    assert done.code == 0, done.err
    resumed = json.loads(done.out)
    assert (resumed["status"], resumed["hash"]) == ("finished", whole["hash"])
