import base64
import hashlib
import json
import re
import stat

import pytest

from sim.base.errors import UsageError
from sim.inspect.report import collect, render, write_report
from tests.report.conftest import HOSTILE, states


@pytest.fixture
def hostile(stored):
    """A run whose every text is an attack."""
    events = [
        *states(HOSTILE, (0, "running")),
        (1, HOSTILE, "message.sent", {"sender": HOSTILE, "to": HOSTILE + "2", "topic": HOSTILE, "data": HOSTILE}),
        (2, HOSTILE, "action.x", {"success": False, "error": HOSTILE, "arguments": {HOSTILE: HOSTILE}}),
        (3, HOSTILE, "metric.sample", {HOSTILE: 1.0}),
        (4, HOSTILE, "observation", {"name": HOSTILE, "value": 1}),
        (5, HOSTILE, "model.call", {"provider": HOSTILE, "model": HOSTILE, "use": HOSTILE, "error": HOSTILE}),
        (5, HOSTILE, "user.created", {"user": HOSTILE, "links": [{"platform_username": HOSTILE}]}),
        (5, HOSTILE, "conversation.started", {"conversation": HOSTILE, "user": HOSTILE, "channel": HOSTILE}),
        (5, HOSTILE, "conversation.message", {"conversation": HOSTILE, "role": "user", "content": HOSTILE}),
        (5, HOSTILE, "conversation.summarized", {"conversation": HOSTILE, "summary": HOSTILE}),
        (6, HOSTILE, "agent.error", {"error": "</script><img src=x onerror=alert(1)>"}),
    ]
    digest = {"agents": {HOSTILE: {"state": {HOSTILE: HOSTILE}}}}
    return stored(events, digest=digest, name=HOSTILE, options={HOSTILE: HOSTILE})


def _data(page):
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    return json.loads(match[1])


def test_the_page_holds_its_data(stored):
    """What was collected stands in the page as JSON, and comes out of it unchanged."""
    data = collect(stored(states("a", (0, "running"))))

    assert _data(render(data)) == json.loads(json.dumps(data))


def test_hostile_text_is_harmless(hostile):
    """No text of a run can end the data, begin a script, or hold a sign that acts on whoever shows the file."""
    page = render(collect(hostile))
    head, _, body = page.partition("<style>")

    assert page.count("<script") == page.count("</script>") == 2
    assert "<img" not in page
    assert "&lt;script&gt;" in head  # the title
    assert all(sign.isprintable() or sign == "\n" for sign in page)
    assert _data(page)["agents"][0]["name"].startswith('"><script>document.title="hacked"</script>\\n\\x1b[31m\\u202e')
    assert "hacked" in body


def test_the_policy_names_what_may_run(stored):
    """The policy of the page allows its own script and style, by hash, and nothing from anywhere."""
    page = render(collect(stored(states("a", (0, "running")))))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    style = re.search("<style>(.*?)</style>", page, re.DOTALL)
    script = re.search("<script>(.*?)</script>", page, re.DOTALL)
    assert policy is not None
    assert style is not None
    assert script is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))

    def hashed(text):
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == hashed(script[1])
    assert rules["style-src"] == hashed(style[1])
    assert set(re.findall(r"https?://[^\s\"')]*", page)) == {"http://www.w3.org/2000/svg"}


def test_numbers_that_json_lacks_are_null(stored):
    """What is not finite is null in the page, so that a browser can read it."""
    data = collect(stored(states("a", (0, "running"))))
    data["end"] = float("nan")

    assert _data(render(data))["end"] is None


def test_the_report_lies_in_the_folder_of_its_run(stored):
    """By default the report is written beside the run, readable by its owner alone, and is replaced."""
    run = stored(states("a", (0, "running")))
    file, again = write_report(run), write_report(run)

    assert file == again == run.path / "report.html"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(path.name for path in run.path.iterdir()) == [
        "report.html",
        "run.db",
        "run.head",
        "run.lock",
        "scenario.yaml",
    ]


def test_nothing_is_overwritten_unasked(stored, tmp_path):
    """A file that is there is replaced only by force, and nothing is written into the folder of another run."""
    run, other = stored(states("a", (0, "running"))), stored([])
    target = tmp_path / "mine.html"
    target.write_text("mine")

    with pytest.raises(UsageError, match="exists"):
        write_report(run, target)
    with pytest.raises(UsageError, match="folder of a run"):
        write_report(run, other.path / "report.html")
    assert target.read_text() == "mine"
    assert write_report(run, target, force=True).read_text().startswith("<!doctype html>")
