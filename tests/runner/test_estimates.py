"""Estimates: what they bound without prices, what a probe measures, and what a resumed run keeps of them."""

from pathlib import Path

import pytest

import sim
from sim.errors import UsageError
from sim.llm import Access, Batching
from sim.runner.estimate import estimate
from sim.runner.probing import check_batches
from tests.llm.endpoint import Endpoint, Reply, whole
from tests.llm.scenes import Scene

TEXT = """
name: study
until: 1h
models: {latency: 1s, max_tokens: 200}
agents:
  - {name: a, count: 4, loop: {min_loop_delay: 10m}, rules: [{do: {ask: {prompt: What do you think of the flood?}}}]}
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A scenario with 24 calls, without prices and without rules."""
    file = tmp_path / "study.yaml"
    file.write_text(TEXT)
    return file


def test_bounds_need_no_price(study: Path):
    """Tokens and time at most are known without prices, and the estimate says that nothing was measured."""
    found = estimate(study, access=Access(("openai:m",), base_url="http://127.0.0.1:9/v1", api_key="key-of-the-test"))
    assert found["measured"] == {"calls": 0, "all": found["total"]["calls"]}
    assert found["bounds"]["tokens"] >= found["total"]["calls"] * 8 * 200
    assert found["bounds"]["seconds"] == found["total"]["calls"] * 600


def test_batches_are_counted(study: Path):
    """With batches, the estimate says how many there are: calls that begin together share one."""
    access = Access(("openai:m",), base_url="http://127.0.0.1:9/v1", api_key="key-of-the-test", batching=Batching())
    bounds = estimate(study, access=access)["bounds"]
    assert (bounds["batches"], bounds["largest_batch"]) == (6, 4)


def test_a_probe_measures_and_scales(study: Path):
    """A few real calls make the estimate of a bill that no rule knows right to a factor of 2."""
    usage = {"prompt_tokens": 60, "completion_tokens": 9, "total_tokens": 69}
    with Endpoint(lambda seen: Reply(body=whole("I do not like it.", usage=usage))) as endpoint:
        access = Access(("openai:m",), base_url=endpoint.url, api_key="key-of-the-test")
        found = estimate(study, probe=3, access=access)
        assert len(endpoint.seen) == 3
        real = sim.run(study, access=access).models["total"]
    assert found["measured"]["calls"] == 3
    assert found["measured"]["failed"] == 0
    for name in ("calls", "attempts", "input_tokens", "output_tokens"):
        assert real[name] / 2 <= found["total"][name] <= 2 * real[name], name


def test_an_endpoint_without_batches_is_refused():
    """Whether an endpoint has batches is asked before anything is estimated or paid."""
    with Endpoint(lambda seen: Reply(body=whole())) as endpoint:
        endpoint.listing = lambda path: Reply(404 if "batches" in path else 200, body={"data": []})
        access = Access(("openai:m",), base_url=endpoint.url, api_key="key-of-the-test", batching=Batching())
        with pytest.raises(UsageError, match="has no batches: it answers GET /batches with 404"):
            check_batches(access)
        assert not endpoint.seen


def test_a_ceiling_in_tokens_pauses_who_asks():
    """A call that could take more tokens than are left is not made."""
    scene = Scene("  ceiling: {tokens: 100}\n  max_tokens: 90\n  rules: [{say: yes}]\n").run()
    assert scene.events("model.call") == []
    assert scene.models.summary() == {}


def test_scripted_models_check_a_declared_context():
    """A call that is longer than the context of its model fails offline as it would at an endpoint."""
    prices = "  prices: {tiny: {input: 1, output: 1, context: 20}}\n"
    scene = Scene(f"  tiers: {{main: tiny}}\n{prices}  max_tokens: 50\n  rules: [{{say: yes}}]\n").run()
    call, *_ = scene.events("model.call")
    assert call["error"] == "context_length"
    assert "more than the window of 20" in call["message"]
