"""Surveys and scores in Python: shown as tables, and as DataFrames."""

from pathlib import Path

import pytest

import sim

EVIL = "<script>alert(1)</script>"
TALK = """
name: talk
until: 1m
models:
  rules:
    - {use: survey, text: "*one of these*", say: "yes"}
    - {use: survey, say: "<script>alert(1)</script>"}
    - {use: judge, choose: [{weight: 1, say: "3"}, {weight: 2, say: "5"}]}
agents: [{name: ann, count: 3, loop: {min_loop_delay: 10s}, rules: [{do: noop}]}]
score:
  measures:
    events: {sql: SELECT count(*) FROM events, of: run}
    civility: {ask: How civil?, scale: [1, 7], repeats: 2}
"""


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[sim.RunResult]:
    """Two recorded runs of agents that a model speaks for."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talk.yaml").write_text(TALK)
    return [sim.run("talk.yaml", out="runs", seed=seed) for seed in (1, 2)]


def test_a_survey_is_a_table(runs: list[sim.RunResult]) -> None:
    """A survey has a row for each answer; no answer becomes markup."""
    survey = sim.ask(runs[0], [sim.Question("Well?", options=("yes", "no")), "What else?"], at="30s")
    frame = survey.frame()
    assert frame["agent"].tolist() == ["ann-1", "ann-1", "ann-2", "ann-2", "ann-3", "ann-3"]
    assert frame["value"].tolist()[::2] == ["yes"] * 3
    assert set(frame["time"]) == {30.0}
    assert repr(survey).startswith("3 agents of talk-1-")
    assert EVIL in repr(survey)
    assert "<script" not in survey._repr_html_()
    refused = sim.ask(runs[0], ["Well?"], confirm=lambda cost: False)
    assert repr(refused).startswith("<no answers of 3 agents")
    assert len(refused.frame()) == 0


def test_scores_are_tables(runs: list[sim.RunResult]) -> None:
    """Scores are a sequence, with a row for each in a DataFrame, summaries, and the parts of their variance."""
    scores = sim.score(runs)
    assert len(scores) == len(scores.frame()) == 2 + 2 * 3 * 2
    assert {score.measure for score in scores[:2]} == {"civility"}
    assert [(one.measure, one.runs) for one in scores.summaries()] == [("civility", 2), ("events", 2)]
    assert sum(part.share for part in scores.variance()["civility"]) == pytest.approx(1)
    assert repr(scores).splitlines()[0].split() == ["measure", "judge", "runs", "agents", "mean", "±", "options"]
    assert scores._repr_html_().count("<table") == 2
    (only,) = sim.score(runs[0], names=["events"])
    assert only.value == scores[-2].value


@pytest.mark.anyio
async def test_scores_in_a_running_loop(runs: list[sim.RunResult]) -> None:
    """`score_async` gives the scores of `score`, and `score` works where a loop is running."""
    found = await sim.score_async(runs, measures="talk.yaml")
    assert list(found) == list(sim.score(runs, measures="talk.yaml"))
