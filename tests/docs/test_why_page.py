"""The commands of the page about turning points print what it shows, and draw its picture."""

import re
from pathlib import Path

import pytest

from sim.experiments.attribution.forks import FORKS
from tests.docs.terminals import blocks, words
from tests.helpers import command

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "why.md").read_text(encoding="utf-8")


@pytest.mark.proof
@pytest.mark.skipif(not FORKS, reason="processes are not forked here")
def test_the_page_shows_what_its_commands_print(tmp_path, monkeypatch):
    """Each table, each sentence and the picture of the page are those of its commands, but for names of runs."""
    monkeypatch.chdir(tmp_path)
    for text in blocks(PAGE, "yaml"):
        found = re.search(r"^name: (\w+)$", text, re.MULTILINE)
        assert found
        (tmp_path / f"{found[1]}.yaml").write_text(text, encoding="utf-8")
    lines = [line for block in blocks(PAGE, "console") for line in block.splitlines() if line.startswith("$ ")]
    printed = ""
    for line in lines:
        code, out, err = command(*words(line[2:]))
        assert code == 0, err
        printed += re.sub(r"(crowd|committee)-0-\w+", r"\1-0-...", out)
    rows = [line.strip() for line in re.findall(r"^ {4}(.*)$", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL), re.M)]
    assert len(rows) > 12
    assert [row for row in rows if row not in printed] == []
    said = [line for block in blocks(PAGE, "text") for line in block.replace("\n  ", " ").splitlines()]
    assert len(said) > 8
    assert [one for one in said if one not in printed] == []
    assert (tmp_path / "crowd.svg").read_text(encoding="utf-8") == (ROOT / "docs" / "crowd.svg").read_text(
        encoding="utf-8"
    )
