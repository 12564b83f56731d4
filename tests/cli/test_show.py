import csv
import json
import re

import pytest

HOSTILE = """
name: hostile
until: 1m
agents:
  - name: a
    state: {evil: "=str('[bold]x[/bold]')"}
    loop: {min_loop_delay: 20s}
    rules:
      - do: {publish: {topic: said, data: "=evil + choice(['A', 'A'])"}}
        reason: "[red]markup[/red]"
"""


@pytest.fixture
def run(sim, tiny):
    """The folder of a run of the small scenario."""
    return sim("run", tiny, "--quiet").out.strip()


def test_list_shows_the_newest_first(sim, tiny):
    """Runs are listed with the newest first, and what is no run is listed with the reason."""
    for seed in (1, 2):
        sim("run", tiny, "--seed", seed)
    (tiny.parent / "runs" / "broken").mkdir()
    (tiny.parent / "runs" / "broken" / "run.db").write_bytes(b"no database at all" * 100)
    done = sim("list")
    found = json.loads(sim("list", "--json").out)["runs"]

    assert done.code == 0
    assert done.out.index("tiny-2-") < done.out.index("tiny-1-")
    assert [run["seed"] for run in found if run["status"] == "finished"] == [2, 1]
    assert "unreadable" in done.out
    assert re.search("^broken: .* not a SQLite database", done.out, re.MULTILINE)


def test_list_of_nothing(sim, tmp_path):
    """A folder that is not there holds no runs, which is no error."""
    done = sim("list", "--out", tmp_path / "none")

    assert done.code == 0
    assert "no runs in" in done.out


def test_show_says_what_run_said(sim, tiny):
    """The summary of a kept run has the same figures as at its end, real time aside."""
    at_end = json.loads(sim("run", tiny, "--json").out)
    later = json.loads(sim("show", "tiny", "--json").out)

    changing = {"wall_seconds", "doubts"}
    assert {key: later[key] for key in at_end.keys() - changing} == {
        key: at_end[key] for key in at_end.keys() - changing
    }
    assert at_end["hash"][:16] in sim("show", "tiny").out


def test_story_of_an_agent(sim, run):
    """The story of an agent holds its states, its actions and its messages, in order of simulated time."""
    done = sim("show", run, "--agent", "walker-1", "--limit", 0)
    lines = done.out.splitlines()

    assert done.code == 0
    assert lines[0].split() == ["0s", "state", "stopped", ">", "starting"]
    assert any("action publish" in line and "(feels like it)" in line for line in lines)
    assert any("message from walker-" in line and '"hello"' in line for line in lines)
    assert any("state running > stopping (end)" in line for line in lines[-4:])


def test_story_of_nobody(sim, run):
    """An agent that is not in the run is wrong usage, and the nearest name is given."""
    done = sim("show", run, "--agent", "wlaker-1")

    assert done.code == 2
    assert "hint: did you mean walker-1?" in done.err


def test_events(sim, run):
    """--events gives the last ones, --topic those that match, as lines or as JSON with all fields."""
    last = sim("show", run, "--events", 2)
    made = json.loads(sim("show", run, "--topic", "step.*", "--json", "--limit", 0).out)

    assert len(last.out.splitlines()) == 2
    assert {event["topic"] for event in made["events"]} == {"step.made"}
    assert made["count"] == len(made["events"]) > 0
    assert sim("show", run, "--topic", "a..b").code == 2


def test_views_and_queries(sim, run):
    """A view is shown up to a limit; a query may only read."""
    view = json.loads(sim("show", run, "--view", "samples", "--limit", 2, "--json").out)
    query = "SELECT kind, count(*) AS n FROM actions GROUP BY kind ORDER BY kind"
    rows = json.loads(sim("show", run, "--sql", query, "--json").out)
    written = sim("show", run, "--sql", "DELETE FROM run")

    assert view["columns"] == ["id", "time", "time_ns", "name", "value"]
    assert len(view["rows"]) == 2
    assert rows["columns"] == ["kind", "n"]
    assert [row[0] for row in rows["rows"]] == ["publish", "send"]
    assert sim("show", run, "--sql", query).out.split()[:3] == ["kind", "n", "publish"]
    assert written.code == 2
    assert "only SELECT is allowed" in written.err


@pytest.mark.parametrize(
    "args",
    [
        ["tiny", "--view", "evnts"],
        ["nothing"],
        ["tiny", "--view", "events", "--events", 1],
        ["tiny", "--sql", "nonsense"],
    ],
)
def test_show_wrong_usage(sim, run, args):
    """What cannot be shown is wrong usage."""
    done = sim("show", *args)

    assert done.code == 2
    assert done.err.startswith("sim: error: ")


def test_export(sim, run):
    """A view is written to a file in the format of its ending, and replaced only with --force."""
    args = ("export", run, "samples", "--to", "out.csv")
    first, second, third = sim(*args), sim(*args), sim(*args, "--force", "--json")

    assert first.out == "11 rows in out.csv\n"
    assert second.code == 2
    assert "out.csv exists" in second.err
    assert json.loads(third.out) == {"file": "out.csv", "rows": 11}
    with open("out.csv", newline="") as file:  # noqa: PTH123 - the folder where the command ran
        assert len(list(csv.DictReader(file))) == 11


def test_text_of_agents_is_harmless(sim, tiny):
    """Control characters are spelled out and markup is text, wherever text of an agent is shown."""
    tiny.write_text(HOSTILE)
    run = sim("run", tiny, "--quiet").out.strip()
    shown = [
        sim("show", run, "--agent", "a"),
        sim("show", run, "--view", "actions"),
        sim("show", run, "--sql", "SELECT 'a' || char(27) || '[31m' || char(8238) || char(10) || 'b'"),
    ]

    for done in shown:
        assert done.code == 0
        assert all(sign.isprintable() or sign == "\n" for sign in done.out)
    assert "[bold]x[/bold]" in shown[0].out
    assert "[red]markup[/red]" in shown[1].out
    assert "a\\x1b[31m\\u202e\\nb" in shown[2].out


@pytest.mark.parametrize("name", ["\x1b[31mred", "a\u202eb", "two\nlines", "\udcff"])
def test_names_in_errors_are_harmless(sim, tiny, name):
    """What the user, or a script of somebody else, gives is spelled out in errors too."""
    for args in ([name], ["run", name], ["show", name], ["new", name], ["check", name]):
        done = sim(*args)
        assert done.code == 2
        assert all(sign.isprintable() or sign == "\n" for sign in done.err + done.out)
        assert "two\nlines" not in done.err + done.out


@pytest.mark.parametrize("option", ["--events", "--limit", "--task"])
def test_numbers_of_more_than_64_bits_are_wrong_usage(sim, run, option):
    """A number that neither SQLite nor Python can count with is refused with its range."""
    done = sim("show", run, option, 10**30)
    assert done.code == 2
    assert f"{10**30} is not in the range 0<=x<={2**63 - 1}" in done.err
