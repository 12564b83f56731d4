"""Calls that an endpoint answers in batches: real HTTP, the whole run."""

import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

import sim
from sim.base.errors import RunError
from sim.llm import Access, Batching, ChatMessage, ModelRequest, Models
from sim.llm.batches.notes import Notes
from sim.llm.batches.place import Place
from sim.llm.batches.settings import NOTES
from sim.llm.endpoint import EdgeClient
from sim.llm.router import Target
from sim.record import open_run
from sim.runner import RunResult, resume, run
from sim.runner.options import Backend
from tests.llm.batch_server import Batch, BatchServer, Fate, failed_line, line
from tests.llm.endpoint import whole

KEY = "sk-canary-0123456789"
TEXT = """
name: talk
seed: 5
until: 1m
models:
  latency: LATENCY
  prices: {m: {input: 1000, output: 2000}}
  MODELS
agents:
  - name: asker
    count: COUNT
    state: {n: 0, said: "", errors: 0}
    loop: {min_loop_delay: 1s, max_loop_delay: 2s}
    rules:
      - when: n < 3
        do: {ask: {prompt: "='Question ' + str(n) + ' of ' + me"}}
        set: {n: "=n + 1", said: "=result.data.text"}
      - do: stop
metrics: {every: 1s, values: {asked: "total('asker', 'n')"}}
"""
CHAIN = 3
"""The number of calls of an agent, each of which depends on the one before."""

mostly_asyncio = pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.proof)])
# The library leaves generators to the collector, and trio warns of each.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator '(openai|httpx2|httpcore2):ResourceWarning")


@pytest.fixture
def server() -> Iterator[BatchServer]:
    """An endpoint with batches."""
    with BatchServer() as running:
        yield running


@pytest.fixture
def talk(tmp_path: Path) -> Callable[..., Path]:
    """Writes the scenario, and returns its path."""

    def call(count: int = 6, latency: str = "2s", models: str = "") -> Path:
        path = tmp_path / "talk.yaml"
        path.write_text(TEXT.replace("COUNT", str(count)).replace("LATENCY", latency).replace("MODELS", models))
        return path

    return call


