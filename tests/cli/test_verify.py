"""`sim verify`: what is intact, and what is wrong with a run."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pytest

from sim.inspect.viewer.overview import Overview
from sim.record import RunHeader, RunRecorder, create_run, open_run
from sim.record.head import HeadFile, read_head
from tests.event_checks import CHECKS
from tests.record.resealed import change


@pytest.fixture
def run(sim, tiny):
    """A finished run."""
    return Path(json.loads(sim("run", "tiny.yaml", "--json").out)["run"])


def test_an_intact_run(sim, run):
    """An intact run gives exit code 0, in text and as JSON."""
    text, as_json = sim("verify", run), sim("verify", run, "--json")

    assert (text.code, as_json.code) == (0, 0)
    assert text.out.startswith("intact: ")
    found = json.loads(as_json.out)
    assert (found["intact"], found["problems"], found["status"]) == (True, [], "finished")
    assert found["events"] > 0
    assert found["commits"] > 0


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("UPDATE run SET seed = 4", "its run row"),
        ("UPDATE run SET status = 'interrupted', hash = NULL", "its run row"),
        ("DELETE FROM chunks", "it should hold"),
        ("UPDATE chunks SET data = replace(data, 'walker-1', 'walker-2')", "chunk 1"),
    ],
)
def test_a_changed_run(sim, run, sql, what):
    """A run that was edited by hand gives exit code 1 and names the record; resuming it changes nothing."""
    with closing(sqlite3.connect(run / "run.db", isolation_level=None)) as client:
        client.execute(sql)

    done = sim("verify", run, "--json")

    assert done.code == 1
    assert what in json.loads(done.out)["problems"][0]
    assert sim("resume", run).code in (1, 2)
    assert sim("show", run).code == 1


def test_a_changed_scenario_or_head(sim, run):
    """The scenario that was run, and the head, are checked too."""
    with (run / "scenario.yaml").open("a") as file:
        file.write("# changed\n")
    (run / "run.head").unlink()

    problems = json.loads(sim("verify", run, "--json").out)["problems"]

    assert len(problems) == 2
    assert "run.head is missing" in problems[0]
    assert "scenario.yaml is not the scenario that was run" in problems[1]


def test_no_run(sim, tiny):
    """A run that is not there is wrong input."""
    assert sim("verify", "nothing").code == 2


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        ("run", ["--replay"], "--replay, --own and --python are for archives"),
        ("run", ["--own"], "--replay, --own and --python are for archives"),
        ("archive", ["--own"], "--own is for --replay"),
        ("archive", ["--python", "3.13"], "--python is for --replay"),
        ("archive", ["--replay", "--python", "-3"], "neither a version nor a path of a Python"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_is_read(sim, run, tmp_path, target, options, said):
    """What repeats an archive is refused for a run, and without `--replay`; the file itself was not opened for it."""
    archive = tmp_path / "x.zip"
    archive.write_bytes(b"this is no archive")

    done = sim("verify", run if target == "run" else archive, *options)

    assert done.code == 2
    assert said in done.err
    assert "hint:" in done.err


def test_a_copy_of_the_database_alone(sim, run, tmp_path):
    """The database of a finished run can be shown alone; what cannot be checked without the other files is said, and is
    as much a failed check for a reader as it is for `verify`.
    """
    (tmp_path / "alone").mkdir()
    shutil.copy(run / "run.db", tmp_path / "alone")

    shown = sim("show", tmp_path / "alone")
    assert (shown.code, "run.head is missing" in shown.err) == (1, True)
    assert sim("verify", tmp_path / "alone").code == 1


@pytest.fixture
def cut(sim, tiny):
    """A run that ended early, with a head that names commits which its database does not have."""
    folder = Path(json.loads(sim("run", "tiny.yaml", "--until", "10000h", "--max-wall", "0.2s", "--json").out)["run"])
    head = read_head(folder).head
    assert head is not None
    with closing(HeadFile(folder)) as file:
        file.write(attrs.evolve(head, commit=head.commit + 2))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "verb",
    [
        ["show"],
        ["show", "events", "--last", "1"],
        ["report"],
        ["replay"],
        ["diff", "tiny"],
        ["branch", "--at", "1m", "--until", "2m"],
        ["export", "events", "--format", "csv", "--to", "events.csv"],
    ],
)
def test_every_verb_that_reads_a_run_warns_of_lost_records(sim, cut, verb):
    """What is read from a run with lost records is true but not complete: each verb says so on stderr."""
    done = sim(verb[0], cut, *verb[1:])

    assert "lost its last records: commits" in done.err + done.out
    assert "Traceback" not in done.err


@pytest.mark.slow
def test_a_list_names_lost_records(sim, cut):
    """The list of runs says which of them lost records, in text and as JSON."""
    text, as_json = sim("list"), sim("list", "--json")

    assert "lost its last records: commits" in text.out
    assert "lost its last records" in json.loads(as_json.out)["runs"][0]["lost"]


@pytest.fixture
def misshapen(tmp_path):
    """A record whose hashes fit, and that has events without the form of their topic, as a forger could make it."""
    CHECKS.active = False  # they do not fit their event types
    header = RunHeader(name="tiny", seed=3, mode="autonomous", backend="asyncio")
    with RunRecorder(create_run(tmp_path / "runs", header, "name: tiny\n")) as recorder:
        for number, (topic, data) in enumerate(
            [("agent.state", {"to": 7}), ("agent.state", {"to": 8}), ("agent.crashed", {}), ("step.made", [])]
        ):
            recorder.event((number, 0, 0, 20, number, "walker-1", topic, data, None))
        recorder.finish("finished", {}, 10, {})
    return recorder.folder


MISSHAPEN = "3 of 4 events do not have the form of their topic: agent.state 2 (Expected"


def test_a_forged_record_says_which_events_are_malformed(sim, misshapen):
    """Its hashes fit, so it is intact; `verify`, `show` and the overview say how many events do not have the form of
    their topic, which topics, and what to do, in text and as JSON.
    """
    verified, shown = sim("verify", misshapen), sim("show", misshapen)
    for done in (verified, shown):
        assert done.code == 0
        assert f"sim: note: {MISSHAPEN}" in done.err
        assert "agent.crashed 1 (" in done.err
        assert "use another copy of it" in done.err
    for verb in ("verify", "show"):
        found = json.loads(sim(verb, misshapen, "--json").out)["malformed"]
        assert {topic: one["events"] for topic, one in found["topics"].items()} == {
            "agent.state": 2, "agent.crashed": 1,
        }  # fmt: skip
    with open_run(misshapen) as stored:
        overview = Overview(stored)
        overview.folds.read()
        page: Any = overview.to_json()
    assert page["numbers"]["malformed"] == 3
    assert page["run"]["warnings"][0].startswith(MISSHAPEN)


def test_an_older_record_says_which_version_reads_it(sim, misshapen):
    """If another version of sim made the record, this is what is said: which one, and that it reads the events."""
    change(misshapen, "UPDATE run SET versions = json_set(versions, '$.sim', '0.0.1')")

    verified = sim("verify", misshapen)

    assert verified.code == 0
    assert "They were recorded by sim 0.0.1, and this is sim" in verified.err


def test_a_large_record_is_not_compared_by_a_summary(sim, misshapen, monkeypatch):
    """A summary must be quick: of many events it says that it has not compared them, and which command does."""
    monkeypatch.setattr("sim.cli.show.MOST_COMPARED", 3)

    shown = sim("show", misshapen)

    assert "more than 3 events: `sim verify` says whether they have the form of their topic" in shown.err
    assert json.loads(sim("show", misshapen, "--json").out)["malformed"] is None


def test_a_whole_record_has_no_malformed_events(sim, run):
    """What this version records has the form of its topics: there is no note, and the count is 0."""
    shown = sim("show", run)

    assert "form of their topic" not in shown.err + sim("verify", run).err
    assert json.loads(sim("show", run, "--json").out)["malformed"] == {"events": 0, "topics": {}}
