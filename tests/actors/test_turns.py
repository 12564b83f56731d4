"""Turns of agents run in C where it is there; every end of a turn is the one that the functions in Python define."""

import subprocess
import sys
from pathlib import Path

import pytest

from sim.kernel import COMPILED

PROGRAM = Path(__file__).with_name("turns_program.py")


def _course(how: str) -> list[str]:
    command = [sys.executable, str(PROGRAM), how]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="the compiled part is not here")
def test_turns_end_alike_in_c_and_in_python():
    """Refusals, errors, waits, further actions and deaths give the same errors, counts and hash, compiled or not.

    They do so in both modes of agents, with each level of recording.
    """
    compiled = _course("compiled")
    assert compiled == _course("plain")
    assert sum(": " in line and line.split()[0] in ("true", "false") for line in compiled) == 6
