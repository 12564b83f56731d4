"""Turns of agents run in C where it is there; every end of a turn is the one that the functions in Python define."""

import subprocess
import sys
from pathlib import Path

import pytest

from sim.kernel import COMPILED

PROGRAM = Path(__file__).with_name("turns_program.py")


def _course(*arguments: str) -> str:
    done = subprocess.run([sys.executable, str(PROGRAM), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not COMPILED, reason="the compiled part is not here")
@pytest.mark.parametrize("level", ["all", "changes", "samples"])
@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_turns_end_alike_in_c_and_in_python(mode, level):
    """Refusals, errors, waits, further actions and deaths give the same errors, counts and hash, compiled or not."""
    assert _course("compiled", mode, level) == _course("plain", mode, level)
