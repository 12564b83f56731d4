"""Records of synchronised rounds: replayed, gone on with after a kill or Ctrl-C, and not branched from."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sim.base.errors import UsageError
from sim.record import open_run, recorder, verifying_recorder, writer
from sim.runner import RunResult, branch, replay, resume, run
from tests.sync.sync_agents import KINDS, Walker, scene, walkers

ROOT = Path(__file__).parents[2]
TEXT = scene(
    walkers(5, "{pays: 0.1, naps: 0.1, rests: 0.1}", more="balance: 9"),
    "{name: c, count: 2, kind: counter}",
    until="5m",
)
both_hosts = pytest.mark.parametrize("backend", ["asyncio", "trio"])


class Interrupts(Walker):
    """Has the run suspended, once, while it is at work."""

    suspend: ClassVar[bool] = True
    host: ClassVar[Any] = None

    async def decide_action(self) -> Any:
        if self.world.now == 120 and self.suspend:
            self.host.suspend()
        return await super().decide_action()


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    """Write and compare in small pieces, so that a short run leaves several."""
    for module in (recorder, writer, verifying_recorder):
        monkeypatch.setattr(module, "CHUNK", 100)
    monkeypatch.setattr(recorder, "_ROWS", 50)


def recorded(folder: Path, sync: str = "causal", kinds: Any = KINDS, **options: Any) -> RunResult:
    """Record a run."""
    file = folder / "rounds.yaml"
    file.write_text(TEXT, encoding="utf-8")
    return run(file, out=folder / "runs", kinds=kinds, overrides=[f"execution.sync={sync}"], **options)


def path_of(made: RunResult) -> Path:
    """Return the folder of a run."""
    assert made.run is not None
    return Path(made.run)


@pytest.mark.slow
@both_hosts
@pytest.mark.parametrize("sync", ["causal", "causal-radius"])
def test_a_record_is_made_again_on_either_host(tmp_path, sync, backend):
    """A replay comes to the same events and the same hash, on asyncio and on trio."""
    made = recorded(tmp_path, sync)
    found = replay(path_of(made), kinds=KINDS, backend=backend)
    assert (found.same, found.complete, found.hash) == (True, True, made.hash), found.difference


def test_the_events_on_record_are_in_order(tmp_path):
    """What is on disk is in the order of keys, and numbered so: nobody who reads it sees time go back."""
    with open_run(path_of(recorded(tmp_path))) as stored:
        keys = [tuple(event)[:5] for event in stored.events()]
    assert keys
    assert keys == sorted(keys)


CHILD = """
import os, signal, sys, threading
from pathlib import Path
from sim.base import crashpoints
from sim.record import verifying_recorder, recorder, writer
from tests.sync.sync_agents import KINDS, Counter
from tests.sync.test_sync_record import recorded
for module in (recorder, writer, verifying_recorder):
    module.CHUNK = 100
recorder._ROWS = 50
committed = threading.Event()
crashpoints.hook = lambda point: committed.set() if point == "writer.committed" else None
class Killed(Counter):
    async def decide_action(self):
        if self.world.now == 200:  # all have come as far, so much is recorded
            committed.wait(30)
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().decide_action()
recorded(Path(sys.argv[1]), kinds={**KINDS, "counter": Killed})
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_killed_run_is_gone_on_with(tmp_path):
    """Killed with -9 in the middle and resumed, a run comes to the hash of one that was not killed."""
    whole = recorded(tmp_path)
    killed = tmp_path / "killed"
    killed.mkdir()
    ended = subprocess.run(
        [sys.executable, "-c", CHILD, str(killed)], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert ended.returncode == -signal.SIGKILL
    (folder,) = (killed / "runs").iterdir()
    with open_run(folder) as stored:
        assert stored.info.status == "killed"
        assert 0 < sum(1 for _ in stored.events()) < whole.events
    result = resume(folder, kinds=KINDS, backend="trio")
    assert (result.status, result.hash, result.events) == ("finished", whole.hash, whole.events)
    assert replay(folder, kinds=KINDS).same


@pytest.mark.slow
@both_hosts
def test_an_interrupted_run_is_gone_on_with(tmp_path, monkeypatch, backend):
    """Suspended (as Ctrl-C does) while agents are at different times, a run can be replayed as far as it came, and
    goes on to the hash of one that was not interrupted.
    """
    kinds: Any = {**KINDS, "walker": Interrupts}

    def note(runner: Any) -> None:
        Interrupts.host = runner.host

    monkeypatch.setattr(Interrupts, "suspend", False)
    whole = recorded(tmp_path, kinds=kinds)
    monkeypatch.setattr(Interrupts, "suspend", True)
    part = recorded(tmp_path, kinds=kinds, begun=note, backend=backend)
    assert part.status == "interrupted"
    assert 0 < part.events < whole.events
    monkeypatch.setattr(Interrupts, "suspend", False)
    found = replay(path_of(part), kinds=kinds, backend=backend)
    assert (found.same, found.complete) == (True, False), found.difference
    result = resume(path_of(part), kinds=kinds, backend=backend)
    assert (result.status, result.hash, result.events) == ("finished", whole.hash, whole.events)


@pytest.mark.slow
def test_there_is_no_moment_to_branch_from(tmp_path):
    """A branch leaves a run at one moment, and agents stand at different ones: refused, but for the very beginning."""
    made = path_of(recorded(tmp_path))
    with pytest.raises(UsageError, match="agents are at different times"):
        branch(made, at="1m", kinds=KINDS)
    again = branch(made, at=0, overrides=["execution.sync=barrier"], kinds=KINDS)
    with open_run(made) as stored:
        assert again.hash == stored.info.hash
