"""Estimates: what they bound without prices, what a probe measures, and what a resumed run keeps of them."""

from pathlib import Path
from typing import Any

import pytest

import sim
from sim.base.errors import UsageError
from sim.llm import Access, Batching
from sim.runner.estimate import estimate
from sim.runner.probing import check_batches
from sim.scenario import load
from tests.llm.endpoint import Endpoint, Reply, whole
from tests.llm.scenes import Scene

SHIPPED = Path(__file__).parents[2] / "scenarios"

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


@pytest.mark.slow
@pytest.mark.parametrize(("name", "until"), [("helpdesk", "10h"), ("debate", "1h"), ("software_team", "30m")])
def test_agents_of_all_kinds_of_sim_are_estimated(name: str, until: str):
    """Their calls are those of a run with the answers of the scenario; commands are not run for an estimate."""
    access = Access(("openai:m",), base_url="http://127.0.0.1:9/v1", api_key="key-of-the-test")
    found = estimate(SHIPPED / f"{name}.yaml", until=until, access=access, allow_commands=True)
    real = sim.run(SHIPPED / f"{name}.yaml", until=until).models["total"]
    assert real["calls"] / 2 <= found["total"]["calls"] <= 2 * real["calls"]
    assert found["measured"] == {"calls": 0, "all": found["total"]["calls"]}


class Foreign(sim.Agent):
    """An agent that may do anything."""

    async def decide_action(self):
        """Do nothing."""


def test_agents_with_code_of_their_own_are_not_estimated(tmp_path: Path):
    """What they do cannot be known to be harmless, so nothing is run."""
    (tmp_path / "own.yaml").write_text("name: own\nuntil: 1h\nmodels: {}\nagents: [{name: a, kind: foreign}]\n")
    with pytest.raises(UsageError, match="has its own code"):
        estimate(tmp_path / "own.yaml", kinds={"foreign": Foreign})


SURVEY = """
name: poll
until: 1h
models: {latency: 1s}
agents: [{name: a, count: 6, rules: [{do: {sleep: {for: 2h}}}]}]
interventions:
  - {at: 10m, survey: {questions: [{ask: How much?, scale: [1, 7]}, {ask: Why so?, scale: [1, 7]}, What else?]}}
"""


def test_a_probe_measures_missing_answers_by_question(tmp_path: Path):
    """Without a probe nothing is known of them; with one, the share of each question that it asked is scaled."""
    (tmp_path / "poll.yaml").write_text(SURVEY)
    words = {"How": "It depends.", "Why": "5"}
    with Endpoint(lambda seen: Reply(body=whole(words.get(seen.body["messages"][-1]["content"][:3], "x")))) as endpoint:
        access = Access(("openai:m",), base_url=endpoint.url, api_key="key-of-the-test")
        blind, probed = (estimate(tmp_path / "poll.yaml", probe=probe, access=access) for probe in (0, 18))
    assert {ask: tally["missing"] for ask, tally in blind["surveys"].items()} == {
        "How much?": None, "Why so?": None, "What else?": None,
    }  # fmt: skip
    assert probed["surveys"]["How much?"] == {"answers": 6, "missing": 6}
    assert probed["surveys"]["Why so?"] == {"answers": 6, "missing": 0}
    assert probed["measured"]["asked_again"] > 0.2


@pytest.mark.parametrize("probe", [-1, 1.5, "3"])
def test_a_probe_is_a_number_of_calls(study: Path, probe: Any):
    """What is no number of calls is refused before anything is run."""
    with pytest.raises(UsageError, match="a probe makes a number of calls"):
        estimate(study, probe=probe)


def test_an_estimate_takes_what_a_run_takes(study: Path):
    """A mapping, too; overrides of a scenario that was loaded before are refused instead of left out."""
    access = Access(("openai:m",), base_url="http://127.0.0.1:9/v1", api_key="key-of-the-test")
    rules = [{"do": {"ask": {"prompt": "What do you think of the flood?"}}}]
    agents = [{"name": "a", "count": 4, "loop": {"min_loop_delay": "10m"}, "rules": rules}]
    one = {"name": "study", "until": "1h", "models": {"latency": "1s", "max_tokens": 200}, "agents": agents}
    assert estimate(one, access=access)["total"] == estimate(study, access=access)["total"]
    with pytest.raises(UsageError, match="overrides change a scenario file"):
        estimate(load(study), overrides=["seed=3"])
