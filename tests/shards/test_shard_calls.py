"""Calls of models at endpoints on shards: one governor makes them, once each, with the hash of one process."""

import hashlib
import json
import signal
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar

import pytest

import sim
from sim.base.errors import RunError, UsageError
from sim.kernel.codec import as_sent
from sim.llm.access import Access
from sim.llm.batches.settings import Batching
from sim.record import open_run
from sim.runner.shards import run_on_shards, sharded
from sim.runner.shards.processes import ShardProcess
from sim.runner.shards.protocol import Order, Setup
from sim.runner.shards.sharded import on_shards
from tests.llm.endpoint import Endpoint, Reply, Seen, error, whole
from tests.shards.test_shards import Inside

KEY = "sk-a-key-that-no-shard-may-have"
ISLES: dict[str, Any] = {
    "name": "isles",
    "until": "40s",
    "islands": {"latency": "5s", "of": {"north": ["a"], "south": ["b"], "east": ["c"]}},
    "models": {"latency": {"uniform": [5, 9]}, "prices": {"m": {"input": 1, "output": 2}}},
    "agents": [
        {
            "name": name,
            "count": 3,
            "start": "=uniform(0, 3)",
            "state": {"asked": 0, "mail": 0},
            "rules": [
                {"when": "message is not None", "do": "noop", "set": {"mail": "=mail + 1"}},
                {
                    "when": "chance(0.6)",
                    "do": {"ask": {"prompt": "=me + ' ' + str(now)"}},
                    "set": {"asked": "=asked + 1"},
                },
                {"when": "chance(0.3)", "do": {"send": {"to": f"{other}-1", "after": "5s"}}},
                {"do": {"sleep": {"for": "=uniform(1, 3)"}}},
            ],
        }
        for name, other in ("ab", "bc", "ca")
    ],
    "metrics": {"every": "7s", "values": {"mail": "total('a', 'mail')"}},
}


def _answer(seen: Seen) -> Reply:
    """Answer with a text that follows from the request, after a time that does."""
    digest = hashlib.sha256(json.dumps(seen.body, sort_keys=True).encode()).hexdigest()
    return Reply(body=whole(f"answer {digest[:8]}"), delay=int(digest[0], 16) / 500)


def _access(endpoint: Endpoint, **more: Any) -> Access:
    return Access(models=("vllm:m",), base_url=endpoint.url, headers={"Authorization": f"Bearer {KEY}"}, **more)


def _asked(endpoint: Endpoint) -> Counter[str]:
    """Return how often each question was asked; each is different, as it has its agent and its time."""
    return Counter(seen.body["messages"][-1]["content"] for seen in endpoint.seen if "messages" in seen.body)


def _figures(result: sim.RunResult) -> dict[str, Any]:
    return {name: part for name, part in result.models.items() if name not in ("concurrency", "edge_workers")}


@pytest.mark.slow
def test_calls_of_shards_have_the_hash_of_one_process(tmp_path: Path) -> None:
    """With the same answers, the record, the metrics and the cost are those of one process on each number of shards,
    and the record is replayed without the endpoint."""
    with Endpoint(_answer) as endpoint:
        one = sim.run(ISLES, out=None, access=_access(endpoint))
        for shards in (1, 2, 3):
            run = on_shards(shards, nullcontext(Inside))(ISLES, out=tmp_path / str(shards), access=_access(endpoint))
            assert (run.hash, run.metrics, _figures(run)) == (one.hash, one.metrics, _figures(one))
            assert run.models["concurrency"].keys() == {"vllm"}
    assert one.models["total"]["calls"] > 15
    assert run.run is not None
    with open_run(run.run) as kept:
        kept.verify()
        assert kept.counts()["effects"] > 15
    again = sim.replay(run.run)
    assert (again.same, again.complete) == (True, True)


