"""The tutorials of the site work from an empty folder, in the order of their blocks, and print what they show."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.llm.endpoint import Endpoint, fitting

FOLDER = Path(__file__).parents[2] / "docs" / "tutorials"
PAGES = sorted(FOLDER.glob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = {"sim": f"{sys.executable} -m sim", "python": sys.executable}


def file_of(language: str, text: str) -> str:
    """Return the name under which the page has a reader save a block."""
    if language == "yaml":
        (name,) = re.findall(r"^name: (\w+)$", text, re.MULTILINE)
        return f"{name}.yaml"
    return text.partition("\n")[0].removeprefix("# ")


def commands_of(text: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a console block, each with the lines that it shows."""
    parts = [part.splitlines() for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]]
    return [(line, [re.sub(r"\s+", " ", row.strip()) for row in shown]) for line, *shown in parts]


def missing(shown: list[str], printed: str) -> list[str]:
    """Return the lines that were not printed, in this order; spaces do not count."""
    rows = iter(re.sub(r"\s+", " ", row.strip()) for row in printed.splitlines())
    return [line for line in shown if not any(line in row for row in rows)]


def run(line: str, folder: Path, environment: dict[str, str]) -> str:
    """Run one command line as a reader would, but for the answers of the endpoint; return what it prints."""
    program, _, arguments = line.partition(" ")
    script = f"{PROGRAMS[program]} {arguments}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.proof
@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.platform == "win32", reason="its command lines are for bash")
@pytest.mark.parametrize("page", [pytest.param(page, id=page.stem) for page in PAGES])
def test_a_tutorial_prints_what_it_shows(page, tmp_path):
    """Each file is saved, each command run, in their order; every line that the page shows is printed in its order."""
    with Endpoint(lambda seen: fitting(seen, "yes")) as endpoint:
        environment = {**os.environ, "OPENAI_BASE_URL": endpoint.url, "OPENAI_API_KEY": "secret", "COLUMNS": "120"}
        for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
            if language in ("yaml", "py"):
                (tmp_path / file_of(language, text)).write_text(text, encoding="utf-8")
            for line, shown in commands_of(text) if language == "console" else []:
                if line.startswith("export ") or ("mesa_" in line and find_spec("mesa") is None):
                    continue
                assert missing(shown, run(line, tmp_path, environment)) == [], line
        asked = [seen for seen in endpoint.seen if seen.body["model"] == "gpt-4o-mini"]
    assert len(asked) == (50 if page.stem == "survey" else 0)


@pytest.mark.parametrize("page", [pytest.param(page, id=page.stem) for page in PAGES])
def test_a_tutorial_has_no_block_that_is_not_tried(page):
    """A block is a file to save, commands, or a text of another program; every picture that is shown exists."""
    text = page.read_text(encoding="utf-8")
    found = BLOCK.findall(text)
    assert len(found) >= 4
    assert {language for language, _ in found} <= {"yaml", "py", "console", "text"}
    commands = [line.split()[0] for language, block in found if language == "console" for line, _ in commands_of(block)]
    assert set(commands) <= {*PROGRAMS, "export"}
    assert [name for name in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text) if not (FOLDER / name).exists()] == []


def test_a_line_that_is_not_printed_is_found():
    """The check of what is shown minds the order of lines and not their spaces."""
    assert missing(["a b", "c"], "x\n  a   b\nc\n") == []
    assert missing(["c", "a b"], "a b\nc\n") == ["a b"]
    assert missing(["d"], "a b\nc\n") == ["d"]
