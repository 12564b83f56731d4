"""Opening runs: whatever is wrong with a file ends in one sentence, before anything is used."""

import os
import shutil
import sqlite3
import subprocess
import sys
import traceback
from contextlib import closing, suppress
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.base.errors import RunError, SimError, UsageError
from sim.experiments.results import FILE
from sim.record import RunHeader, RunRecorder, create_run, find_run, list_runs, open_run
from sim.record.files import SCENARIO, Mode
from sim.record.schema import TABLES
from tests.helpers import wait_until_durable
from tests.record import resealed

pytestmark = pytest.mark.filterwarnings("ignore::sim.base.errors.RecordWarning")  # runs are damaged on purpose


def change(folder: Path, sql: str) -> None:
    """Change a run file from outside."""
    with closing(sqlite3.connect(folder / "run.db", isolation_level=None)) as connection:
        connection.execute(sql)


@pytest.fixture
def folder(record):
    """A finished run of some chunks' worth of events."""
    return record(*[("t", {"text": "some text", "n": n}) for n in range(5000)])


def test_a_flipped_byte_is_found_and_its_chunk_named(folder):
    """One changed byte of the stored events is found when the run is opened, and the chunk is named."""
    data = (folder / "run.db").read_bytes()
    place = data.rindex(b"some text")
    (folder / "run.db").write_bytes(data[:place] + b"t" + data[place + 1 :])

    with pytest.raises(RunError, match=r"is damaged: chunk [12] \(from event (1|4097) on\)"):
        open_run(folder)


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("UPDATE chunks SET data = replace(data, '\"n\":4999', '\"n\":4998')", "chunk 2"),
        ("UPDATE chunks SET hash = 'x' WHERE id = 1", "chunk 1"),
        ("DELETE FROM chunks WHERE id = 1", "chunk 2"),
        ("DELETE FROM chunks WHERE id = 2", "it should hold 5000 events, but has 4096"),
        ("UPDATE chunks SET first_event = 7 WHERE id = 2", "chunk 2"),
        ("UPDATE run SET digest = '{}'", "its run row"),
        ("UPDATE run SET hash = 'x'", "its run row"),
        ("UPDATE run SET status = 'interrupted'", "its run row"),
        ("UPDATE run SET summary = '{}'", "its run row"),
        ("UPDATE run SET started_at = 'then'", "its run row"),
        ("UPDATE run SET seed = 8", "its run row"),
        ("UPDATE commits SET number = 99", "last commit"),
        ("UPDATE commits SET seal = 'x'", "last commit"),
        ("DELETE FROM commits", "its run row is missing"),
        ("DELETE FROM run", "its run row is missing"),
        ("DROP VIEW calls", "a row or a definition was changed"),
        (
            "INSERT INTO effects SELECT 1,'a',1,'llm','x','1','[]','modelled','pure',1,1,'',NULL,NULL,1,0,'',NULL,1,1",
            "the request of effect 1 of a",
        ),
    ],
)
def test_changed_content_is_found(folder, sql, what):
    """Changes of events, requests, or anything in the row of the run are found, and the error says where."""
    change(folder, sql)

    with pytest.raises(RunError, match=what):
        open_run(folder)


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("UPDATE run SET digest = '{}'", "final digest"),
        ("UPDATE run SET digest = 'no json'", "not JSON"),
        ("UPDATE run SET hash = 'x'", "final digest"),
    ],
)
def test_a_run_must_fit_its_own_hash(folder, sql, what):
    """Who also mends the hash of the row is found by the hash of the run, which covers events, effects and digest."""
    resealed.change(folder, sql)

    with pytest.raises(RunError, match=what):
        open_run(folder)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_file_never_escapes_as_another_error(folder, tmp_path, data):
    """Whatever bytes are changed or cut off, opening and reading works or ends in an error of ours."""
    content = bytearray((folder / "run.db").read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    copy = tmp_path / "copies" / "copy"
    copy.mkdir(parents=True, exist_ok=True)
    (copy / "run.db").write_bytes(content[: data.draw(st.integers(0, len(content)))])

    with suppress(SimError), open_run(copy) as run:
        list(run.events())
        run.query("SELECT * FROM effects")
    (info,) = list_runs(copy.parent)
    assert "\n" not in (info.problem or "")


def test_what_is_no_run_is_refused(tmp_path):
    """A missing folder, a folder without a run, another file and another program's database are no runs."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "run.db").write_text("hello " * 1000)
    (tmp_path / "other").mkdir()
    change(tmp_path / "other", "CREATE TABLE run (name)")

    for name in ("missing", "empty"):
        with pytest.raises(UsageError, match=r"is not a run: it has no run\.db"):
            open_run(tmp_path / name)
    with pytest.raises(RunError, match="it is not a SQLite database"):
        open_run(tmp_path / "text")
    with pytest.raises(UsageError, match="is not a run: another program made it"):
        open_run(tmp_path / "other")


def test_a_newer_schema_is_refused(folder):
    """A run that a newer version wrote is refused with both numbers."""
    change(folder, "PRAGMA user_version = 99")

    with pytest.raises(UsageError, match=r"newer version of sim \(schema 99, this version reads 4\)"):
        open_run(folder)


def test_an_older_schema_is_refused(folder):
    """A run that an older version wrote is refused with both numbers."""
    change(folder, "PRAGMA user_version = 1")

    with pytest.raises(UsageError, match=r"older version of sim \(schema 1, this version reads 4\)"):
        open_run(folder)


def test_a_truncated_file_is_refused(folder):
    """A run file that lost its end is refused."""
    data = (folder / "run.db").read_bytes()
    (folder / "run.db").write_bytes(data[: len(data) // 2])

    with pytest.raises(RunError, match="damaged"):
        open_run(folder)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM run",
        "UPDATE run SET seed = 1",
        "ATTACH 'other.db' AS other",
        "PRAGMA query_only = OFF",
        "CREATE TEMP TABLE x (y)",
        "VACUUM",
    ],
)
def test_queries_can_only_read(folder, sql):
    """Nothing but SELECT passes, so a query can change neither the run nor another file."""
    with open_run(folder) as run, pytest.raises(UsageError, match="only SELECT is allowed"):
        run.query(sql)


_ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT {} FROM c"


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        (_ENDLESS.format("x"), "has more than 1,000,000 bytes"),
        (_ENDLESS.format("x, hex(zeroblob(1000))"), "has more than 1,000,000 bytes"),
        ("SELECT zeroblob(500001), printf('%500001d', 1)", "has more than 1,000,000 bytes"),
        ("SELECT zeroblob(1000000000)", "or a value in it, is too long: string or blob too big"),
        (f"SELECT {'1,' * 200} 1", "is too long|is not valid: too many columns"),
        (f"SELECT 1 -- {'x' * 10**6}", "is too long|is too large"),
    ],
)
def test_results_of_queries_are_bounded(folder, monkeypatch, sql, sentence):
    """Endless rows, and values that a function makes as long as it likes, end a query; the run can be read on."""
    monkeypatch.setattr("sim.record.database.MOST_RESULT", 10**6)
    with open_run(folder) as run:
        for read in (run.query, run.table):
            with pytest.raises(UsageError, match=sentence):
                read(sql)
        assert run.query("SELECT length(zeroblob(1000))") == [(1000,)]
        run.verify()


def test_wrong_queries_are_usage_errors(folder):
    """A mistake in a query, two statements, or a view that does not exist is the caller's, with a hint."""
    with open_run(folder) as run:
        with pytest.raises(UsageError, match="a parameter of the query cannot be used"):
            run.query("SELECT * FROM events WHERE id = ?", (2**64,))
        with pytest.raises(UsageError, match="no such column: nope"):
            run.query("SELECT nope FROM run")
        with pytest.raises(UsageError, match="one statement"):
            run.query("SELECT 1; SELECT 2")
        with pytest.raises(UsageError, match="no view 'evnts'") as error:
            run.columns("evnts")
        with pytest.raises(UsageError, match="no view"):
            run.columns("run; DROP TABLE run")
        assert run.query("SELECT id FROM events WHERE id = :id", {"id": 3}) == [(3,)]
    assert error.value.hint == "did you mean events?"


def test_a_query_has_a_time_limit(folder):
    """A query that does not end is stopped, and the run can be queried again."""
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with open_run(folder, seconds=0.05) as run:
        with pytest.raises(UsageError, match=r"longer than 0\.05 s"):
            run.query(endless)
        assert run.query("SELECT 1") == [(1,)]


def test_a_running_run_can_be_read(start):
    """Readers see what was flushed while the run goes on, and do not disturb it."""
    with start() as recorder:
        for place in range(3):
            recorder.event((place, 0, 0, 1, place, "a", "t", None, None))
            recorder.flush()
            wait_until_durable(recorder)
            with open_run(recorder.folder) as run:
                assert place + 1 == len(list(run.events()))
        reader = open_run(recorder.folder)
        recorder.finish("finished", {}, 1, {})

    assert reader.query("SELECT status FROM run") == [("finished",)]
    reader.close()


def test_a_finished_run_can_be_read_where_nothing_can_be_written(folder, tmp_path):
    """A finished run is one file: its run.db alone, copied elsewhere, is the whole run."""
    (tmp_path / "alone").mkdir()
    shutil.copy(folder / "run.db", tmp_path / "alone")
    (tmp_path / "alone").chmod(0o500)

    with open_run(tmp_path / "alone" / "run.db") as run:
        assert len(list(run.events())) == 5000
    assert [file.name for file in (tmp_path / "alone").iterdir()] == ["run.db"]
    (tmp_path / "alone").chmod(0o700)


def test_list_shows_all_runs_also_broken_ones(record, tmp_path):
    """The list has every run, the oldest first; a broken one says why, and half-made ones do not appear."""
    first, second = record(), record(name="other")
    root = tmp_path / "runs"
    (root / ".half-made").mkdir()
    (root / "broken").mkdir()
    (root / "broken" / "run.db").write_text("x" * 5000)
    (root / "file.txt").write_text("")

    broken, *good = list_runs(root)

    assert [first, second] == [info.path for info in good]
    assert [info.status for info in good] == ["finished"] * 2
    assert (broken.id, broken.status) == ("broken", "unreadable")
    assert "it is not a SQLite database" in (broken.problem or "")
    assert list_runs(tmp_path / "missing") == []


def test_a_run_is_found_by_path_or_beginning_of_its_name(record, tmp_path):
    """A path, a whole name or a unique beginning names a run; otherwise the error helps."""
    town, other = record(), record(name="other")
    record(name="other")
    root = tmp_path / "runs"

    assert [town] * 4 == [find_run(root, text) for text in (str(town), f"{town}/run.db", town.name, "to")]
    assert other == find_run(root, other.name)
    with pytest.raises(UsageError, match="'oth' matches 2 runs: other-7-"):
        find_run(root, "oth")
    with pytest.raises(UsageError, match="there is no run 'twn-7'") as error:
        find_run(root, "twn-7")
    assert (error.value.hint or "").startswith("did you mean town-7-")
    with pytest.raises(UsageError, match="there is no run ''"):
        find_run(root, "")
    with pytest.raises(UsageError, match="there is no run 'x'"):
        find_run(tmp_path / "missing", "x")


def test_the_name_of_a_scenario_is_its_run_under_way(record, tmp_path):
    """Commands for running runs take the latest run of a name that is under way, also if a later one has ended."""
    root, header = tmp_path / "runs", RunHeader("town", 1, "autonomous", "asyncio")
    with RunRecorder(create_run(root, header, "name: town")) as recorder:
        later = record()
        os.utime(later / SCENARIO, ns=(2**62, 2**62))
        assert find_run(root, "town") == find_run(root, "Town") == later  # folders have names in small letters
        assert find_run(root, "town", running=True) == recorder.folder
        assert find_run(root, "town~1", running=True) == recorder.folder
    assert find_run(root, "town", running=True) == later


@pytest.mark.parametrize("mode", ["autonomous", "tick", "ticks", ""])
def test_a_run_has_one_of_the_modes(record, mode):
    """The mode of a record is taken as one of those that there are; another one is refused, and never guessed."""
    folder = record(mode=mode)
    with open_run(folder) as stored:
        if mode in get_args(Mode):
            assert stored.info.run_mode == mode
            return
        with pytest.raises(RunError, match=f"names the mode '{mode}'; a run is autonomous or tick"):
            stored.info.run_mode  # noqa: B018 - it raises


def test_an_experiment_is_no_run(tmp_path):
    """The folder of an experiment, given in place of a run, is named as what it is."""
    (tmp_path / FILE).touch()
    with pytest.raises(UsageError, match="is the folder of an experiment, not of a run"):
        find_run(tmp_path, str(tmp_path))


def test_a_traceback_has_the_hint():
    """A program that does not catch an error shows its hint below the message, as the command line does."""
    assert "".join(traceback.format_exception(UsageError("no pandas", hint="install it"))).endswith(
        "no pandas\nhint: install it\n"
    )
    assert not hasattr(UsageError("no pandas"), "__notes__")


@pytest.mark.slow
def test_a_killed_run_is_told_from_a_running_one(tmp_path):
    """A run whose writer is gone without closing it is `killed`; one that is being written is `running`."""
    code = (
        "import os, sys; from pathlib import Path; from sim.record import *\n"
        "folder = create_run(Path(sys.argv[1]), RunHeader('x', 1, 'autonomous', 'asyncio'), 'name: x')\n"
        "RunRecorder(folder)\n"
        "print(list_runs(Path(sys.argv[1]))[0].status, flush=True)\n"
        "os._exit(9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "running", done.stderr
    assert [info.status for info in list_runs(tmp_path)] == ["killed"]


def test_an_empty_query_is_refused(folder):
    """A query without a result is one sentence, not a crash."""
    with open_run(folder) as run, pytest.raises(UsageError, match="no result"):
        run.table("")


def test_a_run_that_goes_on_or_is_looked_at_does_not_become_the_latest(start, tmp_path):
    """`NAME~1` counts by when runs were begun: neither resuming an older one nor looking at it changes the order."""
    folders: list[Path] = []
    for number in range(3):
        recorder = start(name="town")
        recorder.finish("interrupted", {}, 1, {})
        folders.append(recorder.folder)
        os.utime(recorder.folder / "scenario.yaml", ns=(number * 10**9, number * 10**9))
        os.utime(recorder.folder, ns=(number * 10**9, number * 10**9))
    root = tmp_path / "runs"

    for folder in folders[1::-1]:
        with RunRecorder(folder, resumed=True, take_over=False) as again:
            again.continue_record(0)
            again.finish("finished", {}, 1, {})
        with open_run(folder):
            os.utime(folder)
    assert [find_run(root, text) for text in ("town~2", "town~1", "town")] == folders


def test_the_name_of_a_scenario_means_its_latest_run(start, tmp_path):
    """Who has run a scenario twice means the later run by its name."""
    for _ in range(2):
        recorder = start(name="town")
        recorder.finish("finished", {}, 1, {})
    os.utime(recorder.folder, ns=(2**62, 2**62))

    assert recorder.folder == find_run(tmp_path / "runs", "town")


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE chunks SET data = NULL WHERE id = 1",
        "UPDATE chunks SET data = 5 WHERE id = 1",
        "UPDATE run SET digest = NULL",
        "UPDATE run SET options = NULL, digest = NULL",
    ],
)
def test_a_value_of_another_type_is_damage(folder, sql):
    """The tables are strict, damage is not: a value of the wrong type is named as damage, never a crash."""
    with closing(sqlite3.connect(folder / "run.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE type = 'table'")
    with closing(sqlite3.connect(folder / "run.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(sql)

    with pytest.raises(RunError, match="is damaged"):
        open_run(folder)
    assert len(list_runs(folder.parent)) == 1


@pytest.mark.parametrize("table", TABLES)
def test_a_view_in_place_of_a_table_is_damage(folder, table):
    """A view could be endless, so it is refused where a table belongs, before anything is read from it."""
    change(folder, f"ALTER TABLE {table} RENAME TO old_{table}")
    with pytest.raises(RunError, match="is damaged: a table is missing or is not a table"):
        open_run(folder)
    if table != "run":
        endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n FROM t) SELECT n FROM t"
        change(folder, f"CREATE VIEW {table} AS {endless}")
        with pytest.raises(RunError, match="is damaged: a table is missing or is not a table"):
            open_run(folder)
    assert [info.status for info in list_runs(folder.parent)] == ["unreadable"]


@pytest.mark.slow
@pytest.mark.parametrize("column", ["versions", "options", "code", "origin", "digest", "summary"])
@pytest.mark.parametrize("value", ["[]", "5", "[" * 100_000 + "]" * 100_000], ids=["list", "number", "deep"])
def test_a_run_row_of_another_shape_is_damage(folder, column, value):
    """What a run says about itself is mappings: anything else, and what nests too deep to be read, is damage."""
    resealed.change(folder, f"UPDATE run SET {column} = ?", parameters=(value,))  # noqa: S608 - ours
    with pytest.raises(RunError, match="is damaged: its run row is not JSON"):
        open_run(folder)
    assert [info.status for info in list_runs(folder.parent)] == ["unreadable"]


def test_a_query_may_take_json_apart_itself(record):
    """SQLite's table functions for JSON are there for queries of one's own, though no view was read before."""
    with open_run(record()) as run:
        assert run.query("SELECT value FROM json_each('[1, 2]')") == [(1,), (2,)]
    with open_run(record()) as run:
        assert run.query("SELECT atom FROM json_tree('[3]') WHERE atom") == [(3,)]
