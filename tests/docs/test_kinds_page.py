"""The kind of agents on the page about kinds works as one file, and as an installed package."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import attrs
import pytest

from sim.agents import Family

PAGE = (Path(__file__).parents[2] / "docs" / "kinds.md").read_text(encoding="utf-8")


def _block(language: str) -> str:
    """Return the block of the page that is about gardeners."""
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return next(block for block in found if "garden" in block)


def _sim(folder: Path, *words: str, path: Path | None = None, salt: str = "0") -> subprocess.CompletedProcess[str]:
    """Run the command in a folder, with packages from `path`."""
    environment = {**os.environ, "PYTHONHASHSEED": salt, **({} if path is None else {"PYTHONPATH": str(path)})}
    return subprocess.run(
        [sys.executable, "-m", "sim", *words],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the two files of the page."""
    (tmp_path / "garden.py").write_text(_block("python"), encoding="utf-8")
    (tmp_path / "garden.yaml").write_text(_block("yaml"), encoding="utf-8")
    return tmp_path


@pytest.fixture
def package(tmp_path: Path) -> tuple[Path, Path]:
    """A folder with the scenario alone, and one with the package, installed as its `pyproject.toml` says."""
    project = tomllib.loads(_block("toml"))
    about, modules = project["project"], project["tool"]["setuptools"]["py-modules"]
    assert modules == ["garden"]
    site, work = tmp_path / "site", tmp_path / "work"
    information = site / f"{about['name'].replace('-', '_')}-{about['version']}.dist-info"
    information.mkdir(parents=True)
    work.mkdir()
    (site / "garden.py").write_text(_block("python"), encoding="utf-8")
    (information / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n", encoding="utf-8"
    )
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in about["entry-points"].items()
    ]
    (information / "entry_points.txt").write_text("".join(groups), encoding="utf-8")
    scenario = _block("yaml").replace("kind: garden:GARDENER", "kind: gardener")
    (work / "garden.yaml").write_text(scenario, encoding="utf-8")
    return work, site


def test_the_kind_is_short():
    """A kind of agents with settings, a tool, memories and an action takes fewer than 40 lines."""
    assert len([line for line in _block("python").splitlines() if line.strip()]) < 40


@pytest.mark.proof
def test_one_file_is_enough(folder):
    """The commands of the page run beside the file, in this order."""
    commands = [line.removeprefix("$ uv run sim ") for line in _block("console").splitlines()]
    assert len(commands) == 4
    for command in commands:
        done = _sim(folder, *shlex.split(command))
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        if command.startswith("show"):
            assert "I watered the tulips." in done.stdout
    checked = _sim(folder, "check", "garden.yaml", "--allow", "garden")
    assert checked.returncode == 0, checked.stderr


@pytest.mark.slow
def test_a_file_is_imported_only_if_it_is_allowed(folder):
    """Without --allow the code beside a scenario is not run."""
    with (folder / "garden.py").open("a", encoding="utf-8") as file:
        file.write("\nprint('imported')\n")
    done = _sim(folder, "run", "garden.yaml")
    assert (done.returncode, "imported" in done.stdout + done.stderr) == (2, False)
    assert "'garden:GARDENER' names a module, which is not allowed" in done.stderr


@pytest.mark.slow
def test_a_package_is_refused_unless_it_is_allowed(package):
    """One sentence says what to do."""
    work, site = package
    done = _sim(work, "run", "garden.yaml", path=site)
    assert done.returncode == 2
    where, what = (
        "sim: error: agents.gardener.kind: ",
        "the kind of agents 'gardener' belongs to the package sim-garden",
    )
    assert done.stderr.splitlines() == [f"{where}{what}, which is not allowed", "hint: allow it: --allow sim-garden"]
    assert not (work / "runs").exists()


@pytest.mark.proof
def test_a_package_gives_the_same_run_each_time(package):
    """Two processes with other hash seeds, on asyncio and trio, have one hash; the record is replayed to it."""
    work, site = package
    hashes = []
    for salt, backend in (("1", "asyncio"), ("2", "trio")):
        options = ("--allow", "sim-garden", "--backend", backend, "--json")
        done = _sim(work, "run", "garden.yaml", *options, path=site, salt=salt)
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert (result["errors"], result["services"]["tools"]["calls"]) == (0, {"garden.water": 6})
        hashes.append(result["hash"])
    assert hashes[0] == hashes[1]
    again = _sim(work, "replay", "garden", "--allow", "sim-garden", "--json", path=site)
    assert again.returncode == 0, again.stderr
    assert (json.loads(again.stdout)["same"], json.loads(again.stdout)["hash"]) == (True, hashes[0])
    refused = _sim(work, "replay", "garden", path=site)
    assert refused.returncode != 0
    assert "belongs to the package sim-garden, which is not allowed" in refused.stderr


@pytest.mark.proof
def test_a_package_has_its_settings_checked_and_described(package):
    """A fault in its settings has a line and a column, and the schema has them."""
    work, site = package
    file = work / "garden.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("task:", "tsk:"), encoding="utf-8")
    done = _sim(work, "check", "garden.yaml", "--allow", "sim-garden", path=site)
    assert done.returncode == 2
    assert "unknown key 'tsk'" in done.stdout
    assert "did you mean 'task'?" in done.stdout
    schema = _sim(work, "info", "schema", "--allow", "sim-garden", path=site)
    rules = json.loads(schema.stdout)["$defs"]["Agent"]["allOf"]
    (found,) = [rule["then"] for rule in rules if rule["if"]["properties"]["kind"]["const"] == "gardener"]
    assert list(found["properties"]["settings"]["properties"]) == ["task"]
    assert "gardener" not in _sim(work, "info", "schema", path=site).stdout


def test_the_table_has_every_attribute_of_a_family():
    """The page describes all that a family can have."""
    rows = re.findall(r"^\| `(\w+)` \|", PAGE.partition("## What a family has")[2].partition("\n## ")[0], re.MULTILINE)
    assert set(rows) == {attribute.name for attribute in attrs.fields(Family)}
