"""Answers of surveys are outcomes of experiments: means, shares, and how many answers are missing."""

import csv
import json
from pathlib import Path

import pytest

import sim
from sim.base.errors import UsageError
from sim.experiments.plan import make_sweep
from tests.helpers import command

SURE, BAN = "From 1 to 7, how sure are you?", "Should cars be banned?"
POLL = f"""
name: poll
until: 4h
models:
  rules:
    - {{use: survey, text: "{SURE}*", when: "me == 'voter-1'", say: "no idea"}}
    - {{use: survey, text: "{SURE}*", say: "=str(min(7, state.told))"}}
    - {{use: survey, text: "{BAN}*", say: "='yes' if state.told > 2 else 'no'"}}
    - {{use: survey, say: Because.}}
agents:
  - name: voter
    count: 5
    state: {{told: 0, step: 1}}
    loop: {{min_loop_delay: 1h}}
    rules: [{{when: index > 0, set: {{told: "=told + step"}}}}]
interventions:
  - {{at: 30m, every: 1h, name: belief, survey: {{questions: [{{ask: "{SURE}", scale: [1, 7]}}, Why?]}}}}
  - {{at: end, name: vote, survey: {{questions: [{{ask: "{BAN}", options: ["yes", "no", unsure]}}]}}}}
"""


@pytest.fixture(scope="module")
def poll(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario with two surveys, of which one is asked several times."""
    file = tmp_path_factory.mktemp("poll") / "poll.yaml"
    file.write_text(POLL)
    return file


def test_the_result_has_the_answers_of_the_last_time(poll: Path) -> None:
    """Of each question: how many were asked, how many answers are missing, and the mean or the shares of the others."""
    sure, why, vote = sim.run(poll).surveys
    assert sure == {
        "survey": "belief", "number": 1, "of": 2, "question": SURE, "answers": 5, "missing": 1, "mean": 4.0,
    }  # fmt: skip
    assert why == {"survey": "belief", "number": 2, "of": 2, "question": "Why?", "answers": 5, "missing": 0}
    assert vote["shares"] == {"yes": 0.8, "no": 0.2, "unsure": 0.0}


def test_a_sweep_estimates_the_answers(poll: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--outcome` takes the name of an outcome of a survey, or the question, which stands for all of its answers."""
    monkeypatch.chdir(tmp_path)
    code, out, err = command(
        "sweep", poll, "--vary", "agents.voter.state.step=1,0", "--seeds", 1, "--jobs", 1, "--outcome", SURE,
        "--outcome", BAN, "--outcome", "missing_belief.1", "--json",
    )  # fmt: skip
    assert code == 0, err
    told = json.loads(out)
    assert told["plan"]["outcomes"] == ["belief.1", "vote=yes", "vote=no", "vote=unsure", "missing_belief.1"]
    with (Path(told["folder"]) / "results.csv").open(encoding="utf-8") as file:
        one, other = csv.DictReader(file)
    assert [one[name] for name in told["plan"]["outcomes"]] == ["4.0", "0.8", "0.2", "0.0", "1.0"]
    assert [other[name] for name in told["plan"]["outcomes"]] == [
        "",
        "0.0",
        "1.0",
        "0.0",
        "5.0",
    ]  # 0 is not from 1 to 7


def test_all_answers_are_outcomes_by_default(poll: Path) -> None:
    """A question that asks for no form has no outcome, and a misspelled one is refused before any trial."""
    plan = make_sweep(poll, count=1)
    assert plan.outcomes == ()
    with pytest.raises(UsageError, match=r"no outcome 'beleif\.1'") as refused:
        make_sweep(poll, outcomes=("beleif.1",), count=1)
    assert "belief.1" in str(refused.value.hint)
    with pytest.raises(UsageError, match=r"no outcome 'Why\?'"):
        make_sweep(poll, outcomes=("Why?",), count=1)
