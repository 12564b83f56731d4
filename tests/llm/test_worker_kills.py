"""Runs whose worker processes are killed: each request that arrived is on record, and the hash stays the same."""

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.kernel.codec import decode
from sim.llm import ChatMessage, ModelRequest, Models
from sim.llm.access import Access
from sim.record import open_run
from sim.runner import replay
from tests.killing import ROOT
from tests.llm.endpoint import Endpoint, Reply, Seen, fitting

KEY = "sk-a-key-of-the-operator"
WHOLE, SAMPLE = 100, 8
"""Kills in all with `SIM_CAMPAIGN=whole`; else a sample, another one for each commit."""

AGENTS = 10
TEXT = """
name: callers
until: UNTIL
models: {LATENCY max_tokens: 20}
agents: [{name: caller, kind: caller, count: AGENTS, loop: {min_loop_delay: 20ms}}]
"""

pytestmark = [
    pytest.mark.proof,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="workers are found in /proc"),
]


class Caller(sim.Agent):
    """Makes one call in each iteration, with a text that no other call has."""

    async def decide_action(self) -> sim.Action:
        request = ModelRequest((ChatMessage("user", f"{self.agent_id} {self.world.now}"),))
        answer = await Models.of(self.world).complete(self, request)
        return sim.Action("publish", {"topic": "heard", "data": {"text": answer.completion.text}})


def answer(seen: Seen) -> Reply:
    """Answer late enough that a kill finds requests under way."""
    return Reply(delay=0.05, body=fitting(seen, f"to {seen.body['messages'][0]['content']}").body)


