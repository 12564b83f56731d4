"""The ceiling of a whole experiment."""

from pathlib import Path

import sim
from sim.experiments.plan import TrialHosting

STUDY = """
name: study
until: 1m
models:
  tiers: {main: writer}
  prices: {writer: {input: 1000, output: 1000}}
  ceiling: {tokens: 500}
  rules: [{say: a short answer}]
metrics: {every: 30s, values: {asked: "total('a', 'n')"}}
agents:
  - name: a
    state: {n: 0}
    loop: {min_loop_delay: 30s}
    rules: [{do: {ask: {prompt: Well?, max_tokens: 50}}, set: {n: "=n + 1"}}]
"""


def test_no_trial_begins_when_the_ceiling_is_reached(tmp_path: Path):
    """An experiment ends when its trials have taken what they may, keeps their results, and a higher ceiling lets it
    go on.
    """
    file = tmp_path / "study.yaml"
    file.write_text(STUDY)
    folder = tmp_path / "results"
    one = sim.run(file).models["total"]
    tokens = one["input_tokens"] + one["output_tokens"]
    first = sim.sweep(file, seeds=6, ceiling_tokens=2 * tokens, jobs=1, out=folder)
    assert len(first.frame(as_="polars")) == 2
    second = first.resume(ceiling=5 * one["cost_micro"] / 1e6, jobs=1)
    assert len(second.frame(as_="polars")) == 5
    assert len(second.resume(jobs=1).frame(as_="polars")) == 6


def test_a_ceiling_counts_money_or_tokens():
    """Whichever is reached first ends an experiment; without a ceiling, nothing does."""
    assert not TrialHosting().is_used_up(10**12, 10**12)
    assert TrialHosting(ceiling_micro=5).is_used_up(5, 0)
    assert not TrialHosting(ceiling_micro=5).is_used_up(4, 10**9)
    assert TrialHosting(ceiling_tokens=7, ceiling_micro=5).is_used_up(0, 7)
