"""Rows of a record as DataFrames of pandas and polars, and as Arrow tables."""

import json
import re
import sys
from typing import Any, get_args

import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
from sim.record import VIEWS
from sim.record.frames import JSON_COLUMNS, MOST_PARTS, Library, frame
from sim.world.tasks import Tasks  # noqa: F401 - registers further views, as all families do

LIBRARIES: tuple[Library, ...] = get_args(Library)


def cells(made: Any, column: str) -> list[Any]:
    """Return the cells of a column as Python values, None for missing ones."""
    if isinstance(made, pd.DataFrame):
        return [None if value is pd.NA or value != value else value for value in made[column].tolist()]
    found: list[Any] = made[column].to_list() if isinstance(made, pl.DataFrame) else made[column].to_pylist()
    return found


def names(made: Any) -> list[str]:
    """Return the names of the columns."""
    return list(made.column_names if hasattr(made, "column_names") else made.columns)


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_view_and_table_is_a_frame(run, library):
    """A frame of any view or table has its rows, with and without expanded JSON."""
    views = [name for (name,) in run.query("SELECT name FROM sqlite_master WHERE type IN ('view', 'table')")]
    assert {"events", "actions", "messages", "samples", "effects", "run"} <= set(views)
    for view in views:
        plain = run.frame(view, as_=library, expand=False)
        assert names(plain) == run.columns(view)
        count = run.query(f"SELECT count(*) FROM {view}")[0][0]  # noqa: S608 - a name of the file itself
        assert len(plain) == len(run.frame(view, as_=library)) == count


@pytest.mark.parametrize("library", LIBRARIES)
def test_columns_have_their_types(library):
    """Whole numbers, numbers, booleans and text keep their type, also with missing values; the rest are objects."""
    rows = [(1, 1, 2.5, 3, "a", True, None, 2**70), (2, None, None, 2.5, None, None, None, 1)]
    made = frame((list("abcdefgh"), rows), library)
    assert [cells(made, column) for column in "abcdef"] == [list(column) for column in zip(*rows, strict=True)][:6]
    types = [str(made.schema.field(n).type) if library == "arrow" else str(made[n].dtype) for n in "abcdefgh"]
    assert (
        types
        == {
            "pandas": ["int64", "Int64", "float64", "float64", "str", "boolean", "object", "object"],
            "polars": ["Int64", "Int64", "Float64", "Float64", "String", "Boolean", "Null", "Object"],
            "arrow": ["int64", "int64", "double", "double", "string", "bool", "null", "string"],
        }[library]
    )


def test_objects_become_columns(run):
    """Each key of the data of events is a column, in alphabetical order, at the place of `data`; nested values stay."""
    sold = run.frame("events", where="topic = 'shop.sold'", as_="pandas")
    columns = run.columns("events")
    place = columns.index("data")
    expected = [*columns[:place], "data.parts", "data.price", "data.to", *columns[place + 1 :]]
    assert list(sold.columns) == expected
    assert set(sold["data.to"]) == {"clerk-1", "clerk-2"}
    assert sold["data.price"].dtype == "float64"
    assert sold["data.parts"].iloc[0] == [1, {"deep": True}]


@pytest.mark.parametrize("library", LIBRARIES)
def test_values_that_are_no_objects_stay(library):
    """If only some values are objects, the others stay in their column."""
    rows = [('{"x": 1, "y": [2]}',), ('"text"',), ("3",), ('{"x": "one"}',), (None,), ("null",), ("no JSON",)]
    made = frame((["data"], rows), library)
    assert names(made) == ["data", "data.x", "data.y"]

    def seen(values: list[Any]) -> list[Any]:
        return [json.dumps(value) if library == "arrow" and value is not None else value for value in values]

    assert cells(made, "data") == seen([None, "text", 3, None, None, None, "no JSON"])
    assert cells(made, "data.x") == seen([1, None, None, "one", None, None, None])
    nested = cells(made, "data.y")
    assert (nested[0], nested[1:]) == ("[2]" if library == "arrow" else [2], [None] * 6)


def test_what_is_expanded_can_be_chosen():
    """Expansion can be turned off, or be asked for by column; text that is not JSON is never changed."""
    table = (["data", "result", "note"], [('{"x": 1}', '{"id": 7}', "[1]"), ('{"x": 2}', "done", "[2]")])
    assert list(frame(table, "pandas", expand=False).columns) == ["data", "result", "note"]
    assert list(frame(table, "pandas").columns) == ["data.x", "result", "note"]
    chosen = frame(table, "pandas", expand=["result"])
    assert list(chosen.columns) == ["data", "result", "result.id", "note"]
    assert cells(chosen, "result") == [None, "done"]
    with pytest.raises(sim.UsageError, match="no column 'reslt' to expand") as refused:
        frame(table, "pandas", expand=["reslt"])
    assert refused.value.hint == "did you mean 'result'?"


def test_objects_with_very_many_keys_stay_objects():
    """A column whose keys are data, such as names of agents, is not expanded."""
    many = {f"agent-{number}": number for number in range(MOST_PARTS + 1)}
    made = frame((["data"], [(json.dumps(many),)]), "pandas")
    assert list(made.columns) == ["data"]
    assert made["data"].iloc[0] == many
    del many["agent-0"]
    assert len(frame((["data"], [(json.dumps(many),)]), "pandas").columns) == MOST_PARTS


def test_two_columns_with_one_name_are_refused(run):
    """No column hides another: neither two of a query, nor one that is made of JSON."""
    with pytest.raises(sim.UsageError, match="two columns have the name 'id'"):
        run.sql("SELECT id, id FROM events")
    with pytest.raises(sim.UsageError, match=r"two columns would have the name 'data\.to'"):
        run.sql("SELECT data, 1 AS \"data.to\" FROM events WHERE topic = 'shop.sold'")


def test_a_library_that_is_missing_is_named(run, monkeypatch):
    """Without a library, the error names the extra that installs it; with another one, that is used."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(sim.UsageError, match="a frame of pandas needs the package pandas") as error:
        run.frame("events", as_="pandas")
    assert error.value.hint == "install it: pip install 'actor-sim[frames]'"
    assert isinstance(run.frame("events"), pl.DataFrame)
    monkeypatch.setitem(sys.modules, "polars", None)
    assert type(run.frame("events")).__module__.startswith("pyarrow")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(sim.UsageError, match="neither is installed") as error:
        run.frame("events")
    assert error.value.hint == "install pandas: pip install 'actor-sim[frames]'"
    with pytest.raises(sim.UsageError, match="pandas, polars, arrow, not 'excel'"):
        run.frame("events", as_="excel")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(width=32) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
@given(st.lists(JSON, max_size=8))
def test_no_data_breaks_a_frame(library, values):
    """Whatever JSON a column has, a frame is made, with one row for each value."""
    text = [(json.dumps(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace"),) for value in values]
    made = frame((["data"], text), library)
    assert len(made) == len(values) or not names(made)


def test_columns_that_views_make_of_json_are_known():
    """Every column that a view takes as JSON (`->`) is expanded, except `result`, which is text in other views."""
    made = {name for select in VIEWS.values() for name in re.findall(r"-> '[^']*' AS \"?(\w+)", select)}
    assert len(made) > 5
    assert made - JSON_COLUMNS == {"result"}
