"""The pictures of the pages."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def _pictures():
    """Import docs/pictures.py."""
    spec = importlib.util.spec_from_file_location("pictures", DOCS / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    return pictures


def test_the_epidemic_curve_is_what_the_scenario_gives():
    """The picture in the README is drawn from a run: it repeats, so the picture repeats."""
    assert _pictures().contagion() == (DOCS / "contagion.svg").read_text(encoding="utf-8")


@pytest.mark.proof
def test_the_live_view_is_what_a_run_shows():
    """The picture of the live view is drawn from a run, too, and loads nothing from anywhere."""
    svg = _pictures().live()
    assert svg == (DOCS / "live.svg").read_text(encoding="utf-8")
    assert "url(http" not in svg


@pytest.mark.proof
def test_the_tokens_with_and_without_the_archive_are_what_runs_give():
    """The picture of the archive is drawn from two runs of the scenario, and the figures beside it are theirs."""
    pictures = _pictures()
    assert pictures.goals() == (DOCS / "goals.svg").read_text(encoding="utf-8")
    page = " ".join((DOCS / "goals.md").read_text(encoding="utf-8").split())
    kept, all_ = (pictures.houston(archive).services["goals"] for archive in (True, False))
    per_call = [f"{round(one['tokens_per_call'], -2):,.0f}" for one in (kept, all_)]
    assert f"a call has about {per_call[0]} tokens after two weeks with the archive, and {per_call[1]} without" in page
    assert f"a person cost ${kept['cost_per_user']:.2f} and ${all_['cost_per_user']:.2f}." in page
    saved, more = (round(tokens / 1e6) for tokens in (kept["tokens_saved"], all_["tokens"] - kept["tokens"]))
    assert f"calls of this run: {saved} million. The run without the archive uses {more} million more" in page
    assert all_["calls"] < kept["calls"]  # why the two numbers differ


@pytest.mark.proof
def test_the_figure_of_the_sweep_is_what_the_sweep_gives():
    """The figure that leads from a question to an answer is drawn from the trials of the command beside it."""
    assert _pictures().sweep() == (DOCS / "sweep.svg").read_text(encoding="utf-8")
