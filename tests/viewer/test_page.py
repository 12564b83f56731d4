"""The page of a view as a file."""

import base64
import hashlib
import json
import re
import stat
import zlib
from importlib.resources import files

import pytest

from sim.base.errors import RunError, UsageError
from sim.inspect.viewer import write_view
from sim.inspect.viewer.page import Opens
from sim.kernel.codec import encode
from tests.viewer.conftest import HOSTILE, overview_of, read, states

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


def test_the_policy_names_what_may_run(stored):
    """The policy of a page allows its own script and style, by hash, and nothing from anywhere."""
    page = write_view(stored(states("a", (0, "running")))).file.read_text(encoding="utf-8")
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    (style,) = re.findall("<style>(.*?)</style>", page, re.DOTALL)
    (script,) = re.findall("<script>(.*?)</script>", page, re.DOTALL)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))

    def hashed(text):
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == hashed(script)
    assert rules["style-src"] == hashed(style)


def test_numbers_that_json_lacks_are_null(stored):
    """What is not finite is null in the page, so that a browser can read it."""
    overview = overview_of(stored(states("a", (0, "running"))))
    overview["end"] = float("nan")
    assert json.loads(encode(overview), parse_constant=pytest.fail)["end"] is None


def test_a_page_is_in_the_folder_of_its_run(stored):
    """By default a page is written beside the run, readable by its owner alone, and is replaced; the one that opens at
    the overview has another name.
    """
    run = stored(states("a", (0, "running")))
    names: list[tuple[Opens, str]] = [("agents", "view.html"), ("overview", "report.html")]
    for opens, name in names:
        file, again = write_view(run, opens=opens).file, write_view(run, opens=opens).file
        assert file == again == run.path / name
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert read(file).about["opens"] == opens
    assert sorted(path.name for path in run.path.iterdir()) == [
        "report.html",
        "run.db",
        "run.head",
        "run.lock",
        "scenario.yaml",
        "view.html",
    ]


def test_nothing_is_overwritten_unasked(stored, tmp_path):
    """A file that is there is replaced only by force, and nothing is written into the folder of another run."""
    run, other = stored(states("a", (0, "running"))), stored([])
    target = tmp_path / "mine.html"
    target.write_text("mine")

    with pytest.raises(UsageError, match="exists"):
        write_view(run, target)
    with pytest.raises(UsageError, match="folder of a run"):
        write_view(run, other.path / "view.html")
    assert target.read_text() == "mine"
    assert write_view(run, target, force=True).file.read_text().startswith("<!doctype html>")


def test_an_overview_is_written_of_any_run(ran, monkeypatch):
    """If a page would be too large with all events, the one that opens at the overview is written without them."""
    run = ran(TINY)
    whole = write_view(run, opens="overview")
    page = read(whole.file)
    needed = [page.blocks[page.about[name]] for name in ("scenario", "overview")]
    room = sum(len(base64.b64encode(zlib.compress(block))) for block in needed) + 50
    monkeypatch.setattr("sim.inspect.viewer.blocks.MOST_BYTES", room)
    written = write_view(run, opens="overview")
    page = read(written.file)
    assert (whole.whole, written.whole) == (True, False)
    assert (page.about["whole"], page.about["chunks"], page.about["calls"]) == (False, [], [])
    overview = json.loads(page.blocks[page.about["overview"]])
    assert overview["numbers"]["events"] == written.events == run.info.events


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
