"""Shards that begin as forks of the process that has built the world."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import sim
from tests.shards.worlds import world

ROOT = Path(__file__).parents[2]

PROGRAM = """
import json, os, sys, threading
import sim
from sim.runner.shards import processes
from sim.runner.shards.sharded import on_shards
from tests.shards.worlds import world

class Noted(processes.ForkedProcess):
    pids = []

    def __init__(self, whole):
        super().__init__(whole)
        self.pids.append(self._pid)

class Killed(processes.ShardProcess):
    orders = 0
    kinds = []

    def __init__(self, number, setup, whole=None):
        super().__init__(number, setup, whole)
        self.kinds.append("new" if whole is None else "fork")

    def ask(self, order):
        self.orders += 1
        if sys.argv[1] == "kill" and self.orders == 8 and len(self.kinds) == 2 and self.number == 2:
            self._process.kill()
            self._process.wait()
        super().ask(order)

processes.ForkedProcess, processes.ShardProcess = Noted, Killed
if sys.argv[1] == "threads":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
result = on_shards(2)(world(3), out=None)
left = [pid for pid in Noted.pids if os.path.exists(f"/proc/{pid}")]
print(json.dumps([result.hash, result.services["shards"]["restarts"], Killed.kinds, left]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")
@pytest.mark.parametrize(
    ("case", "restarts", "kinds"),
    [("plain", 0, ["fork", "fork"]), ("kill", 1, ["fork", "fork", "new"]), ("threads", 0, ["new", "new"])],
)
def test_a_fork_is_a_shard_as_a_new_process_is(case: str, restarts: int, kinds: list[str]) -> None:
    """A shard begins as a fork if its program has no other threads; a new process replaces one that is killed;
    the hash is that of one process, and none of them is left."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, case], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [sim.run(world(3), out=None).hash, restarts, kinds, []]
