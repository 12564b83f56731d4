"""From which installed distribution a module comes: `sim.base.distributions`."""

import json
import sys
from pathlib import Path

import pytest

from sim.base.distributions import InstalledDistribution, distribution_of
from tests.packages import install


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder from which modules are imported."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def editable(folder: Path) -> str:
    """Return the text of `direct_url.json` of an editable installation."""
    return json.dumps({"url": folder.as_uri(), "dir_info": {"editable": True}})


def test_installed_package():
    """A module of an installed package leads to the name and version that pip knows, also if the names differ."""
    found = distribution_of("attr.validators")
    assert found is not None
    assert found.name == "attrs"
    assert found.version.count(".") == 2


def test_namespace_package():
    """Of a package that several distributions share, the one with the file of the module counts."""
    found = distribution_of("ruamel.yaml.nodes")
    assert found is not None
    assert found.name == "ruamel.yaml"


def test_editable_by_this_build():
    """This project itself, installed in editable mode by its own build, is found."""
    found = distribution_of("sim.agents.family")
    assert found is not None
    assert found.name == "actor-sim"


@pytest.mark.parametrize("module", ["json", "__main__", "no_such_module", "sim.nothing", "json.nothing", "a..b", ""])
def test_no_distribution(module):
    """Modules of Python, of no package, and modules that do not exist come from no distribution."""
    assert distribution_of(module) is None


def test_nothing_is_imported(site):
    """The distribution of a module that was never imported is found without importing it or its package."""
    stop = "raise SystemExit('imported')"
    install(site, "never-imported", {"never_imported/__init__.py": stop, "never_imported/deep/agents.py": stop})
    assert distribution_of("never_imported.deep.agents") == InstalledDistribution("never-imported", "1.2.0")
    assert distribution_of("never_imported") == InstalledDistribution("never-imported", "1.2.0")
    assert "never_imported" not in sys.modules


def test_module_that_hides_an_installed_one(site, tmp_path, monkeypatch):
    """A module beside the user's scenario that hides an installed one of the same name is not taken for it."""
    install(site, "two-of-a-name", {"two_of_a_name.py": ""})
    near = tmp_path / "near"
    near.mkdir()
    (near / "two_of_a_name.py").touch()
    monkeypatch.syspath_prepend(near)
    assert distribution_of("two_of_a_name") is None


@pytest.mark.parametrize("top_level", [{}, {"top_level.txt": "walkers_in_src\n"}], ids=["by the path", "by the names"])
def test_editable_with_src_layout(site, tmp_path, monkeypatch, top_level):
    """A package whose source is used in place is found; another module in the same project is not part of it."""
    project = tmp_path / "project"
    (project / "src/walkers_in_src").mkdir(parents=True)
    (project / "src/walkers_in_src/__init__.py").touch()
    (project / "beside_the_source.py").touch()
    for folder in (project, project / "src"):
        monkeypatch.syspath_prepend(folder)
    path = {"_walkers.pth": f"import os\n{project / 'src'}\n"}
    install(site, "walkers-in-src", path, metadata={"direct_url.json": editable(project), **top_level})
    assert distribution_of("walkers_in_src") == InstalledDistribution("walkers-in-src", "1.2.0")
    assert distribution_of("beside_the_source") is None


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"dir_info": 1}', '{"dir_info": {"editable": true}}'])
def test_damaged_metadata(site, text):
    """Metadata that another tool has damaged hides no other distribution, and raises nothing."""
    install(site, "damaged", {}, metadata={"direct_url.json": text})
    (site / "stray_module.py").touch()
    assert distribution_of("stray_module") is None
    assert distribution_of("attr") is not None
