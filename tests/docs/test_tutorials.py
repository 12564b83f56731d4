"""The changes that the tutorials of CONTRIBUTING.md show can be made, and are as small as they say."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sim.inspect.viewer import sections as folder
from sim.inspect.viewer.sections import sections

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def tutorial(subject: str) -> list[str]:
    """Return the diffs of one tutorial."""
    chapter = PAGE.partition(f"## Tutorial: {subject}\n")[2].partition("\n## ")[0]
    return [text for language, text in BLOCK.findall(chapter) if language == "diff"]


def test_each_tutorial_is_short():
    """The whole program of a tutorial, with agents and a world to try it in, has fewer than 45 lines."""
    for subject in ("add an action", "add a wake condition", "add a section or a tab of the view"):
        chapter = PAGE.partition(f"## Tutorial: {subject}\n")[2].partition("\n## ")[0]
        programs = [text for language, text in BLOCK.findall(chapter) if language == "python"]
        assert all(len(program.splitlines()) < 45 for program in programs)
        program = programs[-1]
        assert "@action" in program or "@wake_condition" in program or "(Section)" in program


def test_a_section_is_added_as_the_tutorial_says(tmp_path, monkeypatch):
    """The class of the tutorial, as a module of the folder of sections with its script beside it, is found there."""
    chapter = PAGE.partition("## Tutorial: add a section or a tab of the view\n")[2].partition("\n## ")[0]
    (program,) = [text for language, text in BLOCK.findall(chapter) if language == "python"]
    script, rest = re.split(r'    script = """\n(.*?)"""\n', program, flags=re.DOTALL)[1:]
    above = program.partition("    script =")[0]
    (tmp_path / "income.py").write_text(above + rest.partition("\n\n\nwith sim.open")[0] + "\n", encoding="utf-8")
    (tmp_path / "income.js").write_text(script, encoding="utf-8")
    monkeypatch.setattr(folder, "__path__", [*folder.__path__, str(tmp_path)])
    sections.cache_clear()
    try:
        names = [one.name() for one in sections()]
    finally:
        sections.cache_clear()
        del sys.modules["sim.inspect.viewer.sections.income"]
    assert names[names.index("income") - 1 : names.index("income") + 2] == ["events", "income", "limits"]


@pytest.mark.proof
def test_a_metric_is_added_as_the_tutorial_says(tmp_path):
    """The diffs apply, add fewer than 20 lines in two files of the package, and the tests of all metrics then pass."""
    diffs = tutorial("add a metric")
    changed = re.findall(r"^\+\+\+ b/(sim/\S+)$", "".join(diffs), re.MULTILINE)
    assert len(changed) == 2
    assert len(re.findall(r"^\+(?!\+\+)", "".join(diffs), re.MULTILINE)) < 20
    for name in ("sim", "tests", "docs", "dashboards"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "runs"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for diff in diffs:
        command = ["git", "apply", "-"]
        done = subprocess.run(command, cwd=tmp_path, input=diff, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    tests = [
        "test_every_metric_of_the_catalog",
        "test_every_metric_is_looked_at",
        "test_the_page_explains_every_metric",
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-k", " or ".join(tests), "tests/telemetry"]
    command += ["tests/dashboards/test_files.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
