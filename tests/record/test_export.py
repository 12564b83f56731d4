"""Data comes out exactly, privately, and without anything that a spreadsheet would run."""

import csv
import json
import stat
import sys

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.base.errors import RunError, UsageError
from sim.record import export, open_run

SAMPLES = ("metric.sample", {"third": 1 / 3, "big": 2**62, "none": None})


def observe(*values):
    """Return observation events, one a value."""
    return [("observation", {"name": "x", "value": value}) for value in values]


@pytest.mark.parametrize("start_of_text", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_csv_text_is_never_a_formula(record, tmp_path, start_of_text):
    """A text cell that begins like a formula gets a ' in front; numbers, also negative ones, do not."""
    folder = record(*observe(f"{start_of_text}1+1", -5, -0.5, "a=1"))
    with open_run(folder) as run:
        count = export(run, "observations", tmp_path / "x.csv", "csv")

    with (tmp_path / "x.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["id", "time", "time_ns", "actor", "name", "value"]
    assert [f"'{start_of_text}1+1", "-5", "-0.5", "a=1"] == [row[5] for row in rows]
    assert count == 4


def test_numbers_keep_their_precision(record, tmp_path):
    """Floats and large integers come out of CSV, JSON and Parquet exactly; None is an empty cell or null."""
    with open_run(record(SAMPLES)) as run:
        for kind in ("csv", "json", "parquet"):
            export(run, "samples", tmp_path / kind, kind)

    with (tmp_path / "csv").open(newline="") as file:
        cells = {row["name"]: row["value"] for row in csv.DictReader(file)}
    values = {row["name"]: row["value"] for row in json.loads((tmp_path / "json").read_text())}
    rows = duckdb.read_parquet(str(tmp_path / "parquet")).order("name").fetchall()
    assert {"third": repr(1 / 3), "big": str(2**62), "none": ""} == cells
    assert SAMPLES[1] == values
    assert rows == [
        (1, 0.0, 0, "big", 2.0**62),
        (1, 0.0, 0, "none", None),
        (1, 0.0, 0, "third", 1 / 3),
    ]


def test_parquet_types_follow_the_values(record, tmp_path):
    """A column is BIGINT or DOUBLE if its values are numbers, else VARCHAR; mixed values become text."""
    with open_run(record(*observe("007", 1.5, None))) as run:
        export(run, "observations", tmp_path / "x.parquet", "parquet")

    relation = duckdb.read_parquet(str(tmp_path / "x.parquet"))
    assert [str(kind) for kind in relation.types] == [
        "BIGINT",
        "DOUBLE",
        "BIGINT",
        "VARCHAR",
        "VARCHAR",
        "VARCHAR",
    ]
    assert [row[5] for row in relation.fetchall()] == ["007", "1.5", None]


@pytest.mark.slow
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), max_size=5))
def test_any_text_comes_out(record, tmp_path, texts):
    """Any Unicode and control characters are the same in JSON and in Parquet."""
    with open_run(record(*observe(*texts))) as run:
        for kind in ("json", "parquet"):
            export(run, "observations", tmp_path / kind, kind, force=True)

    assert texts == [row["value"] for row in json.loads((tmp_path / "json").read_text())]
    assert texts == [row[5] for row in duckdb.read_parquet(str(tmp_path / "parquet")).fetchall()]


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_a_view_without_rows_is_exported(record, tmp_path, kind):
    """An empty view gives a valid file without rows."""
    with open_run(record()) as run:
        assert export(run, "actions", tmp_path / kind, kind) == 0

    content = (tmp_path / kind).read_bytes()
    assert content.startswith({"csv": b"id,time", "json": b"[]", "parquet": b"PAR1"}[kind])


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_an_existing_file_is_kept(record, tmp_path, kind):
    """An existing file is only replaced with `force`; what is written is private; no draft stays."""
    target = tmp_path / "out [1]" / "x"
    target.parent.mkdir()
    target.write_text("mine")
    with open_run(record(SAMPLES)) as run:
        with pytest.raises(UsageError, match="exists"):
            export(run, "samples", target, kind)
        assert target.read_text() == "mine"
        export(run, "samples", target, kind, force=True)

    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [target] == list(target.parent.iterdir())


def test_csv_acts_on_nobody(record, tmp_path):
    """Signs that act on a terminal or reorder text are spelled out in CSV; a cell keeps its lines; JSON is exact."""
    hostile = '"><script>\x1b[31m\u202eevil\nline'
    with open_run(record(("message.sent", {"sender": hostile, "to": "b", "topic": "", "data": None}))) as run:
        export(run, "messages", tmp_path / "x.csv", "csv")
        export(run, "messages", tmp_path / "x.json", "json")
    with (tmp_path / "x.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)

    assert row["sender"] == '"><script>\\x1b[31m\\u202eevil\nline'
    assert json.loads((tmp_path / "x.json").read_text())[0]["sender"] == hostile


def test_what_cannot_be_exported_is_refused(record, tmp_path):
    """An unknown view or format, also one with SQL in it, and a folder that is not there are refused."""
    target = tmp_path / "x"
    with open_run(record()) as run:
        for view in ("nope", "run; DROP TABLE run", "sqlite_master", "run AS x, run"):
            with pytest.raises(UsageError, match="has no view"):
                export(run, view, target, "csv")
        with pytest.raises(UsageError, match="unknown export format 'xls'"):
            export(run, "events", target, "xls")  # type: ignore[arg-type]
        with pytest.raises(RunError, match="No such file"):
            export(run, "events", tmp_path / "missing" / "x", "csv")
    assert not target.exists()


def test_parquet_without_duckdb_says_what_to_install(record, tmp_path, monkeypatch):
    """Without the optional library the error names the extra to install, and nothing is left behind."""
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with open_run(record()) as run, pytest.raises(UsageError, match="Parquet needs the package duckdb") as error:
        export(run, "events", tmp_path / "x", "parquet")

    assert error.value.hint == "install it: pip install 'actor-sim[parquet]'"
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_nothing_is_exported_into_the_folder_of_a_run(record):
    """Not even by force is the file of a run replaced by an export of it."""
    folder = record(("t", {"n": 1}))
    with open_run(folder) as run, pytest.raises(UsageError, match="in a run folder"):
        export(run, "events", folder / "run.db", "csv", force=True)
