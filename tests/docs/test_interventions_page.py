"""The commands of the page about interventions do what it says."""

import csv
import re
import sys
from pathlib import Path

import pytest

from sim.record import open_run
from tests.docs.terminals import blocks, play, words
from tests.helpers import command

ROOT = Path(__file__).parents[2]
PLANNED, _, LIVE = (ROOT / "docs" / "interventions.md").read_text(encoding="utf-8").partition("## By hand")


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    """A folder with the scenarios of the project and of the page."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    for text in blocks(PLANNED, "yaml"):
        found = re.search(r"^name: (\w+)$", text, re.MULTILINE)
        assert found
        (tmp_path / f"{found[1]}.yaml").write_text(text, encoding="utf-8")


@pytest.mark.slow
def test_what_if_and_surveys(tmp_path):
    """The commands up to the live run work in their order, and have the results that the page names."""
    lines = [line for block in blocks(PLANNED, "console") for line in block.splitlines() if line.startswith("$ ")]
    shown = {line: command(*words(line[2:])) for line in lines}
    assert len(shown) == 11
    assert {line: code for line, (code, _, _) in shown.items() if code} == {}
    runs = {path.name: path for path in (tmp_path / "runs").iterdir()}
    assert len(runs) == 5
    recovered, events = [], []
    for path in runs.values():
        with open_run(path) as stored:
            if "edits" in stored.info.options:
                edited = [row.topic for row in stored.events() if row.topic == "message.suppressed"]
                assert len(edited) == 1
            elif stored.info.name == "contagion":
                assert stored.info.summary is not None
                recovered.append(stored.info.summary["metrics"]["R"][-1])
                events.append([tuple(row) for row in stored.events() if not row.topic.startswith("intervention.")])
    assert sorted(recovered) == [9, 9, 23]
    assert len({len(rows) for rows in events}) == 2  # the branch and the scenario with an intervention are the same
    assert "careful" in shown["$ uv run sim list"][1]
    with (tmp_path / "belief.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 5 * 12 * 2
    sure = [float(row["value"]) for row in rows if row["value"]]
    assert sum(sure[:12]) < sum(sure[-12:])


@pytest.mark.proof
@pytest.mark.skipif(sys.platform == "win32", reason="it takes part in a run of another process")
def test_by_hand(tmp_path):
    """The commands on a live run print what the page shows, but for times."""
    first, *others = blocks(LIVE, "console")
    count, _ = play(first, others, tmp_path / "runs")
    assert count == 7
