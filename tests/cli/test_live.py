import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import attrs
import pytest
from rich.console import Console

import sim
from sim.cli.render.live import LiveProgress, Screen, line_of, picture
from sim.cli.render.snapshot import Level, RateMeter, Snapshot, take_snapshot
from sim.record import HashRecorder
from sim.runner import RunController
from sim.scenario import load
from sim.scenario.assembly.build import build

MINUTE = 60 * 10**9
HOSTILE = "\x1b[31mred\nline\u202e[bold]x[/bold]"

WALL = """
name: steady
until: 1h
execution: {clock: wall, speed: 1800}
limits: {steps: {global: 40 per 1m, policy: skip}}
costs: {publish: {steps: 1}}
agents:
  - {name: walker, count: 3, loop: {min_loop_delay: 10s}, rules: [{do: {publish: {topic: step.made}}}]}
"""


@pytest.fixture
def runner(tiny):
    """A run of five minutes so far."""
    runner = RunController(build(load(tiny)), until_ns=10 * MINUTE, mode="autonomous")
    runner.simulation.world.kernel.recorder = HashRecorder()
    runner.begin()
    runner.simulation.world.kernel.run(5 * MINUTE)
    return runner


def drawn(look, rates=None, lines=(), width=100):
    """Return what a terminal of this width shows of a look."""
    text = io.StringIO()
    Console(file=text, width=width, force_terminal=True, color_system=None).print(
        picture(look, rates or {}, list(lines))
    )
    return text.getvalue()


def test_a_look_at_a_run(runner):
    """A look holds the time, the agents by state, what was counted, and the newest events."""
    look = take_snapshot(runner)
    world = runner.simulation.world

    assert (look.title, look.status, look.until) == ("tiny  seed 3  autonomous", "running", 600.0)
    assert 240 < look.now <= 300
    assert look.states["running"] == 3
    assert look.figures["iterations"] == runner.simulation.manager.totals().iterations > 0
    assert look.figures["actions"] == sum(world.done.values())
    assert any("action" in line for line in look.newest)


def test_looking_changes_nothing(runner, tiny):
    """A run that was looked at at every step has the hash of one that was not."""
    looks = []
    looked = sim.run(tiny, progress=lambda runner: looks.append(take_snapshot(runner)))
    assert looked.hash == sim.run(tiny).hash
    assert looks


def test_rates_are_by_the_real_second():
    """A rate is what came in over the last seconds, whatever the simulated time did."""
    pulse = RateMeter()
    looks = [Snapshot("t", "running", 60.0 * n, None, {}, {"events": 100 * n}) for n in range(10)]

    assert pulse.rates(looks[0], 0.0) == {}
    for n in range(1, 10):
        rates = pulse.rates(looks[n], float(n))
    assert rates == {"events": 100.0, "now": 60.0}


def test_the_picture_says_it_all(runner):
    """The picture shows how far the run is, agents by state, counts with rates, limits by use, and events."""
    look = take_snapshot(runner)
    levels = (Level("calls (all)", 0.95, "19 of 20"), Level("disk", 0.1, "2 of 20"))
    rates = {"iterations": 12.3, "now": 60.0}
    shown = drawn(attrs.evolve(look, levels=levels), rates, ["1s  a  step.made"])

    for text in ("tiny  seed 3", "of 10m (", "60 x real time", "running", "12/s", "19 of 20", "step.made"):
        assert text in shown
    assert shown.index("calls (all)") < shown.index("disk")  # the fullest first


def test_hostile_text_draws_nothing():
    """Names and errors with escapes, newlines, marks that reorder or markup are spelled out."""
    look = Snapshot(HOSTILE, "running", 1.0, 2.0, {}, {}, (Level(HOSTILE, 0.5, HOSTILE),), (HOSTILE,))
    shown = drawn(look, width=200)

    assert "\\x1b[31mred\\nline\\u202e[bold]x[/bold]" in shown
    assert "\u202e" not in shown + line_of(look, {})
    assert "\x1b[31m" not in shown


def test_no_terminal_gets_lines(runner, capsys):
    """Where there is no terminal, a look is one line on stderr."""
    Screen(sys.stdout, terminal=False).draw(take_snapshot(runner))
    out, err = capsys.readouterr()

    assert out == ""
    assert err.count("\n") == 1
    assert "of 10m (" in err
    assert "3 running" in err


def test_live_waits_its_turn(runner, capsys):
    """Nothing is shown before its time has come, so that a short run draws nothing."""
    LiveProgress()(runner)

    assert capsys.readouterr().err == ""


def test_live_in_a_pipe(sim, tiny):
    """`sim run --live` in a pipe prints the summary on stdout as ever, and no escape anywhere."""
    done = sim("run", tiny, "--live")

    assert done.code == 0
    assert "finished" in done.out
    assert "\x1b" not in done.out + done.err


@pytest.mark.proof
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
def test_live_in_a_terminal(tmp_path):
    """In a terminal the picture is drawn in place, taken away at the end, and the summary follows."""
    (tmp_path / "steady.yaml").write_text(WALL)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 110, 0, 0))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [sys.executable, "-m", "sim", "run", "steady.yaml", "--live"],
        stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path, env=environment,
    )  # fmt: skip
    os.close(theirs)
    text = b""
    try:
        while part := os.read(ours, 65536):
            text += part
    except OSError:  # Linux says so when the other side has closed
        pass
    os.close(ours)
    shown = text.decode()

    assert process.wait(60) == 0
    assert "steps (all)" in shown
    assert "x real time" in shown
    assert shown.count("╭") > 3  # drawn over and over
    assert shown.rindex("╰") < shown.rindex("hash")


def test_without_the_library_the_display_says_what_to_install(monkeypatch):
    """In a terminal, the display needs an extra, and says which; elsewhere its lines need nothing."""
    monkeypatch.setitem(sys.modules, "rich", None)
    Screen(io.StringIO(), terminal=False)
    with pytest.raises(sim.UsageError, match="the live display needs the package rich") as error:
        Screen(io.StringIO(), terminal=True)
    assert error.value.hint == "install it: pip install 'actor-sim[live]'"
