"""Kills the process of a run at random moments, and resumes the run each time."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import sim
from sim.record import open_run
from tests.helpers import command

ROOT = Path(__file__).parents[2]


def killed_and_resumed(file: Path, folder: Path, *, kills: int, seed: int, until: str, longest: float = 1.0) -> Path:
    """Return the folder of a run that was killed and resumed, after a comparison with a run in one go.

    Args:
        file: the scenario.
        folder: where the runs go.
        kills: how often it is killed, unless it ends before.
        seed: of the moments.
        until: the end of the run.
        longest: the most real seconds from the begin of the record to a kill.
    """
    whole = sim.run(file, until=until, out=folder / "whole")
    chance, runs, hits = random.Random(seed), folder / "killed", 0
    arguments = ["run", str(file), "--set", f"until={until}", "--out", str(runs), "--json"]
    for _ in range(kills):
        process = subprocess.Popen(
            [sys.executable, "-m", "sim", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while not any(runs.glob("[!.]*/run.db")):
            time.sleep(0.01)
        time.sleep(chance.uniform(0, longest))
        process.kill()
        process.communicate()
        if process.returncode != -signal.SIGKILL:  # it ended before
            break
        hits += 1
        arguments = ["resume", str(next(runs.glob("[!.]*/"))), "--json"]
    run = next(runs.glob("[!.]*/"))
    assert hits, "the run ended before it was killed: let it be longer"
    with open_run(run, verify=False) as stored:
        ended = stored.info.status == "finished"
    if not ended:
        code, _, err = command("resume", run)
        assert code == 0, err
    with open_run(run) as stored:
        assert stored.info.hash == whole.hash
        stored.verify()
    return run
