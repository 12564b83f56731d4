"""Runs that are interrupted by real signals, or by a limit on real time, in programs of their own."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sim
from sim.record.reader import open_run
from tests.helpers import wait_for_events, wait_for_file

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")

SLOW = """
name: slow
until: 1h
execution: {clock: wall}
agents: [{name: a, loop: {min_loop_delay: 0.05, max_loop_delay: 0.1}}]
"""
HANGING = """
import os, time, sim

class Hanging(sim.Agent):
    async def on_start(self):
        self.count = 0

    async def decide_action(self):
        self.count += 1
        if self.count < 3 or "FAST" in os.environ:
            return
        self.world.event_bus.publish("before", {})
        try:
            open("hanging", "w").close()
            time.sleep(60)
        finally:
            self.world.event_bus.publish("unwound", {})
"""
SWEEP = """
import sys, sim
for number in range(3):
    result = sim.run("slow.yaml", until=1000, out="runs", backend=sys.argv[1], **eval(sys.argv[2]))
    print(number, result.status, flush=True)
    if number:
        break
"""


def _start(folder: Path, *args: str) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, *args], cwd=folder, stdout=pipe, stderr=pipe, text=True)


def _only_run(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "backend"),
    [
        (signal.SIGINT, -signal.SIGINT, "asyncio"),
        (signal.SIGTERM, 143, "trio"),
        pytest.param(signal.SIGINT, -signal.SIGINT, "trio", marks=pytest.mark.proof),
        pytest.param(signal.SIGTERM, 143, "asyncio", marks=pytest.mark.proof),
    ],
)
def test_a_signal_ends_the_program_that_called_run(tmp_path, backend, number, code):
    """In a host program Ctrl-C raises KeyboardInterrupt and SIGTERM SystemExit(143), after the record is closed."""
    (tmp_path / "slow.yaml").write_text(SLOW)
    process = _start(tmp_path, "-c", SWEEP, backend, "{}")
    wait_for_events(tmp_path)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)

    assert (process.returncode, out) == (code, "")
    assert ("KeyboardInterrupt: the run was interrupted at" in err) == (number == signal.SIGINT)
    with open_run(_only_run(tmp_path)) as stored:
        assert stored.info.status == "interrupted"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_caller_may_ask_for_the_partial_result(tmp_path, number):
    """With `on_interrupt="return"` a signal ends one run, and the program gets its partial result."""
    (tmp_path / "slow.yaml").write_text(SLOW)
    process = _start(tmp_path, "-c", SWEEP.replace("if number", "if True"), "asyncio", "{'on_interrupt': 'return'}")
    wait_for_events(tmp_path)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)

    assert (process.returncode, out, err) == (0, "0 interrupted\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("backend", [pytest.param("asyncio", marks=pytest.mark.proof), "trio"])
def test_a_run_that_is_interrupted_twice_can_be_resumed(tmp_path, monkeypatch, backend):
    """A second Ctrl-C within a step leaves an interrupted run: no traceback, no event of the unwinding, resumable."""
    (tmp_path / "hanging_agents.py").write_text(HANGING)
    scenario = "name: hanging\nuntil: 1s\nagents: [{name: a, kind: 'hanging_agents:Hanging'}]\n"
    (tmp_path / "hanging.yaml").write_text(scenario)
    process = _start(
        tmp_path, "-m", "sim", "run", "hanging.yaml", "--allow", "hanging_agents", "--backend", backend
    )  # fmt: skip
    wait_for_file(tmp_path, "hanging")
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert (process.returncode, out) == (1, "")
    run = _only_run(tmp_path)
    assert err.strip() == f"sim: error: the run was interrupted within a step; runs/{run.name} can be resumed"
    with open_run(run) as stored:
        assert stored.info.status == "interrupted"
        assert [topic for (topic,) in stored.query("SELECT topic FROM events")][-1] == "before"
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hanging_agents.py").write_text(HANGING.replace("time.sleep(60)", "pass"))
    result = sim.resume(run, allow=("hanging_agents",), allow_change=True)
    assert result.status == "finished"


BESIDE = """
import asyncio, signal, sim

signal.signal(signal.SIGINT, signal.default_int_handler)  # where the tests run in the background, it is ignored

async def cell():
    sim.run("slow.yaml", until=1000, out="runs")

asyncio.new_event_loop().run_until_complete(cell())
"""


@pytest.mark.slow
def test_ctrl_c_interrupts_a_run_beside_an_event_loop(tmp_path):
    """A run that was started where an event loop is running, as in a notebook, is suspended, and its record closed."""
    (tmp_path / "slow.yaml").write_text(SLOW)
    process = _start(tmp_path, "-c", BESIDE)
    wait_for_events(tmp_path)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert (process.returncode, out) == (-signal.SIGINT, "")
    assert "KeyboardInterrupt: the run was interrupted at" in err
    with open_run(_only_run(tmp_path)) as stored:
        assert stored.info.status == "interrupted"


def test_a_limit_on_real_time_interrupts_a_run(tmp_path):
    """After `max_wall` of real time a run is interrupted and says so, and can be resumed and replayed."""
    path = tmp_path / "slow.yaml"
    path.write_text(SLOW)
    result = sim.run(path, until="1.5s", out=tmp_path / "runs", max_wall="0.5s")
    assert (result.status, result.stopped_by) == ("interrupted", "max_wall 0.5s")
    assert result.run is not None

    resumed = sim.resume(result.run)
    assert (resumed.status, resumed.stopped_by, resumed.sim_seconds) == ("finished", None, 1.5)
    assert sim.replay(result.run).same


@pytest.mark.parametrize("limit", [0, "0s"])
def test_a_limit_on_real_time_is_above_zero(tmp_path, limit):
    """A run that may take no time at all is refused before it begins."""
    path = tmp_path / "slow.yaml"
    path.write_text(SLOW)
    with pytest.raises(sim.UsageError, match="max_wall must be above 0 s"):
        sim.run(path, max_wall=limit)
