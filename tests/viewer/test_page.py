"""The page of a view as a file."""

import hashlib
import json
import re
from importlib.resources import files

import pytest

from sim.base.errors import RunError
from sim.inspect.viewer import write_view
from tests.report.conftest import HOSTILE, states

TINY = "name: tiny\nuntil: 1m\nagents: [{name: a, count: 2, loop: {min_loop_delay: 1s}}]\n"


def test_vendored_libraries_are_those_that_are_recorded():
    """Each file of a library in the package has the checksum of `vendor.json`, a licence text, and an open licence."""
    vendor = files("sim.inspect.viewer") / "web" / "vendor"
    libraries = json.loads((vendor / "vendor.json").read_text(encoding="utf-8"))
    recorded = {name: sha for library in libraries for name, sha in library["files"].items()}
    there = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in vendor.iterdir()}
    del there["vendor.json"]

    assert there == recorded
    for library in libraries:
        assert library["licence"] in ("MIT", "ISC", "BSD-3-Clause")
        assert f"{library['name']}.LICENSE.txt" in library["files"]
        text = (vendor / f"{library['name']}.min.js").read_text(encoding="utf-8")
        assert f"v{library['version']}" in text.split("\n")[0]


def test_nothing_of_others_is_markup(stored):
    """No text of agents or scenarios is in the page but in JSON, without signs of HTML, and in compressed blocks."""
    run = stored(
        [
            *states(HOSTILE, (0, "running")),
            (1, HOSTILE, "message.sent", {"sender": HOSTILE, "to": HOSTILE, "topic": HOSTILE, "data": HOSTILE}),
        ],
        name=HOSTILE,
        scenario=f"name: {HOSTILE}\n",
    )
    text = write_view(run).file.read_text(encoding="utf-8")
    assert "<script>document" not in text
    assert "\u202e" not in text
    assert "\x1b" not in text
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-[\w+/=]+'; script-src 'sha256-[\w+/=]+';"
        r" base-uri 'none'; form-action 'none'",
        policy,
    )


def test_a_page_that_browsers_cannot_open_is_not_written(ran, monkeypatch):
    """A page that would be too large is refused with a hint, and no file is left."""
    monkeypatch.setattr("sim.inspect.viewer.blocks.MOST_BYTES", 100)
    run = ran(TINY)
    before = sorted(run.path.iterdir())
    with pytest.raises(RunError, match="the page would have more than 0 MB") as refused:
        write_view(run)
    assert "--serve" in (refused.value.hint or "")
    assert sorted(run.path.iterdir()) == before


def test_the_same_run_gives_the_same_page(ran):
    """A page depends on the run only."""
    run = ran(TINY)
    first = write_view(run).file.read_bytes()
    assert write_view(run).file.read_bytes() == first