@pytest.fixture
def remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is resumed without options of batches looks at them often."""
    monkeypatch.setattr("sim.runner.rebuild.Batching", partial(Batching, poll=0.005))


def access(server: BatchServer, batching: Batching | None = None, models: tuple[str, ...] = ("openai:m",)) -> Access:
    """Return the access to the server, in batches."""
    return Access(models, base_url=server.url, api_key=KEY, batching=batching or Batching(poll=0.005))


def online(server: BatchServer, models: tuple[str, ...] = ("openai:m",)) -> Access:
    """Return the access to the server, online."""
    return Access(models, base_url=server.url, api_key=KEY)


def folder(result: RunResult) -> Path:
    """Return the folder of a recorded run."""
    assert result.run is not None
    return Path(result.run)


def sizes(server: BatchServer) -> list[int]:
    """Return the number of requests of each batch."""
    return [len(batch.requests) for batch in server.batches]


def fails_at_first(batch: Batch, id: str, times: int) -> bytes | None:
    """Fail the first attempt of every request of some agents."""
    asked = batch.requests[id]["body"]["messages"][-1]["content"]
    return failed_line(id, "request_timeout") if times == 0 and asked[-1] in "258" else None


# -- the same run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "count"),
    [
        ("asyncio", 60),
        ("trio", 30),
        pytest.param("asyncio", 500, marks=pytest.mark.proof),
        pytest.param("trio", 500, marks=pytest.mark.proof),
    ],
)
def test_the_hash_is_that_of_an_online_run(server, talk, tmp_path, backend: Backend, count):
    """With the same answers and latency, a run in batches has the hash of an online run, and needs no more batches than
    the longest chain of calls that depend on each other. No file is left at the endpoint.
    """
    path = talk(count)
    whole_run = run(path, access=online(server), backend=backend)
    assert server.online == CHAIN * count
    server.online = 0
    done = run(path, access=access(server), backend=backend, out=tmp_path)
    assert done.hash == whole_run.hash
    assert sizes(server) == [count] * CHAIN
    assert (server.online, server.files, server.twice()) == (0, {}, [])
    assert sim.replay(folder(done), backend="asyncio" if backend == "trio" else "trio").same


PARALLEL = "{use_autonomous_loops: false, tick: {concurrency: parallel}}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("latency", "execution"), [("{uniform: [2, 2.5]}", ""), ("{lognormal: [1.2, 3]}", PARALLEL), ("0", "")]
)
def test_latencies_that_differ(server, talk, latency, execution):
    """The hash is that of an online run for every latency, and each request is submitted once, in both modes."""
    path = talk(8, latency)
    if execution:
        path.write_text(f"{path.read_text()}execution: {execution}\n")
    whole_run = run(path, access=online(server))
    asked, server.online = server.online, 0
    done = run(path, access=access(server))
    assert done.hash == whole_run.hash
    assert (sum(sizes(server)), server.online) == (asked, 0)
    assert not server.twice()


@pytest.mark.slow
def test_answers_that_are_broken_are_read_as_online(server, talk):
    """Truncated answers, broken arguments of tools and answers that were filtered have the same effect as online."""

    def broken(body: dict[str, Any]) -> dict[str, Any]:
        number = sum(map(ord, body["messages"][-1]["content"])) % 4
        if number == 0:
            return whole("I look", calls=[("look", '{"at": "the do')], finish="length")
        if number == 1:
            return whole("I look", calls=[("look", '{"at": ')])
        return whole("filtered", finish="content_filter") if number == 2 else whole("fine", usage=None)

    server.answer = broken
    path = talk(8)
    path.write_text(
        path.read_text()
        .replace('+ me"}}', '+ me", tools: [look]}}')
        .replace("prices:", "tools: {look: {description: looks, parameters: {at: {type: string}}}}\n  prices:")
    )
    assert "tools: [look]" in path.read_text()
    whole_run = run(path, access=online(server))
    done = run(path, access=access(server))
    assert done.hash == whole_run.hash
    assert done.models["total"]["failed"] > 0


@pytest.mark.slow
def test_the_record_names_batch_and_price(server, talk, tmp_path):
    """The outcome of each effect has the batch and half the price; events, limits and totals have the full price."""
    done = run(talk(), access=access(server), out=tmp_path)
    with open_run(folder(done)) as stored:
        rows = stored.query("SELECT batch, cost, attempts FROM prompts")
        (full,) = stored.query("SELECT sum(cost) FROM llm_calls")[0]
    assert {row[0] for row in rows} == {batch.id for batch in server.batches}
    assert sum(row[1] for row in rows) == pytest.approx(full / 2)
    assert done.models["saved_micro"] == done.models["total"]["cost_micro"] // 2
    other = run(talk(), access=access(server, Batching(poll=0.005, price=0.25)))
    assert other.models["saved_micro"] == 3 * done.models["total"]["cost_micro"] // 4
    assert other.hash == done.hash


def test_a_batch_has_one_model_and_one_path(server, talk):
    """Requests of several models, or for embeddings, go into batches of their own."""
    path = talk(4, models="tiers: {small: [m], large: [n]}")
    path.write_text(
        path.read_text().replace(
            "str(n) + ' of ' + me\"", "str(n) + ' of ' + me\", tier: \"=['small', 'large'][n % 2]\""
        )
    )
    run(path, access=access(server, models=("small=openai:m", "large=openai:n")))
    assert [next(iter(batch.requests.values()))["body"]["model"] for batch in server.batches] == ["m", "n", "m"]

    class Reader(sim.Agent):
        async def decide_action(self) -> sim.Action:
            vectors = await Models.of(self.world).embed(self, ["a", "bcd"])
            assert [vector[0] for vector in vectors] == [1.0, 3.0]
            return sim.Action("stop")

    server.forget()
    path.write_text("name: r\nuntil: 1m\nmodels: {latency: 1s}\nagents: [{name: reader, count: 3, kind: reader}]")
    run(path, access=access(server, Batching(poll=0.005, requests=4)), kinds={"reader": Reader})
    assert {batch.endpoint for batch in server.batches} == {"/v1/embeddings"}
    assert sorted(sizes(server)) == [1, 2]


# -- limits


@pytest.mark.slow
def test_a_batch_has_at_most_so_many_requests_and_bytes(server, talk):
    """More requests than the limits allow go into several batches at once."""
    done = run(talk(25), access=access(server, Batching(poll=0.005, requests=10)))
    assert sorted(sizes(server)) == sorted([10, 10, 5] * CHAIN)
    server.forget()
    again = run(talk(25), access=access(server, Batching(poll=0.005, bytes=2000)))
    assert max(sizes(server)) < 15
    assert done.hash == again.hash


def test_a_request_larger_than_a_batch_fails(server, talk):
    """It fails as a bad request, and the others are answered."""
    path = talk(3)
    large = f"  - {{name: large, rules: [{{do: {{ask: {{prompt: {'x' * 2000}}}}}}}]}}\n"
    path.write_text(path.read_text().replace("metrics:", f"{large}metrics:"))
    done = run(path, access=access(server, Batching(poll=0.005, bytes=2000)))
    assert done.models["groups"]["asker"]["calls"] == 9
    assert done.models["groups"]["large"]["calls"] == 0
    assert "more than a batch may have" in str(done.commonest_error)


@pytest.mark.slow
def test_a_batch_waits_for_other_work_outside(server, talk, monkeypatch):
    """A tool that is under way may let further agents call: it is waited for, but not longer than `PATIENCE`."""

    async def slowly(request: Any, key: str) -> None:
        await anyio.sleep(0.2)

    class Worker(sim.Agent):
        async def decide_action(self) -> sim.Action:
            if self.loop.iteration_count > 1:
                return sim.Action("stop")
            await sim.perform(sim.Effect("tool", {}, slowly, latency_ns=10**9, safety="pure"))
            return sim.Action("ask", {"prompt": "Is it done?"})

    path = talk(3)
    path.write_text(path.read_text().replace("metrics:", "  - {name: worker, kind: worker}\nmetrics:"))
    run(path, access=access(server), kinds={"worker": Worker})
    assert sizes(server) == [4, 3, 3]
    server.forget()
    monkeypatch.setattr("sim.llm.batches.provider.PATIENCE", 0.02)
    run(path, access=access(server), kinds={"worker": Worker})
    assert sizes(server) == [3, 1, 3, 3]


def test_a_fallback_has_a_batch_of_its_own(server, talk):
    """If a model fails, its call goes into a batch for the next model of the chain."""

    def result(batch: Batch, id: str, times: int) -> bytes | None:
        body = batch.requests[id]["body"]
        return line(id, {"error": {"message": "gone"}}, 404) if body["model"] == "m" else None

    server.result = result
    server.answer = lambda body: whole("first") if body["model"] == "m" else whole("second")
    done = run(talk(3), access=access(server, models=("openai:m,openai:n",)), until="2.5s")
    assert done.stopped_by is None
    models = [next(iter(batch.requests.values()))["body"]["model"] for batch in server.batches]
    assert (models, sizes(server)) == (["m", "n"], [3, 3])


def test_what_is_under_way_at_the_end_is_cancelled(server, talk):
    """A run ends at its time limit although a batch is under way, which is then cancelled; no file is left."""
    path = talk(1, "10s", models="tiers: {small: [m], large: [n]}")
    other = "  - {name: other, start: 5s, rules: [{do: {ask: {prompt: x, tier: large}}}]}\n"
    path.write_text(path.read_text().replace("metrics:", f"{other}metrics:"))

    def fate(batch: Batch) -> Fate:
        batch.stages = ("in_progress",) * 100_000
        if len(server.batches) == 2:  # now one of them ends, and the run with it
            first, second = server.batches
            (first if next(iter(first.requests.values()))["body"]["model"] == "m" else second).stages = ()
        return "completed"

    server.fate = fate
    done = run(path, access=access(server, models=("small=openai:m", "large=openai:n")), until="12s")
    assert done.models["total"]["calls"] == 1
    assert sorted(batch.status for batch in server.batches) == ["cancelled", "completed"]
    assert server.files == {}


def test_a_call_without_a_key_is_answered_online(server):
    """A call of measured latency, which a branch can have in flight, is not put into a batch."""
    request = ModelRequest((ChatMessage("user", "x"),))
    seen: list[Any] = []

    async def main() -> None:
        client = EdgeClient(access(server), place=lambda: Place("r", NotImplemented, Notes("r")))
        try:
            await client.complete((Target("openai", "m"),), request, agent="a", observe=seen.append)
        finally:
            await client.aclose()

    server.answer = lambda body: whole("one answer")
    anyio.run(main)
    assert (server.online, server.batches) == (1, [])
    assert "".join(delta.text for delta in seen) == "one answer"


def test_an_observer_gets_the_whole_answer(server, talk):
    """It sees text and tool calls at once, when the batch has ended."""
    seen: list[Any] = []

    class Watcher(sim.Agent):
        async def decide_action(self) -> sim.Action:
            request = ModelRequest((ChatMessage("user", "x"),), stream=True)
            await Models.of(self.world).complete(self, request, observe=seen.append)
            return sim.Action("stop")

    path = talk()
    path.write_text("name: w\nuntil: 1m\nmodels: {latency: 1s}\nagents: [{name: watcher, kind: watcher}]")
    server.answer = lambda body: whole("I look", calls=[("look", "{}")])
    run(path, access=access(server), kinds={"watcher": Watcher})
    assert [delta.kind for delta in seen] == ["text", "tool_start", "tool_arguments", "tool_complete"]


# -- what goes wrong in a batch


def attempts(run: Path) -> list[str]:
    """Return the outcomes of all attempts on record, in order of the agents."""
    with open_run(run) as stored:
        rows = stored.query("SELECT json_extract(data, '$.outcome') FROM events WHERE topic = 'model.attempt'")
    return [row[0] for row in rows]


WRONG: dict[str, tuple[Callable[[str], bytes], str]] = {
    "refused": (lambda id: line(id, {"error": {"message": "slow down"}}, 429), "rate_limit"),
    "broken": (lambda id: line(id, {"error": {"message": "oops"}}, 500), "server"),
    "timeout": (lambda id: failed_line(id, "request_timeout"), "timeout"),
    "missing": (lambda id: b"", "malformed"),
    "no JSON": (lambda id: b'{"custom_id": "' + id.encode() + b'", "response', "malformed"),
    "a number": (lambda id: b"17", "malformed"),
    "no response": (lambda id: json.dumps({"custom_id": id}).encode(), "malformed"),
    "odd status": (lambda id: json.dumps({"custom_id": id, "response": {"status_code": "200"}}).encode(), "malformed"),
    "strange id": (lambda id: line("nobody", whole()), "malformed"),
    "no choices": (lambda id: line(id, {"choices": []}), "malformed"),
    "unfinished": (lambda id: line(id, whole(finish="?")), "incomplete"),
    "deep": (lambda id: b'{"custom_id": "' + id.encode() + b'", "response": ' + b"[" * 100_000, "malformed"),
}


@pytest.mark.slow
def test_a_request_that_fails_goes_into_the_next_batch(server, talk, tmp_path):
    """Each agent but one has a failure of its own kind in the first batch. Only failed requests are in a further batch;
    each failure is on record as an attempt, and all calls are answered.
    """
    kinds = list(WRONG.values())

    def result(batch: Batch, id: str, times: int) -> bytes | None:
        agent = int(batch.requests[id]["body"]["messages"][-1]["content"].rpartition("-")[2])
        return kinds[agent - 1][0](id) if times == 0 and agent <= len(kinds) else None

    server.result = result
    count = len(kinds) + 1
    done = run(talk(count), access=access(server), out=tmp_path)
    assert done.models["total"]["calls"] == CHAIN * count
    assert sizes(server) == [count, count - 1] * CHAIN
    assert sorted(attempts(folder(done))) == sorted([kind for _, kind in kinds] * CHAIN + ["ok"] * CHAIN * count)
    assert server.files == {}


def test_the_first_of_two_results_counts(server, talk):
    """A second result for the same request is ignored."""
    whole_run = run(talk(4), access=online(server))

    def twice(batch: Batch, id: str, times: int) -> bytes | None:
        usual = line(id, server.answer(batch.requests[id]["body"]))
        return line(id, whole("another answer")) + b"\n" + usual  # the server writes its lines in reverse order

    server.result = lambda batch, id, times: b"\n".join(reversed(twice(batch, id, times).split(b"\n")))  # type: ignore[union-attr]
    assert run(talk(4), access=access(server)).hash == whole_run.hash


@pytest.mark.slow
def test_requests_are_tried_as_often_as_online(server, talk, tmp_path):
    """An error that persists fails the call after as many attempts as its class has, and at most `retry.requests`."""
    server.result = lambda batch, id, times: line(id, {"error": {"message": "oops"}}, 500)
    done = run(talk(1), access=access(server), out=tmp_path, until="3s")
    assert attempts(folder(done))[:3] == ["server"] * 3
    with open_run(folder(done)) as stored:
        assert stored.query("SELECT DISTINCT attempts FROM llm_calls WHERE error = 'server'") == [(3,)]
    done = run(talk(1, models="retry: {requests: 2}"), access=access(server), out=tmp_path, until="3s")
    with open_run(folder(done)) as stored:
        assert stored.query("SELECT DISTINCT attempts FROM llm_calls WHERE error = 'server'") == [(2,)]


@pytest.mark.slow
@pytest.mark.parametrize(("fate", "kind"), [("expired", "timeout"), ("cancelled", "server")])
def test_a_batch_that_ends_early_keeps_its_answers(server, talk, tmp_path, fate: Fate, kind):
    """The requests that an expired or cancelled batch has answered are not made again; the others are."""
    server.fate = lambda batch: fate if len(batch.requests) == 4 else "completed"
    done = run(talk(4), access=access(server), out=tmp_path)
    assert sizes(server) == [4, 2] * CHAIN
    assert sorted(attempts(folder(done))) == sorted(["ok"] * 12 + [kind] * 6)
    assert not server.twice()


@pytest.mark.slow
def test_a_batch_that_is_not_accepted(server, talk, tmp_path, monkeypatch):
    """If one line is at fault, its request fails for good, and the others go into the next batch. If the endpoint has
    too many tokens waiting, all go into the next batch after a while.
    """
    monkeypatch.setattr("sim.llm.batches.lines.QUEUE_FULL", 0.1)

    def fate(batch: Batch) -> Fate:
        if batch.number == 0:
            batch.errors = [{"code": "invalid_request", "line": 2, "message": "bad", "param": None}]
        elif batch.number == 1:
            batch.errors = [{"code": "token_limit_exceeded", "line": None, "message": "Enqueued token limit reached"}]
        return "failed" if batch.number < 2 else "completed"

    server.fate = fate
    done = run(talk(4), access=access(server), out=tmp_path, until="2.5s")
    assert sizes(server)[:3] == [4, 3, 3]
    assert sorted(attempts(folder(done))) == sorted(["bad_request", *["server"] * 3, *["rate_limit"] * 3, *["ok"] * 3])
    assert "invalid_request: bad" in str(done.commonest_error)


@pytest.mark.slow
def test_a_batch_that_takes_too_long_is_cancelled(server, talk, tmp_path):
    """After `wait` it is cancelled, its answers are taken, and the rest goes into the next batch."""

    def fate(batch: Batch) -> Fate:
        batch.stages = ("in_progress",) * (1 if batch.number else 10_000)
        return "completed"

    server.fate = fate
    done = run(talk(4), access=access(server, Batching(poll=0.005, wait=1)), out=tmp_path, until="2.5s")
    assert sizes(server) == [4, 2]
    assert server.batches[0].status == "cancelled"
    assert sorted(attempts(folder(done))) == ["ok"] * 4 + ["server"] * 2


# -- what goes wrong on the way

FILES, BATCHES = "/v1/files", "/v1/batches"


@pytest.mark.parametrize("where", [("POST", FILES), ("POST", BATCHES)], ids=["upload", "submit"])
@mostly_asyncio
def test_a_failure_to_submit_is_retried_and_submits_nothing_twice(server, talk, backend, where, monkeypatch):
    """Whether an upload or a submission is refused, fails, or is done without a response: the batch is there once."""
    monkeypatch.setattr("sim.llm.limits.retry.RetryPolicy.pause", lambda self, error, tries, draw, immediate: 0.01)
    faults = dict(enumerate([500, 503, 429, "reset", "lost"]))
    server.fault = lambda method, path, times: faults.get(times) if (method, path) == where else None
    done = run(talk(3), access=access(server), backend=backend)
    assert done.models["total"]["calls"] == 9
    assert done.models["total"]["attempts"] == 9 + 3 * (5 if where[1] == FILES else 4)
    assert sizes(server) == [3] * CHAIN
    assert not server.twice()
    assert server.files == {}


@pytest.mark.parametrize(
    "where", [("GET", "/v1/batches/ID"), ("GET", "/v1/files/ID/content"), ("DELETE", "/v1/files/ID")]
)
def test_a_failure_while_waiting_is_no_failure_of_a_call(server, talk, where):
    """Looks and downloads are repeated, and no attempt counts. A file that cannot be deleted is left."""
    whole_run = run(talk(3), access=online(server))
    faults = dict(enumerate([500, 429, "reset"]))
    server.fault = lambda method, path, times: faults.get(times) if (method, path) == where else None
    done = run(talk(3), access=access(server))
    assert done.hash == whole_run.hash
    assert sizes(server) == [3] * CHAIN
    assert len(server.files) == (3 if where[0] == "DELETE" else 0)


def test_an_endpoint_without_batches_ends_the_run(server, talk):
    """The first call is refused for good, and the reason is said."""
    server.fault = lambda method, path, times: 404 if path == FILES else None
    done = run(talk(3), access=access(server))
    assert "the endpoint has no batches" in str(done.stopped_by)


@pytest.mark.slow
def test_a_key_that_is_refused_meanwhile_ends_the_run(server, talk, tmp_path):
    """The run fails, and can be resumed: the batch is still there."""
    whole_run = run(talk(3), access=online(server))
    server.fault = lambda method, path, times: 401 if path == "/v1/batches/ID" and times > 1 else None
    with pytest.raises(RunError, match="does not say what became of a batch"):
        run(talk(3), access=access(server), out=tmp_path)
    server.fault = lambda method, path, times: None
    (path,) = tmp_path.glob("talk-*")
    assert resume(path, access=access(server)).hash == whole_run.hash
    assert sizes(server) == [3] * CHAIN


def test_a_submission_that_may_have_been_made_is_not_repeated_blindly(server, talk):
    """If the endpoint lists no batches any more, and the submission had no response, the run ends with an error."""

    def fault(method: str, path: str, times: int) -> int | str | None:
        if path != BATCHES:
            return None
        if method == "POST":
            return "lost"
        return 404 if times > 0 else None  # the first request is the check before the run

    server.fault = fault
    with pytest.raises(RunError, match="it is not known whether one was submitted"):
        run(talk(3), access=access(server))
    assert len(server.batches) == 1


@pytest.mark.slow
def test_the_key_is_in_nothing_that_is_kept(server, talk, tmp_path):
    """An endpoint that repeats the key in an answer, in an error or as an id gets it into no file."""
    server.answer = lambda body: whole(f"your key is {KEY}")

    def fate(batch: Batch) -> Fate:
        batch.errors = [{"code": KEY, "line": None, "message": KEY}]
        return "failed" if batch.number == 0 else "completed"

    server.fate = fate
    server.fault = lambda method, path, times: 503 if path == FILES and times == 1 else None  # its text has the key
    done = run(talk(2), access=access(server), out=tmp_path)
    kept = b"".join(path.read_bytes() for path in folder(done).iterdir())
    assert b"[redacted]" in kept
    assert KEY.encode() not in kept


# -- interrupted and resumed


@pytest.mark.slow
@mostly_asyncio
@pytest.mark.parametrize(
    "stage", ["POST /v1/files", "POST /v1/batches", "GET /v1/batches/ID", "GET /v1/files/ID/content"]
)
def test_an_interrupted_run_adopts_its_batch(server, talk, tmp_path, monkeypatch, remembered, backend, stage):
    """Interrupted while a batch is uploaded, submitted, under way or read, a resumed run waits for the same batch,
    without being told of batches again, and ends as one that was not interrupted.
    """
    monkeypatch.setattr("sim.host.host.GRACE", 0.0)
    whole_run = run(talk(5), access=online(server))
    runners: list[Any] = []

    def fault(method: str, path: str, times: int) -> None:
        if f"{method} {path}" == stage and times == 1:
            runners[0].host.suspend()

    server.fault = fault
    part = run(
        talk(5), access=access(server), out=tmp_path, begun=runners.append, on_interrupt="return", backend=backend
    )
    assert part.status == "interrupted"
    server.fault = lambda method, path, times: None
    done = resume(folder(part), access=Access(base_url=server.url, api_key=KEY), backend=backend)
    assert done.hash == whole_run.hash
    assert (sizes(server), server.twice(), server.files) == ([5] * CHAIN, [], {})


@pytest.mark.slow
def test_a_run_resumed_online_leaves_its_batch_alone(server, talk, tmp_path, monkeypatch):
    """`batching=False` continues online, and the hash is the same."""
    monkeypatch.setattr("sim.host.host.GRACE", 0.0)
    runners: list[Any] = []

    def fault(method: str, path: str, times: int) -> None:
        if path == "/v1/batches/ID" and times == 1:
            runners[0].host.suspend()

    server.fault = fault
    part = run(talk(5), access=access(server), out=tmp_path, begun=runners.append, on_interrupt="return")
    done = resume(folder(part), access=Access(base_url=server.url, api_key=KEY, batching=False))
    assert (sizes(server), server.online) == ([5], 15)
    assert done.hash == run(talk(5), access=online(server)).hash


@pytest.mark.slow
def test_a_retried_request_is_found_in_the_batch_in_which_it_was(server, talk, tmp_path, monkeypatch):
    """Interrupted during the second batch, after a first one with errors, a run finds errors and answers in both again:
    it ends with the same attempts, and so the same hash, as one that was not interrupted.
    """
    monkeypatch.setattr("sim.host.host.GRACE", 0.0)
    server.result = fails_at_first
    whole_run = run(talk(8), access=access(server))
    assert sizes(server) == [8, 3] * CHAIN
    server.forget()
    runners: list[Any] = []

    def fault(method: str, path: str, times: int) -> None:
        if path == "/v1/batches/ID" and len(server.batches) == 2:
            runners[0].host.suspend()

    server.fault = fault
    part = run(talk(8), access=access(server), out=tmp_path, begun=runners.append, on_interrupt="return")
    server.fault = lambda method, path, times: None
    assert sizes(server) == [8, 3]
    done = resume(folder(part), access=access(server))
    assert done.hash == whole_run.hash
    assert (sizes(server), server.twice(), server.files) == ([8, 3] * CHAIN, [], {})
    assert sim.replay(folder(done)).same


@pytest.mark.slow
def test_a_branch_continues_in_batches(server, talk, tmp_path, remembered):
    """A branch of a run in batches has batches of its own; one from a scripted run can change model and latency."""
    first = run(talk(3), access=access(server), out=tmp_path)
    other = sim.branch(folder(first), at="4s", access=Access(base_url=server.url, api_key=KEY))
    assert other.hash == first.hash
    assert (folder(other) / NOTES).exists()
    assert sizes(server) == [3, 3, 3, 3]  # the second call of each was on record, and the third was not
    assert not server.twice()

    path = talk(3, "null", "rules: [{say: scripted}]")
    scripted = run(path, out=tmp_path)
    server.forget()
    branch = sim.branch(
        folder(scripted), at="1.5s", models=("openai:m",), overrides=["models.latency=2s"],
        access=Access(("openai:m",), base_url=server.url, api_key=KEY, batching=Batching(poll=0.005)),
    )  # fmt: skip
    assert branch.models["models"]["openai:m"]["calls"] == sum(sizes(server)) > 0


def test_a_run_without_a_folder(server, talk):
    """Batches need no run folder."""
    done = run(talk(3), access=access(server))
    assert (sizes(server), server.files, done.run) == ([3] * CHAIN, {}, None)


def test_what_waits_is_said(server, talk):
    """While a batch is under way, the progress says how many requests wait in how many batches, and since when."""
    from sim.cli.render.snapshot import waiting_text

    said: list[str] = []
    runners: list[Any] = []
    seen = threading.Event()

    def fault(method: str, path: str, times: int) -> None:
        if path == "/v1/batches/ID" and runners:
            said.append(waiting_text(runners[0]))
            seen.set()

    server.fault = fault
    run(talk(7), access=access(server), begun=runners.append)
    assert said[0].startswith("7 requests wait in 1 batch since 20")
    assert waiting_text(runners[0]) == ""
