"""The layers, the edge and the doors of pyproject.toml hold, and breaking one is noticed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINT = "from importlinter.cli import lint_imports_command as main; main()"


def lint(tree: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the tree with its own pyproject.toml."""
    return subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def skeleton(tmp_path: Path) -> Path:
    """Make a tree with the project's contracts and all its modules, which are empty."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for module in (ROOT / "sim").rglob("*.py"):
        copy = tmp_path / module.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.touch()
    return tmp_path


@pytest.mark.slow
def test_sim_keeps_its_contracts():
    """Imports of `sim` run downwards, only the edge touches the outside, and each library has one door."""
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
def test_what_is_allowed_passes(skeleton):
    """The contracts let the edge and the doors do their work."""
    (skeleton / "sim/cli/run.py").write_text("import time, click\nfrom sim import kernel\n")
    (skeleton / "sim/host/host.py").write_text("import anyio, trio\n")
    (skeleton / "sim/kernel/rng.py").write_text("import random\n")
    (skeleton / "sim/record/export.py").write_text("def export():\n    import duckdb\n")
    result = lint(skeleton)
    assert result.returncode == 0, result.stdout + result.stderr


FORBIDDEN = [  # module, its text, what the report must say
    ("kernel/up", "from sim.record import files", "sim.kernel.up -> sim.record.files"),
    ("base/errors", "def late():\n    import sim.kernel", "sim.base.errors -> sim.kernel"),
    ("rogue", "", "- sim.rogue"),
    ("kernel/rogue", "", "- sim.kernel.rogue"),
    ("kernel/duration", "from sim.kernel import waits", "sim.kernel.duration -> sim.kernel.waits"),
    ("kinds/sop/loop", "import sim.kinds.goals", "sim.kinds.sop.loop -> sim.kinds.goals"),
    ("kernel/clock", "def now():\n    import time", "sim.kernel.clock -> time"),
    ("kernel/kernel", "from anyio.abc import TaskGroup", "sim.kernel.kernel -> anyio"),
    ("record/reader", "from datetime import datetime", "sim.record.reader -> datetime"),
    ("kernel/dice", "from random import Random", "sim.kernel.dice -> random"),
    ("host/host", "import sqlite3", "sim.host.host -> sqlite3"),
    ("record/codec", "import msgspec", "sim.record.codec -> msgspec"),
    ("record/files", "import duckdb", "sim.record.files -> duckdb"),
]


@pytest.mark.slow
def test_what_is_forbidden_fails(skeleton):
    """Every kind of forbidden import, inside a function too, and a module without a layer are reported."""
    for module, text, _ in FORBIDDEN:
        (skeleton / "sim" / f"{module}.py").write_text(text)
    result = lint(skeleton)
    assert result.returncode == 1
    assert [said for _, _, said in FORBIDDEN if said not in result.stdout] == [], result.stdout
