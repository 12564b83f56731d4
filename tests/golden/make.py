"""Golden runs: small recorded runs that every later version must replay to the same hash.

They are the promise to whoever has runs of an earlier version: what was recorded can still be made again. Renew one
only if what is recorded had to change on purpose (an event gained a field, an order was mended, the tables have a new
version), never to make a failing test pass: a run that no longer replays is a run of a user that no longer replays.
Renewing needs a reason, which goes into the changelog: say which runs changed and why. Runs that a change does not
touch are left alone, so that old ones stay old.

    python -m tests.golden.make NAME...     # renews these runs; without a name it says which there are

Nothing in a run may tell of the machine it was made on; the test beside this file looks.
"""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from sim.base import crashpoints
from sim.runner import branch, run
from tests.golden.agents import KINDS

HERE = Path(__file__).parent
RUNS = HERE / "runs"


def town(out: Path) -> Any:
    """Autonomous loops: messages, events, pools, places, artifacts, limits, spawned agents."""
    return run(HERE / "town.yaml", out=out)


def town_tick(out: Path) -> Any:
    """The same in tick mode, on trio."""
    return run(HERE / "town.yaml", out=out, mode="tick", backend="trio")


def foragers(out: Path) -> Any:
    """A grid that wraps, and a stock at its places that agents gather."""
    return run(HERE / "foragers.yaml", out=out)


def calls(out: Path) -> Any:
    """Modelled and measured effects: answers, failures, timeouts, and some in flight at the end."""
    return run(HERE / "calls.yaml", out=out, kinds=KINDS)


def inputs(out: Path) -> Any:
    """Calls from outside: publish, wake, pause, resume, stop, and an input of the host's own."""
    return run(HERE / "inputs.yaml", out=out, kinds=KINDS, overrides=["limits.calls.agent=3 per 10s"])


def desk(out: Path) -> Any:
    """A chat: budgets, messages that are withheld and summarised; interventions, and a survey."""
    return run(HERE / "desk.yaml", out=out)


def house(out: Path) -> Any:
    """A goal and an employee: a thread that is revised and removed, memories that are pruned and summarised."""
    return run(HERE / "house.yaml", out=out)


def workshop(out: Path) -> Any:
    """A task of executors: retries of models, and a task that one executor returns and another one ends."""
    return run(HERE / "workshop.yaml", out=out)


def mishaps(out: Path) -> Any:
    """What goes wrong: crashes, alerts, gates that end unused, tasks and steps that fail, refusals."""
    return run(HERE / "mishaps.yaml", out=out, kinds=KINDS)


def residents(out: Path) -> Any:
    """Generative agents: plans, talks, reflections, and an answer that no model gives."""
    return run(HERE / "residents.yaml", out=out)


def branched(out: Path) -> Any:
    """A branch: its past is that of a run with inputs, its future has another limit, another event, another seed."""
    with tempfile.TemporaryDirectory() as folder:
        origin = inputs(Path(folder))
        overrides = ["limits.calls.agent=1 per 5s", "events=[{at: 9s, every: 2s, topic: weather.sun}]"]
        return branch(origin.run, at="8s", overrides=overrides, seed=11, out=out, kinds=KINDS)


def killed(out: Path) -> None:
    """A run whose process was killed when an effect had begun."""
    code = f"from tests.golden.make import die; die({str(out)!r})"
    ended = subprocess.run([sys.executable, "-c", code], cwd=HERE.parents[1], check=False)
    assert ended.returncode == -signal.SIGKILL


def die(out: str) -> None:
    """Run, and be killed."""
    started = 0

    def kill(point: str) -> None:
        nonlocal started
        started += point == "effect.started"
        if started == 25:
            os.kill(os.getpid(), signal.SIGKILL)

    crashpoints.hook = kill
    run(HERE / "calls.yaml", out=Path(out), kinds=KINDS)


MAKERS: dict[str, Callable[[Path], Any]] = {
    "town": town,
    "town-tick": town_tick,
    "foragers": foragers,
    "desk": desk,
    "house": house,
    "workshop": workshop,
    "mishaps": mishaps,
    "residents": residents,
    "calls": calls,
    "inputs": inputs,
    "branch": branched,
    "killed": killed,
}


def make(name: str) -> None:
    """Record a golden run anew."""
    with tempfile.TemporaryDirectory() as folder:
        MAKERS[name](Path(folder))
        (made,) = Path(folder).iterdir()
        with closing(sqlite3.connect(made / "run.db")) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")  # of the killed one: the log goes into the file
            connection.execute("PRAGMA page_size = 1024")  # small pages for small runs
            connection.execute("VACUUM")
            connection.execute("PRAGMA journal_mode = WAL")  # as a run is left
        shutil.rmtree(RUNS / name, ignore_errors=True)
        shutil.copytree(made, RUNS / name)


def main(names: list[str]) -> None:
    """Renew the runs that are named."""
    if not names or not set(names) <= set(MAKERS):
        sys.exit(f"{__doc__}\nThe golden runs: {', '.join(MAKERS)}")
    for name in names:
        make(name)


if __name__ == "__main__":
    main(sys.argv[1:])
