import pytest

from sim.cli.render.progress import ProgressPrinter
from sim.host.watchdog import Stuck
from sim.runner import RunController
from sim.scenario import load
from sim.scenario.assembly.build import build

MINUTE = 60 * 10**9


@pytest.fixture
def runner(tiny):
    """A run that has just begun."""
    runner = RunController(build(load(tiny)), until_ns=10 * MINUTE, mode="autonomous")
    runner.begin()
    runner.simulation.world.kernel.run(1)
    return runner


@pytest.mark.parametrize("live", [True, False])
def test_progress_line(runner, monkeypatch, capsys, live):
    """Progress says how far the run is; on a terminal the line is written over, elsewhere lines stay."""
    monkeypatch.setattr("sim.cli.render.progress.LIVE_SECONDS", 0)
    monkeypatch.setattr("sim.cli.render.progress.PLAIN_SECONDS", 0)
    runner.simulation.world.kernel.run(5 * MINUTE)
    progress = ProgressPrinter(live=live, often=True)
    progress(runner)
    out, err = capsys.readouterr()

    assert out == ""
    assert "4m30s of 10m (45%)" in err
    assert "3 running" in err
    assert err.startswith("\r\x1b[K") == live
    assert err.endswith("\n") != live


def test_progress_waits_its_turn(runner, capsys):
    """Nothing is shown before its time has come, so that a short run prints no progress."""
    ProgressPrinter(live=True)(runner)

    assert capsys.readouterr().err == ""


def test_stuck_step_is_reported_harmlessly(capsys):
    """The report of a stuck step names the agent and shows its stack, with control characters spelled out."""
    ProgressPrinter(live=False).stuck(Stuck("a\x1b[31m", 2.0, 'File "x.py"\n  while True: pass\n'))
    err = capsys.readouterr().err

    assert "a step of a\\x1b[31m has not yielded for 2 s" in err
    assert "  while True: pass\n" in err
    assert "\x1b" not in err
