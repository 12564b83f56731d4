"""What models did, as numbers for metrics and outcomes: calls, failures, refusals and cost, in all and by tier."""

import pytest

import sim

ASKED = """
name: asked
until: 2d
models:
  tiers: {plain: model-a, wary: model-b, spare: model-a}
  prices: {model-a: {input: 0, output: 1000000}, model-b: {input: 0, output: 2000000}} # an answer of one token: 1 and 2
  rules:
    - {use: odd, fail: content}
    - {use: broken, fail: bad_request}
    - {when: tier == 'wary', say: "No", stop: refusal}
    - {say: "Yes"}
agents:
  - name: one
    count: 3
    loop: {min_loop_delay: 12h}
    rules: [{do: {ask: {prompt: Well?, tier: "='wary' if index == 0 else 'plain'"}}}]
  - {name: odd, rules: [{when: iteration == 1, do: {ask: {prompt: Well?, use: odd}}}, {do: stop}]}
  - {name: broken, rules: [{when: iteration == 1, do: {ask: {prompt: Well?, use: broken}}}, {do: stop}]}
  - {name: silent, count: 5, rules: [{do: {sleep: {for: 10d}}}]}
metrics:
  every: 12h
  values:
    calls: service('models', 'calls')
    failed: service('models', 'failed')
    refusals: service('models', 'refusals')
    wary: service('models', 'refusals_wary')
    plain: service('models', 'refusals_plain')
    cost: service('models', 'cost')
    of_wary: service('models', 'cost_wary')
    spare: service('models', 'calls_spare')
    a_day: service('models', 'cost_per_agent_day')
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_refusals_and_cost_are_numbers(backend, tmp_path):
    """Answers that a model declined and calls that a filter ended are refusals; the cost of a day is over callers
    alone, and has no value before any time has passed. Tiers have their numbers before, and without, a call. A replay
    has the same numbers.
    """
    (tmp_path / "asked.yaml").write_text(ASKED, encoding="utf-8")
    result = sim.run(tmp_path / "asked.yaml", backend=backend, out=tmp_path / "runs")
    found = {name: values[-1] for name, values in result.metrics.items()}
    assert found["calls"] == 12 + 2
    assert found["failed"] == 2
    assert (found["refusals"], found["wary"], found["plain"]) == (5, 4, 1)
    assert (found["cost"], found["of_wary"]) == (8 * 1 + 4 * 2, 8)
    assert found["a_day"] == pytest.approx(found["cost"] / 5 / 2)  # five agents have called, of ten
    assert result.metrics["a_day"][0] is None
    assert set(result.metrics["spare"]) == {0}
    assert result.metrics["wary"][0] == 0
    assert not result.warnings
    assert sim.replay(result).hash == result.hash


def test_a_number_that_there_is_not_is_said(tmp_path):
    """A misspelled number has no value, and the run names the ones that there are."""
    (tmp_path / "asked.yaml").write_text(ASKED.replace("'refusals_plain'", "'refusal_plain'"), encoding="utf-8")
    result = sim.run(tmp_path / "asked.yaml")
    (said,) = [one for one in result.warnings if "refusal_plain" in one["text"]]
    assert "refusals_plain" in said["hint"]
