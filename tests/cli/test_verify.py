"""`sim verify`: what is intact, and what is wrong with a run."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest


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


def test_a_copy_of_the_database_alone(sim, run, tmp_path):
    """The database of a finished run can be shown alone; what cannot be checked without the other files is said."""
    (tmp_path / "alone").mkdir()
    shutil.copy(run / "run.db", tmp_path / "alone")

    assert sim("show", tmp_path / "alone").code == 0
    assert sim("verify", tmp_path / "alone").code == 1
