"""The page of an experiment: what it says first, what each outcome is, and how few seeds are drawn."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import sim
from sim.archives.compare import results_difference
from sim.base.pages import Markup
from sim.experiments.estimate import FEW
from sim.experiments.experiment import evaluate
from sim.experiments.folder import write
from sim.experiments.integrity import check_experiment
from sim.experiments.page import folded
from sim.experiments.page_notes import about
from sim.experiments.plan import Plan
from sim.experiments.results import Results
from sim.inspect.analysis.experiments import Experiment
from tests.viewer.browser import Browser
from tests.viewer.conftest import browser as browser

SCENARIO = """
name: bees
until: 10s
models: {rules: [{say: "7"}]}
agents:
  - name: bee
    count: 3
    state: {power: 0.5, found: 0}
    loop: {min_loop_delay: 1s}
    rules:
      - when: chance(power)
        do: {publish: {topic: flower}}
        set: {found: "=found + 1"}
        record: {luck: "=uniform(0, 1)"}
      - do: noop
metrics: {every: 2s, values: {found: "total('bee', 'found')"}}
interventions: [{name: mood, at: 5s, survey: {questions: [{ask: How?, scale: [1, 7]}]}}]
outcomes:
  most: {value: "max(found)", label: Flowers, unit: a bee}
  "happy": {value: "mean_answer(mood)"}
