"""The commands of the page about people do what it says, in two terminals."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import command
from tests.inbox.helpers import going_on

PAGE = (Path(__file__).parents[2] / "docs" / "people.md").read_text(encoding="utf-8")
SIM = [sys.executable, "-m", "sim"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it takes part in a run of another process")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def _words(text: str) -> list[str]:
    words = shlex.split(text)
    assert words[:3] == ["uv", "run", "sim"]
    return words[3:]


def _timeless(text: str) -> str:
    """Replace times, which differ from one run to the next."""
    return re.sub(r"\(at [0-9hms.]+\)", "(at TIME)", text)


def test_the_commands_give_what_the_page_shows(tmp_path, monkeypatch):
    """The run of the first block takes part in all others; each command prints what the page shows, but for times."""
    monkeypatch.chdir(tmp_path)
    (scenario,) = _blocks("yaml")
    (tmp_path / "frontdesk.yaml").write_text(scenario, encoding="utf-8")
    first, *others = _blocks("console")
    with subprocess.Popen(
        [*SIM, *_words(first.strip().removeprefix("$ "))],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            going_on(tmp_path / "runs")
            run = 0
            for block in others:
                for part in block.split("$ ")[1:]:
                    line, _, shown = part.partition("\n")
                    code, out, err = command(*_words(line))
                    if shown:
                        assert _timeless(out + err) == _timeless(shown), line
                    else:
                        assert code == 0, err
                    run += 1
            out, _ = process.communicate(timeout=30)
        finally:
            process.kill()
    assert run == 6
    assert process.returncode == 0
    assert "all agents have stopped" in out
