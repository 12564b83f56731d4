"""Numbers in the README and in the docs that are counts of something are what they count."""

import re
from pathlib import Path

import pytest

from sim.scenario import load
from tests.examples.simpy_stories import STORIES

ROOT = Path(__file__).parents[2]
ECOLOGY: Path = ROOT / "scenarios" / "ecology.yaml"
WORDS = {"six": 6, "seven": 7, "fourteen": 14, "seventeen": 17}


def agents() -> int:
    """Return the number of agents of the first scenario."""
    return sum(int(entry.count) for entry in load(ECOLOGY).agents)


def scenarios() -> int:
    """Return the number of scenarios of the gallery."""
    return len(list((ROOT / "scenarios").glob("*.yaml")))


def faults() -> int:
    """Return the number of rows of the tables of faults and abuses."""
    return len(re.findall(r"^\| [FX]\d+ \|", (ROOT / "docs" / "faults.md").read_text(), re.MULTILINE))


@pytest.mark.parametrize(
    ("page", "claim", "count"),
    [
        ("README.md", r"runs it, (\w+) agents for two", agents),
        ("README.md", r"has (\w+) scenarios", scenarios),
        ("CHANGELOG.md", r"A gallery of (\w+) scenarios", scenarios),
        ("CHANGELOG.md", r"lists (\d+) faults and abuses", faults),
        ("docs/processes.md", r"(\w+) examples of SimPy", lambda: len(STORIES)),
        ("CHANGELOG.md", r"In (\w+)\s+documented examples of SimPy", lambda: len(STORIES)),
    ],
)
def test_a_number_is_what_it_counts(page, claim, count):
    """The number that a page says is counted where it comes from."""
    found = re.search(claim, (ROOT / page).read_text(encoding="utf-8"))
    assert found is not None
    said = WORDS.get(found[1].lower()) or int(found[1])
    assert said == count()


def test_the_first_scenario_takes_two_days():
    """The README says how long the first command simulates."""
    assert load(ECOLOGY).end_ns == 2 * 86400 * 10**9


def test_rows_of_a_table_in_latex_have_no_bare_percent():
    """A `%` begins a comment in LaTeX, so the rows that a tutorial prints escape it."""
    text = (ROOT / "docs" / "tutorials" / "figure.md").read_text(encoding="utf-8")
    rows = re.findall(r"^.* & .*\\\\$", text, re.MULTILINE)
    assert len(rows) == 5
    assert not any(re.search(r"(?<!\\)%", row) for row in rows)