def workers() -> list[int]:
    """Return the process ids of the workers of this process."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            command = (path / "cmdline").read_bytes()
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"sim.llm.workers.program" in command:
                found.append(int(path.name))
    return sorted(found)


class Killing:
    """Answers requests, and kills a worker soon after some of them, whose numbers are drawn.

    Attributes:
        victims: the ids of the processes that were killed.
    """

    def __init__(self, moments: frozenset[int], rng: random.Random) -> None:
        self.victims: list[int] = []
        self._moments = moments
        self._rng = rng
        self._timers: list[threading.Timer] = []

    def __call__(self, seen: Seen) -> Reply:
        if seen.number in self._moments:
            timer = threading.Timer(self._rng.uniform(0, 0.04), self._kill)
            self._timers.append(timer)
            timer.start()
        return answer(seen)

    def _kill(self) -> None:
        there = [pid for pid in workers() if pid not in self.victims]
        if there:
            self.victims.append(self._rng.choice(there))
            with suppress(ProcessLookupError):
                os.kill(self.victims[-1], signal.SIGKILL)

    def stop(self) -> None:
        """Wait for the last one."""
        for timer in self._timers:
            timer.join()


def kills() -> tuple[int, random.Random]:
    """Return how many kills to make, and what draws their moments."""
    if os.environ.get("SIM_CAMPAIGN") == "whole":
        return WHOLE, random.Random("workers")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return SAMPLE, random.Random(commit.stdout)


def run(folder: Path, endpoint: Endpoint, count: int, latency: str, rounds: int, backend: Any = "asyncio") -> Any:
    """Run the scenario with so many workers."""
    endpoint.seen.clear()
    folder.mkdir(exist_ok=True)
    file = folder / "callers.yaml"
    file.write_text(
        TEXT.replace("UNTIL", f"{rounds * 100}ms").replace("LATENCY", latency).replace("AGENTS", str(AGENTS))
    )
    access = Access(("openai:m",), base_url=endpoint.url, api_key=KEY)
    return sim.run(
        file, access=access, edge_workers=count, out=folder / "runs", kinds={"caller": Caller}, backend=backend
    )


@pytest.mark.parametrize(("latency", "backend"), [("latency: 80ms,", "asyncio"), ("", "trio")])
def test_killed_workers_change_nothing_and_bill_nothing_twice(tmp_path, latency, backend):
    """Whenever workers are killed, each call is answered once. By the log of the endpoint, each request is an attempt
    on record, exactly one or, for a worker that was killed before it sent it, none. With modelled latency, the hash is
    that of a run without workers. A replay gives the same without any worker.
    """
    count, rng = kills()
    rounds = 4 * count  # each takes a tenth of a second: of simulated time, or of real time if latency is measured
    killing = Killing(frozenset(rng.sample(range(AGENTS * rounds // 2), count)), rng)
    with Endpoint(answer) as endpoint:
        plain = run(tmp_path, endpoint, 0, latency, rounds, backend) if latency else None
        endpoint.script = killing
        result = run(tmp_path, endpoint, 2, latency, rounds, backend)
        killing.stop()
        assert result.status == "finished"
        assert not workers()
        received = Counter(seen.body["messages"][0]["content"] for seen in endpoint.seen)
    assert plain is None or plain.hash == result.hash
    replaced = result.models["edge_workers"]["replaced"]
    assert len(killing.victims) - 2 <= replaced <= len(killing.victims), "but for those at the very end"
    assert replaced >= 2
    calls, lost = _on_record(Path(result.run))
    assert set(calls.values()) == {1}, "each call has one answer"
    assert calls.keys() <= received.keys()
    assert len(received) - len(calls) <= (0 if latency else AGENTS), "but for those under way when time was over"
    unaccounted = {text: number for text, number in received.items() if text in calls and number > 1 + lost[text]}
    assert not unaccounted, "the endpoint has got a request that is not on record"
    assert result.models["edge_workers"]["interrupted"] >= lost.total()
    if latency:
        assert result.models["edge_workers"]["interrupted"] == lost.total()
    else:
        assert result.models["total"]["attempts"] == len(calls) + lost.total(), "an interrupted request is an attempt"
    sys.stderr.write(
        f"{replaced} kills of workers: {lost.total()} requests sent again, of which"
        f" {sum(received.values()) - len(received)} had arrived at the endpoint\n"
    )
    assert replay(Path(result.run), kinds={"caller": Caller}, edge_workers=2).same


def test_each_trial_has_workers_of_its_own(tmp_path):
    """Each trial of a sweep starts as many worker processes as were asked for, and none is left when it has ended."""
    found: dict[int, int] = {}  # by worker, the process of its trial

    def script(seen: Seen) -> Reply:
        found.update(descendants())
        return answer(seen)

    with Endpoint(script) as endpoint:
        access = Access(("openai:m",), base_url=endpoint.url, api_key=KEY)
        file = tmp_path / "asker.yaml"
        file.write_text(ASKER)
        done = sim.sweep(file, access=access, edge_workers=2, seeds=3, jobs=1, out=tmp_path / "sweep")
    assert len(done.frame("trials")) == 3
    assert len(found) == 3 * 2
    assert not descendants()


ASKER = """
name: asker
until: 10s
models: {latency: 1s, max_tokens: 20}
agents: [{name: asker, loop: {min_loop_delay: 5s}, rules: [{do: {ask: {prompt: hello}}}]}]
"""


def descendants() -> dict[int, int]:
    """Return the workers that this process, or a process that it has started, has started, with their parents."""
    parents, programs = {}, set()
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if b"sim.llm.workers.program" in (path / "cmdline").read_bytes():
                programs.add(int(path.name))
    mine = {os.getpid()}
    for _ in range(4):
        mine |= {process for process, parent in parents.items() if parent in mine}
    return {worker: parents[worker] for worker in programs & mine}


def _on_record(run: Path) -> tuple[Counter[str], Counter[str]]:
    """Return by its text how many answers each call has, and how many of its requests were interrupted."""
    calls: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    with open_run(run) as stored:
        rows = stored.query(
            "SELECT actor, ordinal, CAST(result AS BLOB) FROM effects WHERE kind = 'llm' AND outcome = 'ok'"
        )
        for actor, ordinal, result in rows:
            outcome = decode(result)
            text = stored.request(actor, ordinal)["messages"][0]["content"]
            attempts = [*outcome["answer"]["attempts"], *outcome.get("lost", ())]
            assert outcome["answer"]["completion"]["text"] == f"to {text}"
            calls[text] += sum(attempt["outcome"] == "ok" for attempt in attempts)
            lost[text] += sum(attempt["outcome"] == "interrupted" for attempt in attempts)
    return calls, +lost
