"""The options of batches: what they do, and what is refused before anything is sent."""

import json
from pathlib import Path

import pytest

from tests.llm.batch_server import BatchServer

ASKS = """
name: asks
until: 1m
models:
  latency: 2s
  tiers: {small: gpt-4o-mini}
agents:
  - name: asker
    count: 3
    state: {n: 0}
    rules:
      - {when: n < 2, do: {ask: {prompt: "='Question ' + str(n) + ' of ' + me"}}, set: {n: "=n + 1"}}
      - do: stop
"""
BATCH = ("--batch", "--batch-poll", "0.005")


@pytest.fixture
def asks(tmp_path, monkeypatch):
    """A scenario whose agents ask twice, in the folder where the command runs; no key and no address."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "asks.yaml"
    path.write_text(ASKS)
    return path


@pytest.fixture
def server():
    """An endpoint with batches."""
    with BatchServer() as running:
        yield running


def model(server: BatchServer) -> tuple[str, ...]:
    """Return the options that choose a model at the server."""
    return "--model", "openai:gpt-4o-mini", "--base-url", server.url


@pytest.mark.slow
def test_a_run_in_batches(sim, asks, server):
    """`--batch` answers in batches: the same hash, and the table says what was paid. The record has the batch."""
    online = json.loads(sim("run", asks, *model(server), "--no-record", "--json").out)
    done = sim("run", asks, *model(server), *BATCH)
    assert done.code == 0, done.err
    assert online["hash"][:16] in done.out
    assert "calls were answered in batches" in done.out
    assert [len(batch.requests) for batch in server.batches] == [3, 3]
    rows = json.loads(sim("show", "asks", "prompts", "--json").out)
    assert {row[rows["columns"].index("batch")] for row in rows["rows"]} == {batch.id for batch in server.batches}
    assert sim("replay", "asks").code == 0
    assert sim("verify", "asks").code == 0


def test_limits_and_price(sim, asks, server):
    """Requests, bytes, the price and the longest wait can be set."""
    limits = ("--batch-requests", "2", "--batch-bytes", "100000", "--batch-wait", "1h", "--batch-price", "0.25")
    done = sim("run", asks, *model(server), *BATCH, *limits, "--json", "--no-record")
    assert done.code == 0, done.err
    assert sorted(len(batch.requests) for batch in server.batches) == [1, 1, 2, 2]
    models = json.loads(done.out)["models"]
    assert models["saved_micro"] == sum(cost - -(-cost // 4) for cost in [models["total"]["cost_micro"] // 6] * 6)


def test_an_estimate_says_what_batches_cost(sim, asks):
    """The estimate has the full price, and the share."""
    done = sim(
        "run", asks, "--model", "openai:gpt-4o-mini", "--base-url", "http://127.0.0.1:9/v1", "--batch", "--estimate"
    )
    assert done.code == 0, done.err
    assert "in batches, it costs 50% of that" in done.out
    done = sim(
        "run", asks, "--model", "openai:gpt-4o-mini", "--base-url", "http://127.0.0.1:9/v1", "--batch", "--estimate",
        "--json", "--batch-price", "0.4",
    )  # fmt: skip
    assert json.loads(done.out)["batch_price"] == 0.4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--batch", "--set", "models.latency=null"), "--set models.latency=2s"),
        (("--batch", "--clock", "wall"), "--clock virtual"),
        (("--batch", "--set", "models.faults=[{kind: server}]"), "models.faults"),
        (("--batch-poll", "5"), "--batch-poll is given without --batch"),
        (("--batch", "--batch-wait", "soon"), "'soon' is not a duration"),
        (("--batch", "--batch-wait", "0s"), "wait of batches must be above 0"),
        (("--batch", "--batch-price", "2"), "--batch-price"),
        (("--batch", "--batch-requests", "0"), "--batch-requests"),
    ],
)
def test_what_contradicts_batches_is_refused(sim, asks, server, options, words):
    """It is one sentence with a hint, exit code 2, and nothing is sent or recorded."""
    done = sim("run", asks, *model(server), *options)
    assert done.code == 2
    assert words in done.err
    assert (server.requests, Path("runs").exists()) == ([], False)


def test_batches_need_an_endpoint(sim, asks):
    """Scripted models are not answered in batches."""
    done = sim("run", asks, "--batch")
    assert done.code == 2
    assert "no model at an endpoint" in done.err


@pytest.mark.slow
def test_a_run_of_measured_calls_is_not_resumed_in_batches(sim, asks, server, monkeypatch):
    """The latency shapes the run from its start, so `sim resume --batch` refuses a run without one."""
    monkeypatch.setattr("sim.host.host.GRACE", 0.0)
    server.delay = lambda: 0.5
    done = sim("run", asks, *model(server), "--set", "models.latency=null", "--max-wall", "0.4s")
    assert done.code == 1, done.err
    done = sim("resume", "asks", "--base-url", server.url, *BATCH)
    assert done.code == 2
    assert "need a latency in simulated time" in done.err
    assert sim("resume", "asks", "--base-url", server.url).code == 0
    assert server.batches == []


@pytest.mark.slow
def test_ctrl_c_and_resume(sim, asks, server, monkeypatch):
    """A run that was interrupted while it waits continues with the same batch, also if the option is not repeated."""
    monkeypatch.setattr("sim.host.host.GRACE", 0.0)
    server.stages = ("in_progress",) * 100_000
    done = sim("run", asks, *model(server), *BATCH, "--max-wall", "0.5s")
    assert done.code == 1
    assert "sim resume" in done.err
    assert [len(batch.requests) for batch in server.batches] == [3]
    server.stages = server.batches[0].stages = ()  # a batch is done when it is looked at first
    done = sim("resume", "asks", "--base-url", server.url)
    assert done.code == 0, done.err
    assert [len(batch.requests) for batch in server.batches] == [3, 3]
    assert server.twice() == []
