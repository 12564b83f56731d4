"""The commands of the page about people do what it says, in two terminals."""

import sys
from pathlib import Path

import pytest

from tests.docs.terminals import blocks, play

PAGE = (Path(__file__).parents[2] / "docs" / "people.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it takes part in a run of another process")


@pytest.mark.proof
def test_the_commands_give_what_the_page_shows(tmp_path, monkeypatch):
    """The run of the first block takes part in all others; each command prints what the page shows, but for times."""
    monkeypatch.chdir(tmp_path)
    (scenario,) = blocks(PAGE, "yaml")
    (tmp_path / "frontdesk.yaml").write_text(scenario, encoding="utf-8")
    first, *others = blocks(PAGE, "console")
    count, out = play(first, others, tmp_path / "runs")
    assert count == 6
    assert "all agents have stopped" in out
