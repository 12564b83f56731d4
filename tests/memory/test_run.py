"""A keeper prunes daily with a summariser that works outside: recorded, replayed, and shown by the views."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.kernel.codec import encode
from sim.memory import Memories, Memory
from sim.record import open_run

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = """
name: keeper
until: 20d
seed: 3
memory: {cap: 20, old: 1d}
agents:
  - name: writer
    count: 3
    loop: {min_loop_delay: 5h}
    rules: [{do: {remember: {content: "='lawn ' + str(randint(1, 99))", importance: "=randint(1, 9)", expires: 9d}}}]
  - {name: keeper, kind: keeper}
"""

calls: list[Any] = []
dies_at = 0  # the number of the call in which the process is killed; 0: none


class Keeper(sim.Agent):
    """Prunes each day at 02:00, and archives a session about it."""

    async def decide_action(self) -> sim.Action | None:
        memories = Memories.of(self.world)
        if self.world.now:
            report = await memories.prune(summarise)
            day = str(round(self.world.now // 86400))
            talk = [{"role": "assistant", "content": report.sentence}]
            now = self.world.kernel.now
            times = {"started_ns": now, "completed_ns": now}
            memories.archive("keeper", day, talk, f"Day {day}.", "done", **times, token_count=9)
            assert encode(memories.search("keeper", "maintenance", "last_week"))
        tomorrow = 86400 * (1 + self.world.now // 86400)
        self.loop.sleep(sim.WakeCondition.parse({"for": tomorrow + 7200 - self.world.now}))
        return None


async def summarise(agent: str, memories: Sequence[Memory]) -> str:
    """Ask a summariser outside, which fails for `writer-2`."""
    request = {"agent": agent, "texts": [memory.content for memory in memories]}
    outcome = await sim.perform(sim.Effect("summary", request, outside, latency_ns=10**9, safety="pure"))
    if outcome.kind != "ok":
        raise RuntimeError("no summary")
    text: str = outcome.value
    return text


def outside(request: Any, key: str) -> str:
    """Make a summary."""
    calls.append(request)
    if len(calls) == dies_at:
        os.kill(os.getpid(), signal.SIGKILL)
    if request["agent"] == "writer-2":
        raise ValueError("busy")
    return f"{len(request['texts'])} lawns"


def record(folder: Path, backend: Any = "asyncio", mode: Any = "autonomous") -> sim.RunResult:
    """Run the scenario."""
    folder.mkdir(exist_ok=True)
    file = folder / "keeper.yaml"
    file.write_text(SCENARIO)
    tick = ["execution.tick.period=1h"]
    return sim.run(file, out=folder, kinds={"keeper": Keeper}, backend=backend, mode=mode, overrides=tick)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_runs_are_equal_and_a_replay_asks_nobody(tmp_path, mode):
    """Both backends give one hash; a replay has the same final memories, and calls no summariser."""
    one = record(tmp_path, mode=mode)
    assert (one.errors, one.status) == (0, "finished")
    assert record(tmp_path, "trio", mode).hash == one.hash
    assert one.run is not None
    calls.clear()
    assert sim.replay(one.run, kinds={"keeper": Keeper}).same
    assert calls == []
    numbers = one.services["memories"]
    assert numbers["sessions"] >= 19
    assert numbers["summaries"] > 1
    assert numbers["added"] - numbers["pruned"] == numbers["held"]


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_hash(tmp_path):
    """Killed while a summary is made, a run is resumed: its memories come back from the record."""
    whole = record(tmp_path / "whole")
    code = (
        "import pathlib, sys; from tests.memory import test_run;"
        "test_run.dies_at = 12; test_run.record(pathlib.Path(sys.argv[1]))"
    )
    folder = tmp_path / "killed"
    done = subprocess.run([sys.executable, "-c", code, str(folder)], cwd=ROOT, check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    (run,) = (path.parent for path in folder.glob("*/run.db"))
    resumed = sim.resume(run, kinds={"keeper": Keeper})
    assert resumed.hash == whole.hash
    assert resumed.services == whole.services


@pytest.mark.proof
def test_the_hash_does_not_depend_on_the_process(tmp_path):
    """Two processes with different hash seeds give the same hash."""
    code = (
        "import json, pathlib, sys; from tests.memory.test_run import record;"
        "print(json.dumps(record(pathlib.Path(sys.argv[1])).hash))"
    )
    found = set()
    for seed in ("1", "2"):
        command = [sys.executable, "-c", code, str(tmp_path / seed)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=120)
        found.add(json.loads(done.stdout))
    assert len(found) == 1


@pytest.mark.slow
def test_the_views_show_what_happened(tmp_path):
    """Each memory has one row, with its end and why; each session has one; they agree with the result of the run."""
    result = record(tmp_path)
    assert result.run is not None
    with open_run(Path(result.run)) as run:
        numbers = result.services["memories"]
        ends = dict(run.query('SELECT "end", count(*) FROM memories GROUP BY 1'))
        assert sum(ends.values()) == numbers["added"]
        assert ends.pop(None) == numbers["held"]
        assert set(ends) == {"expired", "summarised", "cap"}
        assert sum(ends.values()) == numbers["pruned"]
        summaries = run.query("SELECT agent, kind, content FROM memories WHERE source = 'summary'")
        assert len(summaries) == numbers["summaries"]
        assert {agent for agent, _, _ in summaries} == {"writer-1", "writer-3"}, "that of writer-2 always failed"
        assert all(kind == "context" and content.endswith(" lawns") for _, kind, content in summaries)
        assert run.query("SELECT count(*) FROM memories WHERE ended < time") == [(0,)]
        columns = "agent, session, summary, reason, messages, tokens, completed - started"
        first = run.query(f"SELECT {columns} FROM sessions")[0]  # noqa: S608 - our own names
        assert first == ("keeper", "1", "Day 1.", "done", 1, 9, 0.0)
