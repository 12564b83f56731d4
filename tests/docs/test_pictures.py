"""The pictures of the pages."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_epidemic_curve_is_what_the_scenario_gives():
    """The picture in the README is drawn from a run: it repeats, so the picture repeats."""
    spec = importlib.util.spec_from_file_location("pictures", DOCS / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    assert pictures.contagion() == (DOCS / "contagion.svg").read_text(encoding="utf-8")
