"""The page of a bench in a real browser."""

import re
from typing import Any

import pytest

from sim.base.pages import document, tag
from sim.experiments.bench.page import render
from tests.bench.conftest import SESSION
from tests.viewer.conftest import HOSTILE

MODES = ("tick-parallel", "autonomous", "causal", "oracle")
SWEEPS = ("agents.a.count=25,100,500", "until=1h,2h")


def figures(point, seed, mode):
    """Everything that a page can show."""
    share = 1 + MODES.index(mode)
    moments = tuple((5.0 * part, float((part * 7 + point) % 11)) for part in range(20))
    return {
        "makespan": (3000.0 + 300 * seed) / share, "concurrency": moments, "critical_path": 5.0,
        "hash": "own" if mode == "autonomous" else "h",
        "outcomes": {"m": 5.0 + seed * (mode == "autonomous"), "done_x": 3.0, "refused_y": 0.0}, "own": ("m",),
    }  # fmt: skip


@pytest.fixture
def shown(browser, tmp_path):
    """Open the page of a bench."""

    def show(bench):
        file = tmp_path / "bench.html"
        file.write_text(render(bench), encoding="utf-8")
        browser.open(file)
        return browser

    return show


def headings(browser):
    """Return the headings of the sections."""
    return browser.evaluate("[...document.querySelectorAll('h2')].map((one) => one.textContent)")


@pytest.mark.slow
def test_a_page_shows_everything_offline(made, shown, tmp_path):
    """All sections are drawn without a script, nothing is loaded or complained about, nothing is too wide."""
    browser = shown(made(MODES, figures, vary=SWEEPS))
    assert headings(browser) == [
        "Speed-up over tick-parallel", "Outcomes of the scenario", "Makespan", "Calls in flight", "All figures",
        "Outcomes",
        "The modes", "How it was measured",
    ]  # fmt: skip
    assert browser.evaluate("document.querySelectorAll('script').length") == 0
    assert browser.evaluate("document.querySelectorAll('.chart svg').length") >= 20
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert browser.said == []
    assert [url for url in browser.asked if url.startswith(("http", "ws"))] == []
    browser.picture(tmp_path / "bench.png", whole=True)
    assert (tmp_path / "bench.png").stat().st_size > 100_000


@pytest.mark.slow
def test_outcomes_stand_side_by_side_by_varied_value(made, shown):
    """What the scenario measures has a bar by varied value and mode; without tick-parallel there is no speed-up."""
    browser = shown(made(("autonomous", "causal"), figures, vary=("agents.a.count=25,100",)))
    assert headings(browser)[0] == "Outcomes of the scenario"
    names = "[...document.querySelector('section').querySelectorAll('.name')].map((one) => one.textContent)"
    assert browser.evaluate(names) == ["25, autonomous", "25, causal", "100, autonomous", "100, causal"]


@pytest.mark.slow
def test_numbers_of_a_page_are_those_of_the_bench(made, shown):
    """The tiles say the speed-up, bars the makespan in a fitting unit, the table the share of the oracle.

    Modes with the same record as tick-parallel have no columns of outcomes.
    """
    browser = shown(made(("tick-parallel", "autonomous", "causal", "oracle"), figures))
    assert "2 ×" in browser.evaluate("document.querySelector('.tiles').textContent")
    assert "30 min" in browser.evaluate("document.querySelector('.chart').textContent")
    assert browser.evaluate("document.querySelectorAll('.dense tr')[3].cells[1].textContent") == "25"
    assert browser.evaluate("document.querySelectorAll('td.heat2').length") == 1
    columns = browser.evaluate(
        "[...[...document.querySelectorAll('table')].find((one) => "
        "one.rows[0].cells[0].textContent === 'outcome').rows[0].cells].map((one) => one.textContent)"
    )
    assert columns == ["outcome", "tick-parallel", "autonomous", "difference"]
    assert "Every event is the same in causal, oracle." in browser.evaluate("document.body.textContent")


