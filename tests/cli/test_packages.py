"""Installed packages on the command line: `sim info packages`, and scenarios by names such as `walkers:walk`."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from sim.agents import FAMILIES
from sim.base.errors import UsageError
from sim.runner import run
from sim.runner.fingerprint import other_packages
from tests.packages import install
from tests.registries import kept_registries

AGENTS = """
import sim

class Walker(sim.Agent):
    async def decide_action(self):
        return sim.Action("publish", {"topic": "step.made"})
"""
WALK = """
name: walk
until: 3s
agents: [{name: ann, kind: walker, loop: {min_loop_delay: 1s}}]
score: {measures: {events: {sql: SELECT count(*) FROM events, of: run}}}
"""
OFFERS = {
    "sim.agents": {"walker": "walkers_of_tests:Walker"},
    "sim.scenarios": {
        "walk": "walkers_of_tests:walk.yaml",
        "deep": "walkers_of_tests.more:walk.yaml",
        "none": "walkers_of_tests:no.yaml",
        "outside": "walkers_of_tests:../secret.yaml",
    },
    "sim.graphs": {"ring": "walkers_of_tests:ring"},
}


@pytest.fixture(autouse=True)
def site(tmp_path, monkeypatch):
    """A folder from which modules are imported, with the package `walkers`."""
    folder = tmp_path / "site"
    files = {
        "walkers_of_tests/__init__.py": AGENTS,
        "walkers_of_tests/walk.yaml": WALK,
        "walkers_of_tests/more/walk.yaml": WALK.replace("name: walk", "name: deep"),
    }
    install(folder, "Walkers", files, offers=OFFERS)
    (folder / "secret.yaml").write_text(WALK)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(tmp_path)
    with kept_registries():
        yield folder
    sys.modules.pop("walkers_of_tests", None)


def test_what_is_installed_is_listed_without_importing_it(sim):
    """`sim info packages` shows names and versions, also as JSON, and imports nothing."""
    told = sim("info", "packages", "--json")
    row = {
        "package": "Walkers",
        "version": "1.2.0",
        "agents": ["walker"],
        "scenarios": ["deep", "none", "outside", "walk"],
        "graphs": ["ring"],
    }
    assert json.loads(told.out)["packages"] == [row]
    table = sim("info", "packages").out.split()
    assert table[:5] == ["package", "version", "agents", "scenarios", "graphs"]
    assert "walkers_of_tests" not in sys.modules


def test_nothing_is_installed(sim, site):
    """Without packages, one sentence says how to make one."""
    for file in site.glob("*.dist-info/entry_points.txt"):
        file.unlink()
    site.touch()
    assert "sim new NAME --package" in sim("info", "packages").out
    assert json.loads(sim("info", "packages", "--json").out) == {"packages": []}


def test_a_scenario_of_a_package_runs_by_name(sim):
    """Naming the scenario allows the agents of its own package; the record has the name and what was allowed."""
    done = sim("run", "walkers:walk", "--json")
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert (result["scenario"], result["kinds"]) == ("walk", {"publish": 3})
    shown = json.loads(sim("show", "walk", "--json").out)
    assert (shown["options"]["allow"], shown["options"]["packages"]) == (["Walkers"], {"Walkers": "1.2.0"})
    assert Path(result["run"], "scenario.yaml").read_text() == WALK
    again = sim("replay", "walk", "--allow", "walkers", "--json")
    assert json.loads(again.out)["same"] is True
    assert run("walkers:walk").hash == result["hash"]


def test_a_replay_needs_the_permission_again(sim):
    """A record can come from anybody, so it does not allow the packages that it needs."""
    assert sim("run", "walkers:walk", "-q").code == 0
    sys.modules.pop("walkers_of_tests")
    del FAMILIES["walker"]
    done = sim("replay", "walk")
    assert done.code == 2
    assert "belongs to the package Walkers, which is not allowed\nhint: allow it: --allow Walkers" in done.err
    assert "walkers_of_tests" not in sys.modules


def test_reading_a_record_imports_nothing(sim):
    """`score`, `show`, `report` and `verify` read records of anybody, and run none of the code that these name."""
    assert sim("run", "walkers:walk", "-q").code == 0
    sys.modules.pop("walkers_of_tests")
    del FAMILIES["walker"]
    for words in ("score walk", "show walk", "report walk", "verify walk"):
        done = sim(*words.split())
        assert done.code == 0, done.err
    assert "walkers_of_tests" not in sys.modules


def test_every_command_that_takes_a_scenario_takes_the_name(sim, tmp_path):
    """`check`, `bench` and `sweep` find it as `run` does."""
    checked = sim("check", "walkers:walk", "walkers:deep", "--json")
    told = [(one["file"], one["name"]) for one in json.loads(checked.out)["scenarios"]]
    assert told == [("walkers:walk", "walk"), ("walkers:deep", "deep")]
    swept = sim("sweep", "walkers:walk", "--seeds", "1", "--jobs", "1", "--until", "2s", "--to", "swept")
    assert swept.code == 0, swept.err
    assert json.loads((tmp_path / "swept/plan.json").read_text())["allow"] == ["Walkers"]


def test_a_package_allows_its_modules(sim, tmp_path):
    """`--allow` with the name of a package allows `kind: module:Class` of each of its modules, and of no other."""
    (tmp_path / "own.yaml").write_text(WALK.replace("kind: walker", "kind: walkers_of_tests:Walker"))
    assert sim("run", "own.yaml", "--no-record", "--allow", "walkers").code == 0
    (tmp_path / "other.yaml").write_text(WALK.replace("kind: walker", "kind: this:Walker"))
    refused = sim("run", "other.yaml", "--allow", "walkers")
    assert "'this:Walker' names a module, which is not allowed" in refused.err
    assert "this" not in sys.modules


def test_a_file_of_that_name_comes_first(sim, tmp_path):
    """A file that exists is taken, and it allows nothing."""
    (tmp_path / "walkers:walk").write_text("name: own\nuntil: 1s\nagents: [{name: a}]\n")
    assert json.loads(sim("run", "walkers:walk", "--no-record", "--json").out)["scenario"] == "own"


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("walkers:wlak", "the package walkers has no scenario 'wlak'", "did you mean 'walk'?"),
        ("walkrs:walk", "no installed package 'walkrs' offers a scenario", "did you mean 'Walkers'?"),
        ("nothing-alike:walk", "no installed package 'nothing-alike' offers a scenario", "`sim info packages` lists"),
        (
            "walkers:none",
            "Walkers:none leads to 'walkers_of_tests:no.yaml', and there is no such file",
            "is written as",
        ),
    ],
)
def test_a_name_that_leads_nowhere(sim, name, message, hint):
    """What is wrong with a name is one sentence, with a hint; nothing is imported, and nothing recorded."""
    for words in (("run", name), ("bench", name), ("sweep", name)):
        done = sim(*words)
        assert done.code == 2
        assert message in done.err
        assert hint in done.err
    assert message in sim("check", name).out
    assert "walkers_of_tests" not in sys.modules
    assert not Path("runs").exists()
    with pytest.raises(UsageError):
        run(name)


# -- versions on record


def change_version(site, version):
    """Install another version of the package, or with None remove it."""
    for folder in list(site.glob("*.dist-info")):
        shutil.rmtree(folder)
    if version is None:
        shutil.rmtree(site / "walkers_of_tests")
    else:
        install(site, "Walkers", {}, offers=OFFERS, version=version)
        record = "".join(f"{file.relative_to(site).as_posix()},,\n" for file in site.rglob("*") if file.is_file())
        (site / f"Walkers-{version}.dist-info" / "RECORD").write_text(record)
    site.touch()
    sys.modules.pop("walkers_of_tests", None)
    FAMILIES.pop("walker", None)


def test_a_run_has_the_versions_of_the_packages_of_its_agents(sim):
    """They are in the record and in `sim show`, and not in the hash of the run."""
    first = json.loads(sim("run", "walkers:walk", "--json").out)
    shown = sim("show", "walk")
    assert "packages    Walkers 1.2.0" in shown.out
    assert json.loads(sim("show", "walk", "--json").out)["versions"]["Walkers"] == "1.2.0"
    plain = json.loads(sim("run", write_plain(), "--json").out)
    assert "packages" not in sim("show", "plain").out
    assert plain["hash"]
    site = Path(sys.path[0])
    change_version(site, "1.3.0")
    again = json.loads(sim("run", "walkers:walk", "--json").out)
    assert again["hash"] == first["hash"]


def write_plain():
    """Write a scenario without packages, and return its path."""
    Path("plain.yaml").write_text("name: plain\nuntil: 1s\nagents: [{name: a}]\n")
    return "plain.yaml"


@pytest.mark.parametrize("verb", ["branch walk --at 1s", "branch walk --at 0", "replay walk"])
def test_a_missing_package_is_named(sim, site, verb):
    """A run whose package is not installed says which one, in which version, and how to install it."""
    assert sim("run", "walkers:walk", "-q").code == 0
    change_version(site, None)
    done = sim(*verb.split(), "--allow", "walkers")
    assert done.code == 2
    assert "needs a package: Walkers 1.2.0 is not installed\nhint: pip install Walkers==1.2.0\n" in done.err
    assert len(list(Path("runs").iterdir())) == 1


def test_another_version_is_named(sim, site):
    """A branch is refused with another version unless the change is allowed; a replay tells it and verifies."""
    assert sim("run", "walkers:walk", "-q").code == 0
    change_version(site, "2.0")
    told = "Walkers 1.2.0 was used, but 2.0 is installed"
    refused = sim("branch", "walk", "--at", "1s", "--allow", "walkers")
    assert refused.code == 1
    assert told in refused.err
    assert "hint: pip install Walkers==1.2.0; or --allow-change" in refused.err
    replayed = sim("replay", "walk", "--allow", "walkers")
    assert (replayed.code, told in replayed.err) == (0, True)
    assert sim("branch", "walk", "--at", "1s", "--allow", "walkers", "--allow-change").code == 0
    assert json.loads(sim("show", "walk", "--json").out)["versions"]["Walkers"] == "2.0"


@pytest.mark.parametrize("name", ["--index-url=http://127.0.0.1 walkers", "walkers; rm -rf .", "-e"])
def test_a_record_gives_no_command_that_is_none(name):
    """The name of a package in a record of somebody else is not put into a command unless it is a name."""
    (other,) = other_packages({name: "1.0", "python": "2"})
    assert (other.installed, other.hint) == (None, None)
    assert other_packages({"no-such-walkers": "1.0+cu.1"})[0].hint == "pip install no-such-walkers==1.0+cu.1"
