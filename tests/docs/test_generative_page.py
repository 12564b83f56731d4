"""docs/generative_agents.md: its figures are those that were published, and those that its commands print."""

import re
from pathlib import Path
from typing import Any

import pytest

import sim
from benchmarks import generative as benchmark
from sim.kinds.generative import living, prompts
from sim.kinds.generative.scores import DECAY, WEIGHTS
from sim.kinds.generative.settings import GenerativeSettings
from sim.llm import Access
from sim.record import open_run
from sim.runner import run
from sim.scenario import load
from tests.docs.terminals import blocks, words
from tests.helpers import command
from tests.llm.endpoint import Endpoint, fitting

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "generative_agents.md").read_text(encoding="utf-8")
FILE = ROOT / "scenarios" / "smallville.yaml"
PUBLISHED = {
    "party": "from 4 % to 52 %", "mayor": "from 4 % to 32 %", "density_before": "0.167", "density": "0.74",
    "invited": "12", "came": "5", "made_up": "1.3 %",
}  # fmt: skip
"""Park and others 2023, section 7.1, by the outcome that measures the same here."""

FEW = ["agents.resident.count=3", "generative.begins=17h", "budgets.llm_calls.amount=60"]
"""The changes of the command for a small model."""


def _rows(head: str) -> list[list[str]]:
    lines = PAGE.partition(f"| {head} |")[2].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def _number(shown: str) -> tuple[float, float]:
    mean, half = (float(one) for one in re.findall(r"[\d.]+", shown.removeprefix("from 4 % to "))[:2])
    scale = 100 if "%" in shown else 1
    return mean / scale, half / scale


def test_the_published_figures_stand_beside_outcomes_of_the_scenario():
    """Each row has an outcome that the scenario declares, and what the paper says."""
    rows = _rows("outcome")
    assert {row[0].split("`")[1]: row[1] for row in rows} == PUBLISHED
    assert set(load(FILE).sections["outcomes"]) == set(PUBLISHED)


def test_the_constants_of_the_page_are_those_of_the_code():
    """Decays, weights, thresholds and limits are written once in the code, and the page says the same."""
    defaults = GenerativeSettings()
    assert f"| recency | {DECAY['paper']} to the power of the hours" in PAGE
    assert f"| {DECAY['code']} to the power of its rank" in PAGE
    shown = " | ".join(", ".join(f"{one:g}" for one in WEIGHTS[variant]) for variant in ("paper", "code"))
    assert f"| weights of recency, relevance, importance | {shown} |" in PAGE
    assert (
        f"sums to more than {defaults.reflects}, a model asks three questions about the latest {living.LATEST}" in PAGE
    )
    assert (prompts.MOST_QUESTIONS, prompts.MOST_INSIGHTS, defaults.attention, defaults.retention) == (3, 5, 3, 5)
    assert f"the {defaults.recalled} memories with the highest sum" in PAGE
    assert (defaults.turns, defaults.again, defaults.look) == (8, 8000 * 10**9, 300 * 10**9)


def test_the_script_decides_what_the_page_says():
    """The four numbers of the script on the page are those of the file."""
    text = FILE.read_text(encoding="utf-8")
    assert re.search(r"name: talks, .* when: chance\(0.3\)", text)
    assert text.count("and chance(0.1)") == 2
    assert "or chance(0.4))" in text
    assert re.search(r"name: news-matter, .* say: \"8\"", text)
    assert "30 %" in PAGE
    assert "10 %" in PAGE
    assert "40 %" in PAGE


@pytest.mark.slow
def test_five_residents_take_the_calls_that_the_page_says():
    """With the script, the command for a small model takes 219 calls, of which 135 are of the survey."""
    result = run(FILE, overrides=FEW, until="3h", out=None)
    assert result.services["generative"]["talks"] == 3
    survey = load(FILE).interventions[0].survey
    assert survey is not None
    assert (result.models["total"]["calls"], len(survey.questions) * 5) == (219, 135)
    assert 5 * 60 + 2 * 135 <= 600


def test_the_variants_differ_where_the_page_says_so():
    """Of 30 memories both give the same means; of three, news get less far by the code, within intervals that meet."""
    rows = {(row[0].strip("`"), int(row[1])): row[2:] for row in _rows("variant")}
    assert [*rows] == [(variant, count) for count in benchmark.RECALLED for variant in benchmark.VARIANTS]
    assert rows["paper", 30] == rows["code", 30]
    names = [cell.strip(" `") for cell in PAGE.partition("| variant |")[2].splitlines()[0].strip("|").split("|")][1:]
    assert tuple(names) == benchmark.OUTCOMES
    for name, paper, code in zip(names, rows["paper", 3], rows["code", 3], strict=True):
        (mean, half), (other, rest) = _number(paper), _number(code)
        assert mean - other < half + rest, name
        assert name == "density" or mean > other


