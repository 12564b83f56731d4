"""What an installation without extras can do, and what it says about the rest."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from sim.base.errors import UsageError
from sim.base.extras import PACKAGES, installed, need

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PYPROJECT["project"]["optional-dependencies"]
LARGEST = 40 * 2**20
"""Bytes on disk of an installation without extras, with the bytecode that pip makes."""


def named(requirements: list[str]) -> set[str]:
    """Return the import names of requirements."""
    return {re.split(r"[^\w-]", text)[0].replace("-", "_") for text in requirements}


def test_extras_are_the_same_in_the_code_and_in_the_package():
    """What `sim.base.extras` looks for is what the extra of that name installs, and `all` installs all but Ray."""
    (every,) = EXTRAS["all"]
    assert {extra: set(packages) for extra, packages in PACKAGES.items()} == {
        extra: named(requirements) for extra, requirements in EXTRAS.items() if extra != "all"
    }
    assert set(every.removeprefix("actor-sim[").removesuffix("]").split(",")) == set(PACKAGES) - {"ray"}


def test_a_package_that_is_missing_is_named_with_its_extra(monkeypatch):
    """A feature without its package says which package it needs and what to type; with it, it says nothing."""
    assert installed("metrics")
    need("metrics", "metrics need")
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert not installed("metrics")
    with pytest.raises(UsageError, match=r"^metrics need the package prometheus_client") as error:
        need("metrics", "metrics need")
    assert error.value.hint == "install it: pip install 'actor-sim[metrics]'"


@pytest.mark.slow
def test_nothing_of_an_extra_is_imported_without_need():
    """`import sim`, its command line and a run without outside models import no package of an extra."""
    code = (
        "import sys, sim, sim.cli, sim.cli.run, sim.cli.metrics_options, sim.cli.model_options\n"
        f"sim.run({str(ROOT / 'scenarios/queue.yaml')!r}, until='1m', out=None)\n"
        "found = {name.partition('.')[0] for name in sys.modules}\n"
        f"sys.exit(' '.join(found & {set().union(*PACKAGES.values())!r}) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def commands(word: str) -> list[str]:
    """Return the commands of the first block of the README that has a word."""
    blocks = re.findall(r"^```console\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return re.findall(r"^\$ (.*)$", next(block for block in blocks if word in block), re.MULTILINE)


@pytest.mark.proof
@pytest.mark.timeout(500)
def test_the_first_commands_work_in_a_clone(tmp_path):
    """The commands at the top of the README work in a fresh clone, and set up a small environment for a run."""
    clone = tmp_path / "clone"
    left_out = shutil.ignore_patterns(".*", "build", "dist", "runs", "*.egg-info", "*.so", "__pycache__")
    shutil.copytree(ROOT, clone, ignore=left_out)
    shutil.copy(ROOT / ".gitignore", clone)
    env = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT")}
    pip, *first = commands("--no-dev")
    assert pip == "pip install uv"
    for command in first:
        done = subprocess.run(shlex.split(command), cwd=clone, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert len(list(clone.glob("runs/ecology-*/view.html"))) == 1
    assert on_disk(clone / ".venv") < LARGEST


# -- an installed wheel

Run = Callable[..., subprocess.CompletedProcess[str]]


def on_disk(folder: Path) -> int:
    """Return the bytes that the files of a folder take."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return sum(path.stat().st_blocks * 512 for path in files)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an environment in which the wheel was installed without extras and without a compiler."""
    home = tmp_path_factory.mktemp("home")
    env = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH")}

    def uv(*command: str, **settings: str) -> None:
        done = subprocess.run(
            ["uv", *command], cwd=ROOT, env={**env, **settings}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    build, install, *_ = commands("SIM_PURE_PYTHON")  # as the README says
    assert build == "SIM_PURE_PYTHON=1 uv build --wheel"
    uv("build", "--wheel", "--quiet", "-o", str(home / "dist"), SIM_PURE_PYTHON="1")
    (wheel,) = (home / "dist").glob("*.whl")
    assert install == f"pip install dist/{wheel.name}"
    uv("venv", "--quiet", "--python", sys.executable, str(home / "user"))
    uv(
        "pip", "install", "--quiet", "--compile-bytecode", "--only-binary", ":all:",
        "--python", str(home / "user/bin/python"), "--constraint", "constraints.txt", str(wheel), CC="/nonexistent",
    )  # fmt: skip
    return home


@pytest.fixture
def run(home: Path, tmp_path: Path) -> Run:
    """Run the installed `sim` with arguments in an empty folder."""
    env = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH")}

    def call(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(home / "user/bin/sim"), *arguments], cwd=tmp_path, env={**env, **settings},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    return call


@pytest.mark.proof
def test_an_installation_without_extras_is_small(home):
    """It takes less than 40 MB, and its wheel has no compiled part and is for every machine."""
    (wheel,) = (home / "dist").glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [path for path in (home / "user/lib").rglob("_core.*") if "sim" in path.parts]
    assert on_disk(home / "user/lib") < LARGEST


@pytest.mark.proof
def test_the_main_job_needs_no_extra(run, tmp_path):
    """Without extras one can check every scenario, run one, list, show, report and replay: with the same hash."""
    for path in sorted((ROOT / "scenarios").glob("*.yaml")):
        done = run("check", str(path))
        assert done.returncode == 0, (path.name, done.stderr)
    scenario = "ecology.yaml"
    assert run("new", "--from", "ecology").returncode == 0  # as the README says
    here = subprocess.run(
        [sys.executable, "-m", "sim", "run", str(ROOT / "scenarios/ecology.yaml"), "--no-record", "--json"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    done = run("run", scenario, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["hash"] == json.loads(here.stdout)["hash"]
    for command in (["list"], ["show", "ecology"], ["view", "ecology"], ["report", "ecology"], ["replay", "ecology"]):
        done = run(*command)
        assert done.returncode == 0, (command, done.stderr)
        assert done.stdout


@pytest.mark.proof
@pytest.mark.parametrize(
    ("arguments", "sentence", "extra"),
    [
        (["run", "SCENARIO", "--metrics", "0"], "metrics for Prometheus need the package prometheus_client", "metrics"),
        (["run", "SCENARIO", "--metrics-file", "x.prom"], "metrics for Prometheus need", "metrics"),
        (["run", "SCENARIO", "--backend", "trio"], "the event loop trio needs the package trio", "trio"),
        (
            ["run", "DEBATE", "--model", "vllm:any"],
            "models at an endpoint need the package openai",
            "models",
        ),
        (["sweep", "DEBATE", "--model", "vllm:any", "--seeds", "2"], "models at an endpoint need", "models"),
        (
            ["sweep", "SCENARIO", "--vary", "agents.writer.count=1..4", "--design", "latin", "--samples", "2"],
            "the design latin needs the package scipy",
            "designs",
        ),
        (
            ["sweep", "SCENARIO", "--vary", "agents.writer.count=1..4", "--design", "morris", "--samples", "2"],
            "the design morris needs the package SALib",
            "sensitivity",
        ),
        (
            ["fit", "SCENARIO", "--vary", "agents.writer.count=1..4", "--target", "DATA"],
            "a fit needs optuna (with numpy) and cmaes; this installation lacks the package optuna",
            "fit",
        ),
        (["sweep", "SCENARIO", "--seeds", "2", "--on", "ray"], "experiments on Ray need the package ray", "ray"),
        (["info", "tools", "--mcp", "files=server"], "MCP servers need the package mcp", "mcp"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_needs_an_extra_says_which(run, arguments, sentence, extra, tmp_path):
    """A feature behind an extra is refused in one sentence with what to type, as wrong usage, and changes nothing."""
    names = {"SCENARIO": str(ROOT / "scenarios/ecology.yaml"), "DEBATE": str(ROOT / "scenarios/debate.yaml")}
    names["DATA"] = str(ROOT / "tests/experiments/data.csv")
    done = run(*[names.get(one, one) for one in arguments])
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    error, hint = done.stderr.splitlines()
    assert error.startswith(f"sim: error: {sentence}")
    assert hint == f"hint: install it: pip install 'actor-sim[{extra}]'"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.proof
def test_an_export_to_parquet_and_a_frame_need_an_extra(run, home, tmp_path):
    """An export to Parquet and a DataFrame of a recorded run say what to install; CSV needs nothing."""
    assert run("run", str(ROOT / "scenarios/queue.yaml"), "--until", "1m").returncode == 0
    done = run("export", "queue", "events", "--format", "parquet", "--to", "x.parquet")
    assert (done.returncode, done.stderr.splitlines()) == (
        2, ["sim: error: export to Parquet needs the package duckdb",
            "hint: install it: pip install 'actor-sim[parquet]'"],
    )  # fmt: skip
    assert run("export", "queue", "events", "--format", "csv", "--to", "x.csv").returncode == 0
    code = "import sim\ntry:\n    sim.open('queue').frame('events')\nexcept sim.UsageError as e:\n    print(e.hint)"
    done = subprocess.run(
        [str(home / "user/bin/python"), "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "install pandas: pip install 'actor-sim[frames]'\n", done.stderr
