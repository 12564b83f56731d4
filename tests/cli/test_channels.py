"""`sim show RUN channel`: what employees posted, as a person reads it."""

import json

import pytest

COMPANY = r"""
name: company
until: 11m
calendar: {start: 2026-03-02T08:00, zone: America/Chicago}
sop:
  procedures:
    call: {title: call, trigger: {event: rung}, steps: [{name: call, post: {text: "red text\nmore"}}]}
agents:
  - {name: clerk, kind: employee, settings: {title: Clerk Agent, channel: "#desk"}}
  - {name: worker, kind: step_worker}
events: [{at: 1m, topic: rung}]
"""


@pytest.fixture
def run(sim, tmp_path, monkeypatch):
    """The folder of a run with channels."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "company.yaml").write_text(COMPANY, encoding="utf-8")
    done = sim("run", "company.yaml", "--quiet")
    assert done.code == 0, done.err
    return done.out.strip()


def test_a_channel_reads_as_in_the_seed(sim, run):
    """Heartbeats have the words of the seed after the channel, each post its civil time; the latest are shown."""
    done = sim("show", run, "channel", "ops-log", "--limit", "1")
    assert done.code == 0
    assert done.out == (
        "2026-03-02 08:10:00  [#ops-log] Clerk Agent: Loop completed.\n"
        "  Active tasks: 0 | New triggers: 0 | Action taken: None\n"
        "  Next run: 5 minutes\n"
    )
    assert "the latest 1 of 4 posts" in done.err


def test_channels_are_listed(sim, run):
    """Each channel has a line with its number of posts; JSON has the same."""
    found = json.loads(sim("show", run, "channel", "--json").out)["channels"]
    assert [(one["channel"], one["posts"]) for one in found] == [("#desk", 3), ("#ops-log", 4)]
    assert "#ops-log" in sim("show", run, "channel").out


def test_a_post_keeps_its_lines(sim, run):
    """A post of several lines is shown in lines, and JSON has the text as it is."""
    out = sim("show", run, "channel", "#desk").out
    assert "red text\nmore" in out
    posts = json.loads(sim("show", run, "channel", "#desk", "--json").out)["posts"]
    assert "red text\nmore" in [post["text"] for post in posts]


def test_an_unknown_channel_has_a_hint(sim, run, tiny):
    """A misspelt channel is corrected; a run without channels says so."""
    done = sim("show", run, "channel", "#dest")
    assert (done.code, done.out) == (2, "")
    assert "the run has no channel '#dest'" in done.err
    assert "#desk" in done.err
    other = sim("run", tiny, "--quiet").out.strip()
    assert "no employee posted anything" in sim("show", other, "channel", "x").err
