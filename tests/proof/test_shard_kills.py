"""Kill -9 shards and their coordinator at random moments: the run ends with the hash of one process."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.record import open_run
from tests.shards.worlds import world

ROOT = Path(__file__).parents[2]
WHOLE, SAMPLE = 100, 4
"""Kills in all with `SIM_CAMPAIGN=whole`; else a sample, another one for each commit."""

pytestmark = [
    pytest.mark.proof,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="shards are found in /proc"),
]


def shards_of(coordinator: int) -> list[int]:
    """Return the process ids of the shards of a process: its forks, or new processes."""
    found, own = [], Path(f"/proc/{coordinator}/cmdline")
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            if parent == coordinator:
                line = (status.parent / "cmdline").read_bytes()
                if b"shards.shard" in line or line == own.read_bytes():
                    found.append(int(status.parent.name))
        except OSError:
            continue  # it has ended meanwhile
    return sorted(found)


def draws() -> tuple[random.Random, int]:
    """Return what draws the moments, and how many kills to make."""
    if os.environ.get("SIM_CAMPAIGN") == "whole":
        return random.Random(1), WHOLE
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return random.Random(commit.stdout), SAMPLE


def test_a_run_on_shards_survives_kills(tmp_path, tell):
    """A killed shard is restarted; after the coordinator is killed, no shard is left and `sim resume` continues the
    record. The hash is that of one process, and the record is whole."""
    rng, count = draws()
    scenario = {**world(3), "until": "40m", "stop": None}
    (tmp_path / "isles.yaml").write_text(json.dumps(scenario))
    expected = sim.run(scenario, out=None).hash
    found = {
        "kills of shards": 0,
        "restarts": 0,
        "kills of coordinators": 0,
        "resumed": 0,
        "run again": 0,
        "ended before": 0,
    }
    for number in range(count):
        out = tmp_path / f"runs-{number}"
        command = ["run", "isles.yaml", "--shards", "2", "--out", str(out)]
        run = called(tmp_path, *command)
        while len(shards := shards_of(run.pid)) < 2 and run.poll() is None:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 3))
        if number % 2 and shards:
            kill(rng.choice(shards))
            result = ended(run)
            found["kills of shards"] += 1
            found["restarts"] += result["services"]["shards"]["restarts"]
        else:
            run.kill()
            run.communicate()
            wait_until_gone(shards)
            kept = [folder for folder in out.glob("generated-*") if (folder / "run.db").exists()]
            if kept and ended_before(kept[0]):
                found["ended before"] += 1
                continue
            found["kills of coordinators"] += 1
            found["resumed" if kept else "run again"] += 1
            result = ended(called(tmp_path, *(["resume", str(kept[0])] if kept else command)))
        assert result["hash"] == expected
        (folder,) = out.glob("generated-*")
        ended(called(tmp_path, "verify", str(folder)))
    tell(str(found))
    kills = found["kills of shards"] + found["kills of coordinators"]
    assert kills + found["ended before"] == count
    assert kills > count / 2, "most runs ended before they were killed: let them be longer"


def called(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a command in a folder."""
    command = [sys.executable, "-m", "sim", *arguments, "--json"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(command: subprocess.Popen[str]) -> Any:
    """Return what a command printed, which must have succeeded."""
    out, err = command.communicate()
    assert command.returncode == 0, err
    return json.loads(out)


def ended_before(folder: Path) -> bool:
    """Return whether a run had finished when its process was killed."""
    with open_run(folder) as run:
        return run.info.status == "finished"


def kill(process: int) -> None:
    """Kill a process, if it has not ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def wait_until_gone(processes: list[int]) -> None:
    """Wait until processes have ended: they see that their pipes are closed."""
    for process in processes:
        while Path(f"/proc/{process}").exists():
            time.sleep(0.01)
