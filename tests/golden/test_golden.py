"""Golden runs replay: what an earlier version recorded, this one makes again, event by event. See `make`."""

import getpass
import re
import shutil
import socket
from pathlib import Path

import pytest

from sim.record import open_run
from sim.runner import branch, replay
from tests.golden.agents import KINDS
from tests.golden.make import MAKERS, RUNS

LARGEST = 128 * 1024  # a third of which are the texts of its views
"""Bytes of a golden run."""


@pytest.fixture
def golden(name: str, tmp_path: Path) -> Path:
    """A copy of a golden run, so that nothing in the tree is touched."""
    return Path(shutil.copytree(RUNS / name, tmp_path / name))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("name", MAKERS)
def test_every_later_version_replays_it(name, backend, golden):
    """A recorded run is made again event by event, effect by effect and to its final state, on both hosts."""
    found = replay(golden, backend=backend, kinds=KINDS)
    assert found.same, found.difference
    assert found.hash == (found.recorded_hash or found.hash)
    assert found.complete == (name != "killed")


@pytest.mark.parametrize("name", ["calls"])
def test_it_can_be_branched_from(name, golden, tmp_path):
    """A branch of a run of an earlier version that changes nothing comes to the recorded hash: no effect is missing."""
    with open_run(golden) as stored:
        hash, end = stored.info.hash, stored.info.sim_seconds
        last = max(time for (time,) in stored.query("SELECT time_ns FROM effects"))
    assert end is not None
    found = branch(golden, at=last / 10**9 + 0.001, out=tmp_path / "runs", kinds=KINDS, allow_change=True)
    assert found.hash == hash


def test_the_golden_runs_hold_what_they_are_for():
    """Together: both modes, all outcomes and endings, both latencies, all safeties, inputs, a kill, a branch."""
    seen: dict[str, set[object]] = {}
    for name in MAKERS:
        with open_run(RUNS / name, verify=False) as stored:
            seen.setdefault("run", set()).update({stored.info.mode, stored.info.status, stored.info.backend})
            for column in ("outcome", "ending", "latency", "safety"):
                rows = stored.query(f"SELECT {column} FROM effects")  # noqa: S608 - constant
                seen.setdefault(column, set()).update(row[0] for row in rows)
            seen.setdefault("input", set()).update(row[0] for row in stored.query("SELECT kind FROM inputs"))
            seen.setdefault("topic", set()).update(row[0] for row in stored.query("SELECT topic FROM events"))
    assert seen["run"] == {"autonomous", "tick", "finished", "killed", "asyncio", "trio"}
    assert seen["outcome"] == {"ok", "error", None}
    assert seen["ending"] == {"delivered", "timeout", "abandoned", None}
    assert seen["latency"] == {"modelled", "measured"}
    assert seen["safety"] == {"pure", "idempotent", "unsafe"}
    inputs = {"note", "publish", "wake", "pause", "resume", "stop", "branch", "create_loop", "approval.decision"}
    assert seen["input"] == inputs
    assert seen["topic"] >= {
        "message.sent",
        "agent.spawned",
        "action.acquire",
        "action.put",
        "action.get",
        "action.move",
        "action.gather",
    }


@pytest.mark.parametrize("name", MAKERS)
def test_it_tells_nothing_of_the_machine(name):
    """A run holds no path and no name of who made it where, and is small."""
    for file in (RUNS / name).iterdir():
        content = file.read_bytes()
        assert len(content) <= LARGEST
        for word in {socket.gethostname(), str(Path.home()), str(Path(__file__).parents[2]), getpass.getuser()} - {
            "root"
        }:
            assert word.encode() not in content
        assert not re.search(rb"(?<![\w.])/(home|root|tmp|work|usr|var|Users|opt|mnt)/", content)


def test_nothing_else_lies_there():
    """Every golden run has its maker, and every maker its run."""
    assert {path.name for path in RUNS.iterdir()} == set(MAKERS)
    for name in MAKERS:
        files = {path.name for path in (RUNS / name).iterdir()}
        assert files - {"run.unsafe"} == {"run.db", "run.head", "run.lock", "scenario.yaml"}