class Killed(ShardProcess):
    """The second shard, whose first process is killed at its sixth order, while calls are under way."""

    LIVES: ClassVar[list[None]] = []
    SENT: ClassVar[list[bytes]] = []
    _orders = 0

    def __init__(self, number: int, setup: Setup) -> None:
        super().__init__(number, setup)
        assert isinstance(self._process, subprocess.Popen)
        folder = Path("/proc", str(self._process.pid))
        seen = [folder / name for name in ("cmdline", "environ")] if folder.exists() else []
        self.SENT.extend([as_sent(setup), *(path.read_bytes() for path in seen)])

    def ask(self, order: Order) -> None:
        """Kill the process before its sixth order."""
        self.SENT.append(as_sent(order))
        self._orders += 1
        if self._orders == 6 and self.number == 2 and self.LIVES:
            self.LIVES.pop()
            self._process.kill()
            self._process.wait()
        super().ask(order)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_no_call_is_made_twice_when_a_shard_is_killed(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new process of a shard gets the answers that the first one had: each question is asked once and billed once,
    also by edge workers; and no shard gets the key, as an argument, a variable or an order."""
    monkeypatch.setattr(Killed, "LIVES", [None])
    monkeypatch.setattr(Killed, "SENT", [])
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with Endpoint(_answer) as endpoint:
        one = sim.run(ISLES, out=None, access=_access(endpoint))
        endpoint.seen.clear()
        options = {"edge_workers": str(workers)} if workers else {}
        run = on_shards(2, nullcontext(Killed))(ISLES, out=None, access=_access(endpoint), **options)
        assert max(_asked(endpoint).values()) == 1
    assert run.services["shards"]["restarts"] == 1
    assert (run.hash, _figures(run)) == (one.hash, _figures(one))
    assert run.models.get("edge_workers", {}).get("processes", 0) == workers
    assert not [sent for sent in Killed.SENT if KEY.encode() in sent or endpoint.url.encode() in sent]


CHILD = """
import json, os, signal, sys, time
from contextlib import nullcontext
import sim.base.crashpoints as crashpoints
from sim.llm.access import Access
from sim.runner.shards.sharded import on_shards
from tests.shards.test_shards import Inside

left = [9]
def kill(point):
    left[0] -= point == sys.argv[3]
    if not left[0]:
        time.sleep(0.5)  # so that the answers before this one are on disk
        os.kill(os.getpid(), signal.SIGKILL)
crashpoints.hook = kill
access = Access(models=("vllm:m",), base_url=sys.argv[1])
on_shards(2, nullcontext(Inside))(json.loads(sys.stdin.read()), out=sys.argv[2], access=access)
"""


@pytest.mark.slow
@pytest.mark.parametrize("point", ["effect.started", "effect.recorded"])
def test_a_killed_coordinator_is_resumed(tmp_path: Path, point: str) -> None:
    """If the coordinator is killed while calls are under way, `sim resume` continues the run in one process to the same
    hash. Only calls without an answer on record are made again."""
    with Endpoint(_answer) as endpoint:
        one = sim.run(ISLES, out=None, access=Access(models=("vllm:m",), base_url=endpoint.url))
        endpoint.seen.clear()
        command = [sys.executable, "-c", CHILD, endpoint.url, str(tmp_path), point]
        folder = Path(__file__).parents[2]
        ended = subprocess.run(command, input=json.dumps(ISLES).encode(), cwd=folder, check=False)
        assert ended.returncode == -signal.SIGKILL
        (path,) = tmp_path.iterdir()
        with open_run(path) as run:
            rows = run.query("SELECT request ->> '$.messages[#-1].content' FROM effects WHERE outcome IS NOT NULL")
            answered = {asked for (asked,) in rows}
        assert answered <= _asked(endpoint).keys()
        assert answered or point == "effect.started"
        resumed = sim.resume(path, access=Access(base_url=endpoint.url))
        assert resumed.hash == one.hash
        assert {asked for asked in answered if _asked(endpoint)[asked] > 1} == set()


def test_an_endpoint_that_refuses_the_first_call_ends_the_run(tmp_path: Path) -> None:
    """A wrong key fails the run with the sentence with which one process stops it."""
    with Endpoint(lambda seen: error(401, "no such key")) as endpoint:
        one = sim.run(ISLES, out=None, access=_access(endpoint))
        assert one.stopped_by is not None
        with pytest.raises(RunError) as caught:
            on_shards(2, nullcontext(Inside))(ISLES, out=tmp_path, access=_access(endpoint))
    assert str(caught.value) == one.stopped_by
    assert KEY not in str(caught.value)


@pytest.mark.slow
def test_shards_whose_models_are_at_endpoints_are_no_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork would have the key in its memory, so these shards begin as new processes."""

    def fork(whole: object) -> None:
        raise AssertionError("a fork was made")

    monkeypatch.setattr(sharded, "Forks", fork)
    with Endpoint(_answer) as endpoint:
        assert run_on_shards({**ISLES, "until": "9s"}, 2, out=None, access=_access(endpoint)).models["total"]["calls"]
    with pytest.raises(AssertionError, match="a fork was made"):
        run_on_shards(ISLES, 2, out=None)


def test_batches_are_refused_on_shards() -> None:
    """Calls in batches take hours, and are not made for shards."""
    access = Access(models=("vllm:m",), base_url="http://127.0.0.1:9/v1", batching=Batching())
    with pytest.raises(UsageError, match="cannot have calls in batches"):
        run_on_shards(ISLES, 2, out=None, access=access)
