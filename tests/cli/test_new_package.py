"""`sim new NAME --package`: a complete package of agents, which can be installed, run and tested at once."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.packages import install
from tests.registries import kept_registries

ROOT = Path(__file__).parents[2]


@pytest.fixture
def package(sim, tmp_path, monkeypatch):
    """A package that was just written, in the present folder."""
    monkeypatch.chdir(tmp_path)
    done = sim("new", "night-walkers", "--package", "--json")
    assert done.code == 0, done.err
    files = [Path(file) for file in json.loads(done.out)["files"]]
    assert all(file.is_file() for file in files)
    return tmp_path / "night-walkers"


@pytest.fixture
def installed(package, tmp_path, monkeypatch):
    """The same package, installed as its `pyproject.toml` says."""
    about = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    install(tmp_path / "site", about["name"], {}, offers=about["entry-points"], version=about["version"])
    for folder in (tmp_path / "site", package / "src"):
        monkeypatch.syspath_prepend(folder)
    with kept_registries():
        yield package
    for name in [name for name in sys.modules if name.startswith("night_walkers")]:
        del sys.modules[name]


def test_the_files(package):
    """It has all that a package needs, nothing is left to fill in, and its Python is valid."""
    files = {file.relative_to(package).as_posix(): file.read_text() for file in package.rglob("*") if file.is_file()}
    module = "src/night_walkers"
    names = {"pyproject.toml", "README.md", "tests/test_night_walkers.py"}
    names |= {f"{module}/{name}" for name in ("__init__.py", "agents.py", "py.typed", "ring.graphml", "walk.yaml")}
    assert set(files) == names
    assert not any(word in text for text in files.values() for word in ("NAME", "MODULE", "RING"))
    about = tomllib.loads(files["pyproject.toml"])["project"]
    assert (about["name"], about["license"]) == ("night-walkers", "MIT")
    for name, text in files.items():
        if name.endswith(".py"):
            compile(text, name, "exec")


@pytest.mark.slow
def test_it_runs_and_is_deterministic(sim, installed):
    """Its scenario runs by its name, twice with one hash; params, places and seeds matter."""
    hashes = [
        json.loads(sim("run", "night-walkers:walk", "--until", "1m", "--no-record", "--json", *more).out)["hash"]
        for more in ((), (), ("--seed", "1"), ("--set", "agents.walker.params.turn=1"))
    ]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3
    assert json.loads(sim("info", "packages", "--json").out)["packages"][0]["graphs"] == ["ring"]
    wrong = sim("run", "night-walkers:walk", "--set", "agents.walker.params.sped=1")
    assert "did you mean 'speed'?" in wrong.err


@pytest.mark.slow
def test_its_parts_can_be_used_alone(sim, installed):
    """Another scenario uses the agents and the graph of the package once the operator allows it."""
    Path("own.yaml").write_text(
        "name: own\nuntil: 30s\nplaces: {graph: 'night-walkers:ring'}\nagents: [{name: ann, kind: walker, place: 3}]\n"
    )
    refused = sim("run", "own.yaml")
    assert refused.code == 2
    assert "hint: allow it: --allow night-walkers" in refused.err
    assert sim("run", "own.yaml", "--allow", "night-walkers").code == 0
    schema = json.loads(sim("info", "schema", "--allow", "night-walkers", "--json").out)
    (rule,) = [
        rule for rule in schema["$defs"]["Agent"]["allOf"] if rule["if"]["properties"]["kind"]["const"] == "walker"
    ]
    assert rule["then"]["properties"]["params"]["properties"]["speed"]["description"] == "steps per second"


@pytest.mark.parametrize("name", ["json", "sim", "class", "two--hyphens", "end-", "Upper", "1st", "../up"])
def test_names_that_no_package_can_have(sim, tmp_path, monkeypatch, name):
    """A name that Python or an installer would refuse is refused, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    done = sim("new", name, "--package")
    assert (done.code, list(tmp_path.iterdir())) == (2, [])
    assert done.err.count("\n") == 2


def test_a_folder_that_exists(sim, package):
    """Nothing of an existing folder is changed."""
    (package / "README.md").write_text("mine")
    done = sim("new", "night-walkers", "--package")
    assert (done.code, (package / "README.md").read_text()) == (2, "mine")
    assert "night-walkers cannot be created: File exists" in done.err


def test_the_page_about_kinds_shows_the_same_commands():
    """What the page says to do with a new package is what the next test does in an empty environment."""
    page = (ROOT / "docs/kinds.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ (.*walkers.*|sim info packages)$", page, re.MULTILINE)
    assert commands == [
        "sim new walkers --package",
        "pip install -e walkers",
        "sim info packages",
        "sim run walkers:walk",
    ]


@pytest.mark.proof
def test_it_is_complete_in_a_new_environment(package, tmp_path):
    """Installed with uv into an empty environment, it is listed, run, recorded, replayed, and passes its own tests."""

    def call(*words: object) -> str:
        clean = {
            key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV", "UV_"))
        }
        done = subprocess.run(
            list(map(str, words)), cwd=tmp_path, env=clean, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
        return done.stdout

    call("uv", "venv", "--quiet", "--python", sys.executable, "env")
    python, command = tmp_path / "env/bin/python", tmp_path / "env/bin/sim"
    pinned = ("--constraint", ROOT / "constraints.txt")
    call("uv", "pip", "install", "--quiet", "--python", python, *pinned, f"{ROOT}[graphs]", f"{package}[test]")
    (listed,) = json.loads(call(command, "info", "packages", "--json"))["packages"]
    assert (listed["package"], listed["version"], listed["scenarios"]) == ("night-walkers", "0.1.0", ["walk"])
    first = json.loads(call(command, "run", "night-walkers:walk", "--until", "5m", "--json"))
    assert first["status"] == "finished"
    shown = json.loads(call(command, "show", "walk", "--json"))
    assert shown["versions"]["night-walkers"] == "0.1.0"
    assert json.loads(call(command, "replay", "walk", "--allow", "night-walkers", "--json"))["hash"] == first["hash"]
    assert "5 passed" in call(python, "-m", "pytest", "-q", package)
    call("uv", "pip", "uninstall", "--quiet", "--python", python, "night-walkers")
    missing = subprocess.run(
        [command, "replay", "walk", "--allow", "night-walkers"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "night-walkers 0.1.0 is not installed\nhint: pip install night-walkers==0.1.0\n" in missing.stderr
    call("uv", "pip", "install", "--quiet", "--python", python, *pinned, "--editable", package)
    again = json.loads(call(command, "run", "night-walkers:walk", "--until", "5m", "--json"))
    assert again["hash"] == first["hash"]
    assert json.loads(call(command, "show", Path(again["run"]).name, "--json"))["versions"]["night-walkers"] == "0.1.0"
