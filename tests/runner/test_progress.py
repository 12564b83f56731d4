"""`progress=True`: a bar in a terminal, and nothing where nobody looks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sim

SLOW = "name: slow\nuntil: 1s\nexecution: {clock: wall}\nagents: [{name: a, loop: {min_loop_delay: 0.1}}]\n"
CODE = "import sim; print(sim.run('slow.yaml', progress=True).status)"


@pytest.mark.slow
def test_a_bar_is_shown_on_a_terminal(tmp_path):
    """The bar names the scenario, the time and what agents do, on stderr alone, and is removed at the end."""
    pty = pytest.importorskip("pty", reason="Windows has no pseudo-terminals")
    (tmp_path / "slow.yaml").write_text(SLOW)
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(
        [sys.executable, "-c", CODE], cwd=tmp_path, stdout=subprocess.PIPE, stderr=theirs, env=environment, text=True
    ) as process:
        os.close(theirs)
        shown = b""
        while part := _read(ours):
            shown += part
        assert process.stdout is not None
        assert process.stdout.read() == "finished\n"
    os.close(ours)
    text = shown.decode()
    assert "slow" in text
    assert "of 1s (" in text
    assert "1 running" in text
    assert text.rstrip().endswith(("\x1b[2K", "\x1b[?25h"))  # the line is erased, the cursor is shown again


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux: the program has ended
        return b""


def test_nothing_is_shown_without_a_terminal(tmp_path, capfd):
    """Where stderr is a file, as in tests, neither stdout nor stderr gets anything; results are the same."""
    (tmp_path / "slow.yaml").write_text(SLOW)
    results = [sim.run(tmp_path / "slow.yaml", progress=shown, clock="virtual") for shown in (True, False, None)]
    assert len({result.hash for result in results}) == 1
    assert tuple(capfd.readouterr()) == ("", "")


def test_a_bar_is_for_runs_from_a_record_too(tmp_path: Path):
    """Replay, resume and branch take the same option."""
    (tmp_path / "slow.yaml").write_text(SLOW)
    result = sim.run(tmp_path / "slow.yaml", out=tmp_path, clock="virtual", progress=True)
    assert sim.replay(result, progress=True).same
    assert sim.branch(result, at="500ms", progress=True).status == "finished"
