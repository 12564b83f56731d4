import json
import signal
import sys
import time

import pytest

from tests.helpers import wait_for_events, wait_for_file

WALL = """
name: slow
until: 1h
execution: {clock: wall}
agents: [{name: a, loop: {min_loop_delay: 0.05, max_loop_delay: 0.1}}]
"""
STUCK = """
import time, sim

class Stuck(sim.Agent):
    async def decide_action(self):
        open("stuck", "w").close()
        time.sleep(60)
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.proof)])
def test_the_first_signal_suspends(start, tmp_path, backend):
    """Ctrl-C suspends the run at a step boundary: it is kept, named, and counts as not finished."""
    (tmp_path / "slow.yaml").write_text(WALL)
    process = start("run", "slow.yaml", "--backend", backend, "--json")
    wait_for_events(tmp_path)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    result = json.loads(out)

    assert process.returncode == 1
    assert result["status"] == "interrupted"
    assert (tmp_path / result["run"] / "run.db").is_file()
    assert f"its record is in {result['run']}" in err
    assert "Traceback" not in err


@pytest.mark.slow
@pytest.mark.parametrize("backend", [pytest.param("asyncio", marks=pytest.mark.proof), "trio"])
def test_the_second_signal_ends(start, tmp_path, backend):
    """A second Ctrl-C ends the process at once, even in a step that never yields; the run counts as interrupted."""
    (tmp_path / "stuck_agents.py").write_text(STUCK)
    (tmp_path / "stuck.yaml").write_text("name: stuck\nagents: [{name: a, kind: 'stuck_agents:Stuck'}]\n")
    process = start("run", "stuck.yaml", "--allow", "stuck_agents", "--backend", backend)
    wait_for_file(tmp_path, "stuck")
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=10)

    assert process.returncode == 1
    assert out == ""
    (run,) = (tmp_path / "runs").iterdir()
    assert err.endswith(f"sim: error: the run was interrupted within a step; runs/{run.name} can be resumed\n")


ISLES = """
name: isles
until: 40000h
islands: {latency: 10s, of: {north: [farmer], south: [clerk]}}
agents:
  - {name: farmer, rules: [{do: {send: {to: clerk, after: 10s}}}]}
  - {name: clerk, rules: [{do: {publish: {topic: x}}}]}
"""


@pytest.mark.slow
def test_an_interrupted_run_on_shards_says_how_to_continue(start, tmp_path):
    """Ctrl-C ends a run on shards, and the error names the command that continues it."""
    (tmp_path / "isles.yaml").write_text(ISLES)
    process = start("run", "isles.yaml", "--shards", "2", "--quiet", "--json")
    wait_for_events(tmp_path)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    (run,) = (tmp_path / "runs").iterdir()
    message = f"the run on shards was interrupted; sim resume runs/{run.name} continues it in one process"
    assert (process.returncode, err.strip()) == (1, f"sim: error: {message}")
    assert json.loads(out)["error"]["message"] == message


@pytest.mark.proof
def test_stuck_steps_are_reported(start, tmp_path):
    """A step that does not yield is reported on stderr with its agent and the line where it is."""
    (tmp_path / "stuck_agents.py").write_text(STUCK.replace("60", "4.5"))
    (tmp_path / "stuck.yaml").write_text("name: stuck\nuntil: 0.01s\nagents: [{name: a, kind: 'stuck_agents:Stuck'}]\n")
    process = start("run", "stuck.yaml", "--allow", "stuck_agents", "--no-record", "--json")
    out, err = process.communicate(timeout=30)

    assert json.loads(out)["status"] == "finished"
    assert "sim: warning: a step of a has not yielded" in err
    assert "time.sleep(4.5)" in err


@pytest.mark.slow
def test_a_closed_pipe_is_no_error(start, tmp_path):
    """When nobody reads stdout any more, the command ends without a word."""
    process = start("info", "schema")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    process.wait(timeout=20)

    assert err == ""
    process.stdout = None


@pytest.mark.proof
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_one_signal_is_enough_for_a_stuck_run(start, tmp_path, backend):
    """A run whose step never yields ends by one SIGTERM, a few seconds later: nobody sends a second one."""
    (tmp_path / "stuck_agents.py").write_text(STUCK.replace("time.sleep(60)", "\n        while True: pass"))
    (tmp_path / "stuck.yaml").write_text("name: stuck\nagents: [{name: a, kind: 'stuck_agents:Stuck'}]\n")
    process = start("run", "stuck.yaml", "--allow", "stuck_agents", "--backend", backend)
    wait_for_file(tmp_path, "stuck")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)

    assert process.returncode != 0
