"""`sim info`: what is installed, and the dashboards that come with it."""

import json
import platform
import sys
from pathlib import Path

import pytest

from sim import __version__
from sim.base import extras
from sim.kernel import COMPILED

DASHBOARDS = Path(__file__).parents[2] / "dashboards"


@pytest.mark.slow
def test_it_says_what_is_installed(sim):
    """Versions, kernel and each extra are those of this environment, in words and as JSON."""
    found = json.loads(sim("info", "--json").out)
    assert found["version"] == __version__
    assert platform.python_version() in found["python"]
    assert found["kernel"] == ("compiled" if COMPILED else "plain Python")
    assert {name: one["installed"] for name, one in found["extras"].items()} == {
        name: extras.installed(name) for name in extras.PACKAGES
    }
    told = sim("info").out
    assert f"version   {__version__}\n" in told
    assert all(name in told for name in extras.PACKAGES)


@pytest.mark.slow
def test_an_extra_that_is_missing_is_named(sim, monkeypatch):
    """An extra of which a package is not there is said to be missing, with the command that installs it."""
    monkeypatch.setitem(sys.modules, "optuna", None)
    found = json.loads(sim("info", "--json").out)["extras"]["fit"]
    assert not found["installed"]
    assert "install an extra: pip install 'actor-sim[fit]'\n" in sim("info").out


def test_dashboards_are_written_whole(sim, tmp_path):
    """The folder has each file of the project's own that is no code, byte for byte; the list names each dashboard."""
    folder = tmp_path / "new" / "boards"
    done = sim("info", "dashboards", "--to", str(folder), "--json")
    assert done.code == 0
    wanted = {
        path.relative_to(DASHBOARDS).as_posix(): path.read_bytes()
        for path in DASHBOARDS.rglob("*")
        if path.suffix in (".json", ".yml", ".yaml")
    }
    written = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert written == wanted
    assert json.loads(done.out) == {"folder": str(folder), "files": sorted(wanted)}
    listed = json.loads(sim("info", "dashboards", "--json").out)["dashboards"]
    assert [one["file"] for one in listed] == sorted(name for name in wanted if name.endswith(".json"))


@pytest.mark.parametrize(("there", "words"), [("folder", "exists"), ("file", "cannot be written")])
def test_dashboards_overwrite_nothing(sim, tmp_path, there, words):
    """A folder that exists, or cannot be made, is refused in one sentence, and stays as it is."""
    target = tmp_path / "boards"
    target.mkdir() if there == "folder" else target.write_text("mine")
    wanted = target if there == "folder" else target / "inside"
    done = sim("info", "dashboards", "--to", str(wanted))
    assert (done.code, words in done.err, "hint: " in done.err) == (2, True, True)
    assert target.read_text() == "mine" if there == "file" else not list(target.iterdir())