@pytest.mark.proof
def test_a_run_of_a_variant_falls_where_its_row_says():
    """The density of one seed is within four half intervals, times the root of ten, of the mean."""
    row = next(row for row in _rows("variant") if row[:2] == ["`code`", "3"])
    mean, half = _number(row[4])
    assert abs(benchmark.spread("code", 3, 1)[2] - mean) <= 4 * half * 10**0.5


@pytest.mark.slow
def test_what_models_answered_is_counted_for_any_run(tmp_path):
    """With the script, each call has a usable answer; the table of the small model has the calls that its text says."""
    result = run(FILE, overrides=FEW, until="90m", out=tmp_path)
    heads, rows = benchmark.answers(str(result.run))
    assert f"| {' | '.join(heads)} |" in PAGE
    assert sum(int(row[1]) for row in rows) == result.models["total"]["calls"]
    assert all(row[1] == row[2] and row[5] == "0" for row in rows), rows
    shown = [[int(one.replace(",", "")) for one in row[1:]] for row in _rows("asked for")]
    assert f"with {sum(row[0] for row in shown)} calls" in " ".join(PAGE.split())
    assert all(used <= calls and cut <= calls for calls, used, _, _, cut in shown)


@pytest.mark.slow
def test_five_residents_live_at_an_endpoint(tmp_path):
    """At an endpoint that answers in the form that it is asked for, the same file runs to its end in 600 calls."""

    def script(seen: Any) -> Any:
        task = seen.body["messages"][-1]["content"]
        form = re.search(r"one of these, and nothing else: (.+?) /", task)
        if form is not None:
            return fitting(seen, form[1])
        if "one whole number" in task:
            return fitting(seen, "4")
        if task.startswith("Plan the"):
            return fitting(seen, "17:00 has tea at the cafe\n18:30 walks in the park")
        return fitting(seen, "The weather is fine (because of 1, 2)")

    with Endpoint(script) as endpoint:
        access = Access(models=("openai:small",), base_url=endpoint.url)
        result = run(FILE, overrides=[*FEW, "models.latency=2s"], until="3h", out=tmp_path, access=access)
        assert 150 < len(endpoint.seen) <= 600
    assert result.status == "finished"
    assert result.services["generative"]["talks"] > 0
    with open_run(str(result.run)) as stored:
        assert {row[0] for row in stored.query("SELECT place FROM activities")} >= {"cafe", "park"}
    assert sim.replay(result.run or "").hash == result.hash


@pytest.mark.proof
def test_a_run_falls_where_the_table_says(tmp_path):
    """The shares and the density of one seed are within four half intervals, times the root of ten, of the means."""
    result = run(FILE, seed=1, out=tmp_path)
    shown = {row[0].split("`")[1]: _number(row[2]) for row in _rows("outcome") if "±" in row[2]}
    queries = {
        "party": "SELECT avg(memory IS NOT NULL) FROM knowledge WHERE fact = 'party' AND time > 172800",
        "mayor": "SELECT avg(memory IS NOT NULL) FROM knowledge WHERE fact = 'mayor' AND time > 172800",
        "density": "SELECT avg(mutual) FROM acquaintances WHERE time > 172800",
    }
    with open_run(str(result.run)) as stored:
        for name, query in queries.items():
            mean, half = shown[name]
            assert abs(next(iter(stored.query(query)))[0] - mean) <= 4 * half * 10**0.5
        assert list(stored.query("SELECT 1 FROM knowledge WHERE says = 'yes' AND memory IS NULL")) == []


@pytest.mark.proof
def test_the_commands_that_run_and_show_a_town_do_so(tmp_path, monkeypatch):
    """The scenarios of the page run, and each view that a command shows has rows."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    (houses,) = blocks(PAGE, "yaml")
    (tmp_path / "two_houses.yaml").write_text(houses, encoding="utf-8")
    lines = [line[2:] for block in blocks(PAGE, "console") for line in block.splitlines() if line[:2] == "$ "]
    lines = [line for line in lines if "--model" not in line and "benchmarks" not in line and "sweep" not in line]
    assert len(lines) == 6
    for line in lines:
        code, out, err = command(*words(line))
        assert code == 0, err
        assert len(out.splitlines()) > 2, line
