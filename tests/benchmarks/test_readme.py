"""The page on the benchmarks: its commands exist, and its Python runs."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import benchmarks.__main__

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
LINES = [line[2:] for line in PAGE.splitlines() if line.startswith("$ ")]
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("line", LINES)
def test_commands_are_understood(line, monkeypatch):
    """Every command of the page has options that there are."""
    words = shlex.split(line, comments=True)
    assert words[:7] == ["uv", "run", "--group", "bench", "python", "-m", "benchmarks"]
    monkeypatch.setattr(sys, "argv", words[6:])
    benchmarks.__main__._arguments()


@pytest.mark.parametrize("block", BLOCKS)
def test_python_runs(block):
    """Every Python block of the page runs as it stands, at the root of the project."""
    command = [sys.executable, "-c", block]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_every_workload_is_described():
    """The page says of each workload what an operation is."""
    from benchmarks.workloads import WORKLOADS

    assert set(re.findall(r"^\| (W\w+) \|", PAGE, re.MULTILINE)) >= set(WORKLOADS)


@pytest.mark.slow
def test_walks_are_as_the_page_says():
    """Each way is counted again: calls, hand-overs and files are those of the page within a tenth."""
    from benchmarks.walks import AIMS

    code = "import json; from benchmarks.walks import measured; print(json.dumps(measured()))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=True)
    found = json.loads(done.stdout)
    table = PAGE[PAGE.index("| from | to |") :].splitlines()[2 : 2 + len(AIMS)]
    said = [[int(cell.replace(",", "")) for cell in row.strip("| ").split(" | ")[2:]] for row in table]
    for (name, one), numbers in zip(found.items(), said, strict=True):
        calls, between, most, files, most_files = numbers[:5]
        assert (most, most_files) == AIMS[name]
        assert [one["calls"], one["hand-overs"], one["files"]] == pytest.approx([calls, between, files], rel=0.1), name
