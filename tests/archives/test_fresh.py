"""An archive is repeated in a new environment of another version of Python, with the code that it brings."""

import contextlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sim.experiments.experiment import evaluate
from sim.experiments.folder import write
from sim.experiments.results import Results

pytestmark = [pytest.mark.proof, pytest.mark.timeout(600)]
HERE = Path(__file__)


def other_python() -> str:
    """Return another Python than this one, if the machine has any."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    for version in ("3.13", "3.12", "3.11", "3.14"):
        for folder in sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}*/bin/python{version}")):
            if version != own:
                return str(folder)
        found = shutil.which(f"python{version}")
        if version != own and found and call(Path(), found, "-V").returncode == 0:
            return found
    return sys.executable


def call(folder: Path, *command: object) -> subprocess.CompletedProcess[str]:
    """Run a command, and return what it printed."""
    return subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def hikers(tmp_path_factory):
    """A folder with the archive of a run of a package of agents, which is installed in an environment of its own."""
    folder = tmp_path_factory.mktemp("hikers")
    root = HERE.parents[2]
    assert call(folder, sys.executable, "-m", "sim", "new", "hikers", "--package").returncode == 0
    assert call(folder, "uv", "venv", "--quiet", "--python", sys.executable, "own").returncode == 0
    installed = call(
        folder,
        "uv",
        "pip",
        "install",
        "--quiet",
        "-p",
        "own/bin/python",
        "-c",
        root / "constraints.txt",
        root,
        "./hikers",
    )
    assert installed.returncode == 0, installed.stderr
    for command in (("run", "hikers:walk", "--quiet"), ("archive", "walk", "--to", "walk.zip")):
        done = call(folder, "own/bin/sim", *command)
        assert done.returncode == 0, done.stderr
    return folder


def test_another_python_repeats_it_with_the_package_inside(hikers):
    """Where neither the package nor a matching Python is installed, the archive is verified and the run is the same."""
    done = call(hikers, sys.executable, "-m", "sim", "verify", "walk.zip", "--replay", "--python", other_python())
    assert done.returncode == 0, done.stderr
    assert "the same" in done.stdout


def test_without_uv_pip_does_it(hikers, tmp_path):
    """Where uv is not installed, the modules `venv` and `pip` of Python set up the new environment."""
    program = (
        "import os, sys, tempfile; from pathlib import Path; from sim.archives import check_archive, repeat\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    checked = check_archive(Path('walk.zip'), Path(folder))\n"
        "    variables = {**os.environ, 'PATH': '/usr/bin:/bin'}\n"
        "    print(repeat(Path(folder), checked.replay, None, variables))\n"
    )
    done = call(hikers, sys.executable, "-c", program)
    assert done.stdout.startswith("Repeated(same=True"), done.stderr


def forge(folder: Path) -> None:
    """Change an outcome, and make the seals, the table and the page fit."""
    with contextlib.closing(Results(folder)) as results:
        results._database.execute("UPDATE outcomes SET value = 999 WHERE point = 0 AND seed = 1 AND name = 'R'")
        for facts in results.trials():
            seal = "UPDATE trials SET seal = ? WHERE point = ? AND seed = ?"
            results._database.execute(seal, (results._seal_of(facts), *facts[:2]))
        write(results, evaluate(results))


def test_a_fit_is_repeated(tmp_path):
    """The new environment has the packages with which a fit chooses its candidates, so that they are the same."""
    scenario = HERE.parents[2] / "scenarios" / "contagion.yaml"
    (tmp_path / "ill.csv").write_text("time,I\n1d,5\n2d,9\n")
    varied = ("--vary", "agents.person.state.beta=0.01..0.3", "--target", "ill.csv", "--until", "3d")
    for command in (
        ("fit", scenario, *varied, "--candidates", "4", "--batch-size", "2", "--seeds", "2", "--to", "study"),
        ("archive", "study", "--to", "study.zip"),
        ("verify", "study.zip", "--replay", "--own"),
    ):
        done = call(tmp_path, sys.executable, "-m", "sim", *command)
        assert done.returncode == 0, done.stderr
    assert "the same; by the sim that is installed here" in done.stdout


def test_an_experiment_is_repeated(tmp_path):
    """The trials of an experiment give the same results in the new environment, by the sim in the archive or by the one
    that is installed. Forged ones, whose seals fit, are named in the value that differs.
    """
    scenario = HERE.parents[2] / "scenarios" / "contagion.yaml"
    for command in (
        ("sweep", scenario, "--vary", "agents.person.state.beta=0.05,0.2", "--seeds", "2", "--to", "study"),
        ("archive", "study", "--to", "study.zip"),
        ("verify", "study.zip", "--replay", "--own"),
    ):
        done = call(tmp_path, sys.executable, "-m", "sim", *command)
        assert done.returncode == 0, done.stderr
    assert "the same; by the sim that is installed here" in done.stdout
    forge(tmp_path / "study")
    assert call(tmp_path, sys.executable, "-m", "sim", "archive", "study", "--to", "other.zip").returncode == 0
    assert call(tmp_path, sys.executable, "-m", "sim", "verify", "other.zip").returncode == 0
    done = call(tmp_path, sys.executable, "-m", "sim", "verify", "other.zip", "--replay")
    assert done.returncode == 1
    assert "byte by byte, the one that is installed here" in done.stderr
    assert re.search(r"value of point 0, seed 1, name R is [0-9.]+, and was 999.0", done.stderr), done.stderr
