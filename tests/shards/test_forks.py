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


AGAIN = """
import json, os, signal, sys
from sim.runner.shards import processes, run_on_shards
from tests.shards.worlds import world

class Early(processes.ForkedProcess):
    def __init__(self, whole):
        super().__init__(whole)
        if sys.argv[1] == "early" and not os.environ.get("KILLED"):
            os.environ["KILLED"] = "1"
            os.kill(self._pid, signal.SIGKILL)
            os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)

processes.ForkedProcess = Early
if sys.argv[1] == "ignored":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
runs = [run_on_shards(world(3), 2, out=None) for _ in range(1 if sys.argv[1] == "early" else 3)]
pipes = len(os.listdir("/proc/self/fd"))
print(json.dumps([[run.hash for run in runs], [run.services["shards"]["restarts"] for run in runs], pipes]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")
@pytest.mark.parametrize(("case", "restarts"), [("again", [0, 0, 0]), ("ignored", [0, 0, 0]), ("early", [1])])
def test_forks_serve_run_after_run(case: str, restarts: list[int]) -> None:
    """Later runs of a program have forks as the first one; ended processes that a program ignores do no harm; a fork
    that is killed before it has its setup is replaced; and no pipes are left open."""
    done = subprocess.run(
        [sys.executable, "-c", AGAIN, case], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    hashes, restarted, pipes = json.loads(done.stdout)
    assert set(hashes) == {sim.run(world(3), out=None).hash}
    assert restarted == restarts
    assert pipes < 10
