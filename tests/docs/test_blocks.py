"""Every code block of the README and the docs is run."""

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from sim.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "docs" / "howto").glob("*.md"))  # those of tutorials: see test_tutorial_pages.py
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SIM = [sys.executable, "-m", "sim"]


LONG = {"experiments.md", "fit.md", "python.md", "why.md"}
"""Pages whose commands and programs take long: they run with the proofs."""


def _marks(page: Path) -> list[pytest.MarkDecorator]:
    return [pytest.mark.proof] if page.name in LONG else []


def _blocks(*languages: str) -> list[ParameterSet]:
    found = []
    for page in PAGES:
        for number, match in enumerate(BLOCK.finditer(page.read_text(encoding="utf-8"))):
            if match[1] in languages:
                marks = _marks(page) if match[1] == "python" else []
                found.append(pytest.param(match[2], id=f"{page.name}-{number}", marks=marks))
    return found


def _run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture
def folder(tmp_path):
    """A folder with the scenarios of the project, and those that the pages show; modules of pages, too."""
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    for page in PAGES:
        for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
            if language == "yaml" and (name := re.search(r"^name: (\w+)$", text, re.MULTILINE)):
                (tmp_path / f"{name[1]}.yaml").write_text(text, encoding="utf-8")
            if language == "text" and text.startswith("time,"):
                (tmp_path / "ill.csv").write_text(text, encoding="utf-8")  # the data that a page shows
            if language == "py":  # a module, whose first line is its name
                (tmp_path / text.partition("\n")[0].removeprefix("# ")).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("text", _blocks("python"))
def test_python_blocks_run(text, folder):
    """A Python block runs as it stands, beside the scenarios that the page shows."""
    if "Family(" in text and "sim.run(" not in text:
        pytest.skip("a module that scenarios import: see test_kinds_page.py")
    (folder / "block.py").write_text(text, encoding="utf-8")
    done = _run([sys.executable, "block.py"], folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("text", _blocks("yaml"))
def test_yaml_blocks_are_valid(text, tmp_path, capsys):
    """A YAML block that is a whole scenario is accepted by `sim check`; one with a foreign kind names it."""
    if not all(re.search(f"^{key}:", text, re.MULTILINE) for key in ("name", "agents")):
        pytest.skip("a fragment, or measures")
    if any(f"{{{name}: " in text for name in _DEFINED):
        pytest.skip("it uses an action that the page defines: the Python block of the page runs it")
    path = tmp_path / "block.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["check", str(path)])
    assert not ended.value.code, capsys.readouterr()


_DEFINED = {
    name for page in PAGES for name in re.findall(r'^@action\("(\w+)"', page.read_text(encoding="utf-8"), re.MULTILINE)
}

_ELSEWHERE = ("gallery.md", "generative_agents.md", "interventions.md", "kinds.md", "people.md", "why.md")
"""Pages with tests of their own: they need other files or two terminals, or what they print is compared."""

_SHOWN = [
    page
    for page in PAGES
    if page.name not in _ELSEWHERE and re.search(r"\$ uv run (?:--no-dev )?sim", page.read_text(encoding="utf-8"))
]


@pytest.mark.proof
@pytest.mark.timeout(500)  # the README alone takes 40 s of CPU
@pytest.mark.parametrize("page", [pytest.param(page, id=page.name, marks=_marks(page)) for page in _SHOWN])
def test_console_blocks_run(page, folder):
    """The commands of a page do what they say, in their order, and print the tables below them, figure by figure.

    The benchmark and the tests run elsewhere, and what needs a cluster in the tests of Ray.
    """
    text = page.read_text(encoding="utf-8")
    commands = [line[2:] for line in text.splitlines() if line[:2] == "$ "]
    run, printed = 0, set[tuple[str, ...]]()
    for command in commands:
        words = shlex.split(command.replace("uv run --no-dev ", "uv run "), comments=True)
        if words[:3] != ["uv", "run", "sim"] or re.search(r"\b(NAME|FILE|wall)\b|--profile|@ray", command):
            continue
        done = (_play if words[3] == "play" else _run)([*SIM, *words[3:]], folder)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        printed |= {tuple(line.split()) for line in done.stdout.splitlines()}
        run += 1
    assert run
    shown = [line for table in re.findall(r"```\n\n((?:    .*\n|\n(?=    ))+)", text) for line in table.splitlines()]
    assert [line for line in shown if "  " in line.strip() and tuple(line.split()) not in printed] == []


def _play(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Start a command that serves a page until Ctrl-C, and press it when the page is there."""
    with subprocess.Popen(
        [*command, "--no-browser"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def test_examples_have_names_of_their_own():
    """No two pages show a scenario of the same name: their commands would run the wrong one."""
    shown = [
        re.search(r"^name: (\w+)$", text, re.MULTILINE)
        for page in PAGES
        for language, text in BLOCK.findall(page.read_text(encoding="utf-8"))
        if language == "yaml"
    ]
    names = [found[1] for found in shown if found]
    assert len(names) > 20
    assert sorted({name for name in names if names.count(name) > 1}) == []
