"""A scenario is the same in every way of running it: the checks that all families share."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import sim
from sim.runner.options import Backend
from tests.agents.renewed import renewed_agents

ROOT = Path(__file__).parents[2]


def same_everywhere(file: Path, *, mode: Any, until: str, salts: tuple[str, ...] = ("271828",)) -> None:
    """Check that two backends, and processes with other hash seeds, give one hash.

    Args:
        file: the scenario.
        mode: the mode.
        until: the end of the run.
        salts: values of PYTHONHASHSEED.
    """
    hashes = {sim.run(file, until=until, mode=mode, backend=backend, out=None).hash for backend in ("asyncio", "trio")}
    code = f"import sim; print(sim.run({str(file)!r}, until={until!r}, mode={mode!r}, out=None).hash)"
    for salt in salts:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": salt},
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        hashes.add(done.stdout.strip())
    assert len(hashes) == 1


def same_when_renewed(file: Path, *, mode: Any, until: str) -> list[str]:
    """Check that agents that are made anew before each iteration give the same hash; return the names of these."""
    plain = sim.run(file, until=until, mode=mode, out=None)
    with renewed_agents() as replaced:
        renewed = sim.run(file, until=until, mode=mode, out=None)
    assert renewed.hash == plain.hash
    return replaced


def same_in_a_replay(file: Path, folder: Path, *, until: str, backend: Backend) -> None:
    """Check that a replay of a run is exact and complete."""
    replayed = sim.replay(sim.run(file, until=until, out=folder).run or "", backend=backend)
    assert replayed.same, replayed.difference
    assert replayed.complete
