import csv
import json
import re
from itertools import product
from pathlib import Path

import pytest

from sim.cli.render.pages import OPTIONS, PAGES, holdings, topics_of
from sim.cli.show import command as show_command
from sim.record import open_run
from sim.record.views import VIEWS

GOLDEN = sorted(path.parent for path in Path("tests/golden/runs").resolve().glob("*/run.db"))

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
    done = sim("show", run, "events", "--agent", "walker-1", "--limit", 0)
    lines = done.out.splitlines()

    assert done.code == 0
    assert lines[0].split() == ["0s", "state", "stopped", ">", "starting"]
    assert any("action publish" in line and "(feels like it)" in line for line in lines)
    assert any("message from walker-" in line and '"hello"' in line for line in lines)
    assert any("state running > stopping (end)" in line for line in lines[-4:])


def test_story_of_nobody(sim, run):
    """An agent that is not in the run is wrong usage, and the nearest name is given."""
    done = sim("show", run, "events", "--agent", "wlaker-1")

    assert done.code == 2
    assert "hint: did you mean walker-1?" in done.err


def test_events(sim, run):
    """--last gives the last ones, --topic those that match, as lines or as JSON with all fields."""
    last = sim("show", run, "events", "--last", 2)
    made = json.loads(sim("show", run, "events", "--topic", "step.*", "--json", "--limit", 0).out)

    assert len(last.out.splitlines()) == 2
    assert {event["topic"] for event in made["events"]} == {"step.made"}
    assert made["count"] == len(made["events"]) > 0
    assert sim("show", run, "events", "--topic", "a..b").code == 2


def test_views_and_queries(sim, run):
    """A view is shown up to a limit; a query may only read."""
    view = json.loads(sim("show", run, "samples", "--limit", 2, "--json").out)
    query = "SELECT kind, count(*) AS n FROM actions GROUP BY kind ORDER BY kind"
    rows = json.loads(sim("show", run, "sql", query, "--json").out)
    written = sim("show", run, "sql", "DELETE FROM run")

    assert view["columns"] == ["id", "time", "time_ns", "name", "value"]
    assert len(view["rows"]) == 2
    assert rows["columns"] == ["kind", "n"]
    assert [row[0] for row in rows["rows"]] == ["publish", "send"]
    assert sim("show", run, "sql", query).out.split()[:3] == ["kind", "n", "publish"]
    assert written.code == 2
    assert "only SELECT is allowed" in written.err


@pytest.mark.parametrize(
    "args",
    [
        ["tiny", "evnts"],
        ["nothing"],
        ["tiny", "samples", "--last", 1, "--topic", "a"],
        ["tiny", "sql", "nonsense"],
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
        sim("show", run, "events", "--agent", "a"),
        sim("show", run, "actions"),
        sim("show", run, "sql", "SELECT 'a' || char(27) || '[31m' || char(8238) || char(10) || 'b'"),
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


@pytest.mark.parametrize("option", ["--last", "--limit"])
def test_numbers_of_more_than_64_bits_are_wrong_usage(sim, run, option):
    """A number that neither SQLite nor Python can count with is refused with its range."""
    done = sim("show", run, "events", option, 10**30)
    assert done.code == 2
    assert f"{10**30} is not in the range 0<=x<={2**63 - 1}" in done.err


def test_options_of_show():
    """There are at most fourteen beside those of all commands, and each page names options that there are."""
    options = {option.name: option.opts for option in show_command.params if option.param_type_name == "option"}
    assert len(options.keys() - {"as_json", "debug"}) <= 10
    assert set(OPTIONS) == options.keys() - {"as_json", "debug", "out"}


@pytest.mark.slow
def test_an_option_that_means_nothing_for_a_view_is_refused(sim, run):
    """The sentence names the option, and the hint the views that it is for; nothing is shown."""
    table = ("agent", "last", "limit")
    meant: dict[str | None, tuple[str, ...]] = {
        None: (),
        **{name: page.options for name, page in PAGES.items()},
        "samples": table,
    }
    meant["prompts"] = (*table, "again", "allow", "allow_commands")
    written = {
        "agent": ("--agent", "x"), "topic": ("--topic", "x"), "last": ("--last", 1),
        "prompts": ("--prompts",), "again": ("--repeat",), "allow": ("--allow", "x"),
        "allow_commands": ("--allow-commands",), "limit": ("--limit", 1),
        "at": ("--at", "1s"),
    }  # fmt: skip
    for view, option in product(meant, OPTIONS):
        if option not in meant[view]:
            done = sim("show", run, *([] if view is None else [view]), *written[option])
            assert (done.code, done.out) == (2, "")
            assert re.match(rf"sim: error: {written[option][0]} (means nothing for|needs a view of)", done.err)
            assert "hint: it is for " in done.err


def test_a_page_is_no_table(sim):
    """No page hides a table of another meaning, so that every table can be shown; the help lists both."""
    shown = sim("show", "--help").out
    assert set(PAGES) & set(VIEWS) == {"events"}
    assert all(re.search(rf"^  {name}\b", shown, re.MULTILINE) for name in (*PAGES, *VIEWS))


@pytest.mark.parametrize("folder", GOLDEN, ids=lambda folder: folder.name)
def test_what_else_there_is_of_a_run(folder):
    """A table that has rows is listed, with the number of events that it is made of; one without events is not."""
    with open_run(folder, verify=False) as stored:
        listed = holdings(stored)
        topics = dict(stored.query("SELECT topic, count(*) FROM events GROUP BY topic"))
        for name in VIEWS.keys() - PAGES.keys():
            rows = stored.query(f"SELECT count(*) FROM ({stored.select(name)})")[0][0]  # noqa: S608 - own SQL
            assert name in listed or not rows, name
            assert listed.get(name, 1) > 0
        assert listed.get("events", 0) == sum(topics.values())
        assert listed.get("messages", 0) == topics.get("message.sent", 0)


def test_tables_name_their_topics():
    """What a table is made of follows from its SELECT; those that name no topic read tables of the file only."""
    assert {name for name in VIEWS if not topics_of(name, VIEWS)} == {"events", "inputs", "calls", "questions"}
    assert list(topics_of("user_costs", VIEWS))[:1] == ["goals.created"]


def test_a_table_of_one_agent(sim, run):
    """--agent keeps the rows of one agent, of a table that has a column for it; --last keeps the last ones."""
    rows = json.loads(sim("show", run, "actions", "--agent", "walker-1", "--json", "--limit", 0).out)
    last = json.loads(sim("show", run, "actions", "--agent", "walker-1", "--json", "--last", 1).out)
    agents = {row[rows["columns"].index("agent")] for row in rows["rows"]}
    assert agents == {"walker-1"}
    assert last["rows"] == rows["rows"][-1:]
    assert "did you mean 'walker-1'?" in sim("show", run, "actions", "--agent", "wlaker-1").err
    assert "it has no column `agent`" in sim("show", run, "samples", "--agent", "walker-1").err


@pytest.mark.slow
def test_a_page_without_a_name_lists_what_can_be_named(sim, run):
    """Or says in one sentence that the run has none of it; of events, which are too many, where their ids are."""
    found = {"chat": "walker-1", "conversation": "last line", "sql": "transitions"}
    for page in (name for name, page in PAGES.items() if page.named and name not in ("state", "causes", "influence")):
        done = sim("show", run, page)
        assert found.get(page, "") in done.out
        assert page in found or re.search("has no |no employee", done.err)
        assert set(json.loads(sim("show", run, page, "--json").out)) & {"rows", "channels", "error"}