@pytest.mark.slow
def test_charts_stay_inside(made, shown):
    """No text of a chart lies outside its picture, with long names of modes and wide intervals too."""
    browser = shown(made(("tick-sequential", *MODES, "causal-radius"), wide, vary=SWEEPS))
    outside = browser.evaluate(
        """[...document.querySelectorAll('.chart > svg')].flatMap((svg) => {
            const box = svg.getBoundingClientRect();
            return [...svg.querySelectorAll('text')].filter((text) => {
                const { left, right } = text.getBoundingClientRect();
                return left < box.left - 3 || right > box.right + 3;
            }).map((text) => text.textContent);
        })"""
    )
    assert outside == []


def wide(point, seed, mode):
    """Makespans that differ much between seeds."""
    return {"makespan": 10.0 ** (seed + point), "outcomes": {"done_x": 10.0**seed * (1 + (mode == "autonomous"))}}


def test_few_seeds_are_drawn_one_by_one(made):
    """With fewer than five seeds each is a point of its own, and the page says so; with five there are intervals."""
    for count, few in ((3, True), (5, False)):
        page = render(made(MODES, figures, count=count, vary=SWEEPS))
        assert ("each seed as a point, and their mean" in page) is few
        assert ("mean over seeds, with its 95 % interval" in page.partition("All figures")[0]) is not few
        assert (f", {count} seeds<" in page) is few


@pytest.mark.slow
def test_a_bench_without_figures_has_a_page(made, shown):
    """If everything failed the page says why."""
    nothing: dict[str, Any] = {
        "status": "failed", "problem": "it broke", "makespan": None, "outcomes": {}, "concurrency": (),
        "in_flight": None, "basis": None,
    }  # fmt: skip
    browser = shown(made(MODES, lambda *_: nothing, vary=SWEEPS))
    assert browser.evaluate("document.querySelector('.pill').textContent") == "72 failed"
    assert "it broke" in browser.evaluate("document.querySelector('.error').textContent")
    assert browser.said == []


@pytest.mark.slow
def test_one_run_of_nothing_has_a_page(made, shown):
    """Makespans of 0, one seed and one mode divide nothing by 0; one mode alone has no makespan to compare."""
    nothing = {"makespan": 0.0, "cpu_seconds": 0.0, "concurrency": ((0.0, 0.0),), "in_flight": 0.0, "outcomes": {}}
    assert "Makespan" not in headings(shown(made(("tick-parallel",), lambda *_: nothing, count=1)))
    assert "Makespan" in headings(shown(made(("tick-parallel", "autonomous"), lambda *_: nothing, count=1)))


@pytest.mark.slow
def test_hostile_text_is_text(made, shown):
    """Names, descriptions, values and errors that are markup are shown as they are spelled."""
    session = {**SESSION, "machine": dict.fromkeys(SESSION["machine"], HOSTILE), "versions": {HOSTILE: HOSTILE}}
    bench = made(
        ("tick-parallel", "autonomous"), lambda *_: {"problem": HOSTILE, "outcomes": {HOSTILE: 1.0}},
        sessions=[session], vary=["agents.a.state.x='<b>x</b>',\"</title><script>document.title=1</script>\""],
        overrides=["description='<img src=x onerror=alert(1)>'"],
    )  # fmt: skip
    browser = shown(bench)
    assert browser.evaluate("document.querySelectorAll('script, img, b:not(.tile b), iframe').length") == 0
    assert browser.evaluate("document.title") == "made: bench"
    assert "<b>x</b>" in browser.evaluate("document.querySelector('summary').textContent")
    assert '"><script>document.title="hacked"</script>\\n\\x1b[31m\\u202eevil' in browser.evaluate(
        "document.body.textContent"
    )
    assert browser.said == []


def test_markup_escapes_what_is_not_markup():
    """Text and attributes are escaped, elements inside elements are not escaped twice, None is nothing."""
    made = tag("p", "a < b & c", tag("i", '"'), None, ["x", ["y"]], title='"><', class_="k", width=1.50, hidden=None)
    assert made == '<p title="&quot;&gt;&lt;" class="k" width="1.5">a &lt; b &amp; c<i>&quot;</i>xy</p>'


def test_a_page_allows_nothing_but_its_own_style():
    """The policy of a page without a script names no source of scripts, so none runs."""
    policy = re.search(r'Policy" content="([^"]*)"', document("x", "y"))
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; style-src 'sha256-")
    assert "script-src" not in policy[1]
    assert "script-src 'sha256-" in document("x", "y", script="1")