"""


@pytest.fixture
def bees(tmp_path: Path) -> Path:
    """A scenario."""
    (tmp_path / "bees.yaml").write_text(SCENARIO)
    return tmp_path / "bees.yaml"


def swept(bees: Path, seeds: int = 3, **options: object) -> Experiment:
    """Return a sweep of the scenario."""
    return sim.sweep(bees, seeds=seeds, out=bees.parent / f"study-{seeds}", jobs=1, **options)  # type: ignore[arg-type]


def page_of(made: Experiment) -> str:
    """Return the page of an experiment."""
    return (made.folder / "results.html").read_text(encoding="utf-8")


def written_again(made: Experiment) -> None:
    """Write the page of an experiment from its results on record."""
    with closing(Results(made.folder)) as results:
        write(results, evaluate(results))


def edited(made: Experiment, *statements: str) -> None:
    """Change the results file."""
    with closing(sqlite3.connect(made.folder / "results.db", isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)


def test_the_facts_come_first(bees: Path) -> None:
    """Above all charts and tables: whether it is whole, its size, when it was measured, and with which version."""
    made = swept(bees)
    head = page_of(made).partition("<section>")[0]
    assert '<span class="pill finished">finished</span>' in head
    assert re.search(r"Measured \d{4}-\d\d-\d\d \d\d:\d\d UTC, [\d.]+ s, with sim \S+, python 3\.\S+\.</p>", head)
    tiles = dict(re.findall(r'<div class="tile"><b>([^<]*)</b><span>([^<]*)</span>', head))
    assert {"3": "agents in a run"}.items() <= tiles.items()
    assert f"{sum(made.frame()['events']):,}" in tiles
    assert "Flowers (a bee)" in tiles.values()  # nothing is varied, so the outcome itself is a headline
    assert "plan " + made.plan.id in head


def test_an_experiment_that_was_stopped_says_so(bees: Path) -> None:
    """The state at the top says how many trials are missing, or have failed."""
    made = swept(bees)
    edited(made, *(f"DELETE FROM {table} WHERE seed = 2" for table in ("trials", "outcomes", "series")))  # noqa: S608
    written_again(made)
    assert '<span class="pill interrupted">1 trial missing</span>' in page_of(made)


def test_results_without_a_time_say_that(bees: Path) -> None:
    """Results from before times were noted have no time on the page, and none is made up."""
    made = swept(bees)
    edited(made, "DELETE FROM sessions")
    written_again(made)
    assert "When it was measured is not on record." in page_of(made)


def test_the_time_is_no_difference(bees: Path, tmp_path: Path) -> None:
    """The same plan carried out at another time gives the same page but for that line, and each page is intact."""
    first = swept(bees)
    again = sim.sweep(bees, seeds=3, out=tmp_path / "again", jobs=1)
    edited(again, "UPDATE sessions SET began = '1999' || substr(began, 5)")
    written_again(again)
    assert "Measured 1999-" in page_of(again)
    assert results_difference(first.folder, again.folder) is None
    assert check_experiment(again.folder).integrity.whole


def test_no_link_is_dead(bees: Path) -> None:
    """Each link of the page leads to a file beside it; for a figure as PDF, which is not there, it has the command."""
    made = swept(bees)
    page = page_of(made)
    links = re.findall(r'href="([^"]*)"', page)
    assert links == ["results.csv"]
    assert all((made.folder / link).is_file() for link in links)
    assert "<code>sim export FOLDER figure most --to figure.pdf</code>" in page


def test_each_figure_says_what_its_outcome_is(bees: Path) -> None:
    """Its label and unit are the heading, and its expression is below the chart."""
    page = page_of(swept(bees))
    assert '<h3>Flowers (a bee) <span class="note"></span></h3>' in page
    assert '<p class="note about">most: max(found)</p>' in page
    assert '<p class="note about">happy: mean_answer(mood)</p>' in page


def test_outcomes_without_an_expression_are_described_by_the_record(bees: Path) -> None:
    """A metric, an observation, a survey and a count are told apart; a name that says nothing is not explained."""
    made = swept(bees, outcomes=["found", "mean_luck", "mood", "missing_mood", "done_publish"])
    page = page_of(made)
    for said in (
        "found: the metric at the end of the run", "mean_luck: the mean of what was observed as luck",
        "mood: the mean of the answers", "missing_mood: how many answers are missing",
        "done_publish: how many times publish was done",
    ):  # fmt: skip
        assert f'<p class="note about">{said}</p>' in page
    plan: Plan = made.plan
    assert about(plan, "own", ["own"], []) == ""
    assert about(plan, "vote=yes", ["vote=yes", "missing_vote"], []).endswith("of all who chose an option")


@pytest.mark.parametrize(("seeds", "points"), [(1, 1), (FEW - 1, FEW - 1), (FEW, 0)])
def test_few_seeds_are_points(bees: Path, seeds: int, points: int) -> None:
    """Below five seeds each is a point, and there is no bar with an interval; from five on there is."""
    made = swept(bees, seeds, outcomes=["found"])
    section = page_of(made).partition("<h2>Outcomes</h2>")[2].partition("</section>")[0]
    assert section.count('fill-opacity="0.55"') == points
    assert ("v8m0 -4H" in section) == (points == 0)
    assert ("Of fewer than five seeds, each is a point" in section) == (points > 0)
    assert ('fill-opacity="0.55"' in made.plot("found").svg) == (points > 0)


def test_few_seeds_over_a_key_and_over_time(bees: Path) -> None:
    """Over a varied key they are points without intervals, and over time thin lines without a band."""
    page = page_of(swept(bees, outcomes=["found"], vary={"agents.bee.state.power": [0.2, 0.9]}))
    section, _, time = page.partition("<h2>Over time</h2>")
    assert section.count('fill-opacity="0.55"') == 6
    assert "h8m-4 0V" not in section
    assert time.count('stroke-opacity="0.5"') == 6
    assert "<polygon" not in time
    many = page_of(swept(bees, FEW, outcomes=["found"], vary={"agents.bee.state.power": [0.2, 0.9]}))
    assert many.count("<polygon") == 2
    assert 'stroke-opacity="0.5"' not in many


def test_arms_of_few_seeds(bees: Path, tmp_path: Path) -> None:
    """The differences of arms are points as well, and so are the outcomes of each arm, at the end and over time."""
    run = sim.run(bees, out=tmp_path / "runs").run
    assert run is not None
    made = sim.arms(run, at="4s", arms={"low": {"agents.bee.state.power": 0.1}}, seeds=3, out=tmp_path / "arms", jobs=1)
    page = page_of(made)
    parts = dict(re.findall(r"<h2>([^<]*)</h2>(.*?)</section>", page, re.DOTALL))
    changed = sum(one.changed > 0 for one in made.differences)
    assert parts["Differences from the baseline"].count('fill-opacity="0.55"') == 3 * changed > 0
    assert "baseline" in parts["Outcomes"]
    assert {"arm minus baseline", "baseline", "low"} <= set(re.findall(r"[\w ]+", parts["Over time"]))


def test_long_tables_of_agents_are_closed() -> None:
    """A table of more than 50 agents is closed, and its heading says how many there are."""
    assert folded(Markup("<table></table>"), 50) == "<table></table>"
    closed = folded(Markup("<table></table>"), 51)
    assert closed == "<details><summary>51 agents</summary><table></table></details>"


@pytest.mark.proof
@pytest.mark.parametrize("width", [400, 900, 1600])
def test_the_page_fits_each_screen(bees: Path, browser: Browser, width: int) -> None:
    """Nothing is wider than the screen, light or dark, and the browser complains about nothing."""
    made = swept(bees, vary={"agents.bee.state.power": [0.2, 0.9]})
    for dark in (False, True):
        browser.open(made.folder / "results.html", width=width, dark=dark)
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.said == []
