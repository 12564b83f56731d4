"""Agents from tables: formats, what columns become, types, samples, what is refused, and the record."""

import json
import math
from collections import Counter
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

import sim
from sim.base.errors import ScenarioError
from sim.experiments.plan import check_scenario, make_sweep
from sim.experiments.ray_workers import _files
from sim.record import frames, open_run
from sim.scenario import load, population, table_files
from sim.scenario.assembly.build import build

PEOPLE = """name,age,income,party,place,persona,happy
ana,30,1000.5,red,a,"Ana is a nurse, and cautious.",true
ben,41,,blue,b,Ben sells cars.,false
cy,22,300,,a,,true
"""
ENTRY = "{name: person, table: people.csv, columns: {party: group}, state: {income: 5.5, seen: 0}}"


def scenario(folder: Path, entry: str = ENTRY, table: str | bytes = PEOPLE, name: str = "people.csv") -> Path:
    """Write a scenario whose agents come from a table."""
    data = table if isinstance(table, bytes) else table.encode()
    (folder / name).write_bytes(data)
    file = folder / "town.yaml"
    file.write_text(f"name: town\nuntil: 3s\nplaces: {{nodes: [a, b], edges: [[a, b]]}}\nagents:\n  - {entry}\n")
    return file


def world_of(file: Path, **options):
    """Return the world of a scenario."""
    return build(load(file), **options).world


def problem_of(file: Path):
    """Return the one problem of a scenario."""
    with pytest.raises(ScenarioError) as caught:
        load(file)
    (problem,) = caught.value.problems
    return problem


def test_a_row_is_an_agent(tmp_path):
    """Columns become the name, place, group and persona by their names or as declared, and state variables otherwise;
    an empty cell has the value of the entry, and texts, numbers, true and false have their types.
    """
    world = world_of(scenario(tmp_path))
    ana, ben, cy = world.agents.values()
    assert (ana.agent_id, ana.group, ana.persona) == ("ana", "red", "Ana is a nurse, and cautious.")
    assert ana.state == {"income": 1000.5, "seen": 0, "age": 30, "happy": True}
    assert (ben.state["income"], cy.group, cy.persona) == (5.5, "person", "")
    assert [world.places.where(name) for name in world.agents] == ["a", "b", "a"]
    assert world.group("person") == ["ana", "ben", "cy"]
    assert world.group("red") == ["ana"]
    ana.shutdown()
    assert (world.group("person"), world.group("red")) == (["ben", "cy"], [])


def test_the_common_case_needs_no_declaration(tmp_path):
    """Without names agents are numbered, and rules and metrics know the columns as state variables."""
    entry = "{name: person, table: people.csv, rules: [{set: {age: '=age + 1'}}], loop: {min_loop_delay: 1s}}"
    file = scenario(tmp_path, entry, "age,weight_kg\n30,70.5\n41,\n")
    file.write_text(file.read_text() + "metrics: {every: 1s, values: {age: \"mean('person', 'age')\"}}\n")
    result = sim.run(file)
    assert result.metrics["age"] == [35.5, 36.5, 37.5, 38.5]
    assert list(world_of(file).agents) == ["person-1", "person-2"]
    assert world_of(file).agents["person-2"].state["weight_kg"] is None


def parquet(frame: pd.DataFrame) -> bytes:
    """Return a table as Parquet."""
    return bytes(frame.to_parquet(index=False))


FRAME = pd.DataFrame({"name": ["ana", "ben"], "age": [30, 41], "income": [1000.5, math.nan], "happy": [True, False]})
ROWS = FRAME.astype(object).where(FRAME.notna(), None).to_dict("records")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("people.csv", FRAME.to_csv(index=False).encode("utf-8-sig")),
        ("people.tsv", FRAME.to_csv(index=False, sep="\t").replace("\n", "\r\n").encode()),
        ("people.jsonl", "\n\n".join(json.dumps(row) for row in ROWS).encode()),
        ("people.parquet", parquet(FRAME)),
    ],
)
def test_formats(tmp_path, name, data):
    """A table is the same from each format, also with a byte order mark, other line ends and empty lines."""
    world = world_of(scenario(tmp_path, f"{{name: person, table: {name}}}", data, name))
    assert [agent.state for agent in world.agents.values()] == [
        {"age": 30, "income": 1000.5, "happy": True}, {"age": 41, "income": None, "happy": False},
    ]  # fmt: skip
    assert [type(value) for value in world.agents["ana"].state.values()] == [int, float, bool]


def test_parquet_is_read_by_pyarrow_or_polars_and_otherwise_refused(tmp_path, monkeypatch):
    """Each of the two reads the same, and where both are missing one sentence says what to install."""
    file = scenario(tmp_path, "{name: person, table: people.parquet}", parquet(FRAME), "people.parquet")
    states = []
    for missing in ((), ("arrow",), ("arrow", "polars")):
        table_files.read_table.cache_clear()
        monkeypatch.setattr(frames, "installed", lambda extra, missing=missing: extra not in missing)
        if len(missing) < 2:
            states.append([agent.state for agent in world_of(file).agents.values()])
    assert states[0] == states[1]
    problem = problem_of(file)
    assert "people.parquet: Parquet needs the package pyarrow or polars" in problem.message
    assert problem.hint == "install one: pip install 'actor-sim[arrow]', or save the table as CSV"
    table_files.read_table.cache_clear()


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, list, lambda rows: pl.DataFrame(rows).to_arrow()],
    ids=["pandas", "polars", "list", "arrow"],
)  # fmt: skip
def test_tables_of_a_program(make):
    """DataFrames of pandas and polars, Arrow tables and lists of rows give what the file gives."""
    table = table_files.table_from(make(ROWS))
    assert table.columns == ("name", "age", "income", "happy")
    assert table.rows == (("ana", 30, 1000.5, True), ("ben", 41, None, False))


def test_values_of_libraries_become_plain_ones():
    """Times become text, what stands for no value becomes null, and numbers of numpy become those of Python."""
    frame = pd.DataFrame({"born": [pd.Timestamp("2001-02-03"), pd.NaT], "n": pd.array([1, None], dtype="Int64")})
    table = table_files.table_from(frame)
    assert table.rows == (("2001-02-03T00:00:00", 1), (None, None))
    assert [type(cell) for cell in table.rows[0]] == [str, int]


ALONE = "{name: p, table: people.csv}"
REFUSED: dict[str, tuple[str | bytes, str, str, str]] = {
    "cell": ("age\n30\n41\nn/a\n22\n", "{name: person, table: people.csv}", "people.csv:4:1",
             "row 3, column 'age': expected a whole number, as in most rows, found the text 'n/a'"),
    "declared": ("age\nold\n", "{name: person, table: people.csv, state: {age: 0}}", "people.csv:2:1",
                 "row 1, column 'age': expected a whole number, found the text 'old'"),
    "several": ("a,b\n1,x\n2,1\n", "{name: p, table: people.csv, columns: {b: {type: number}}}", "people.csv:2:2",
                "row 1, column 'b': expected a number, found the text 'x'"),
    "cells": ("a,b\n1,2\n1,2,3\n", ALONE, "people.csv:3:1", "row 2 has 3 cells"),
    "semicolons": ("a;b\n1;2\n", ALONE, "people.csv:1:1", "separated by ;"),
    "name": ("name\nana\nAna Maria\n", ALONE, "people.csv:3:1", "expected a name, found"),
    "twice": ("name\nana\nana\n", ALONE, "people.csv:3:1", "'ana' is taken by row 1"),
    "no name": ("name,a\nana,1\n,2\n", ALONE, "people.csv:3:1", "expected a name, found nothing"),
    "group": ("group\nred\nThe Blue\n", ALONE, "people.csv:3:1", "the name of a group"),
    "quote": ('a\n"1\n', ALONE, "people.csv:2:1", "cannot be read as CSV"),
    "latin": ("a\n1\né\n".encode("latin-1"), ALONE, "people.csv:3:1", "not UTF-8"),
    "empty": ("", ALONE, "people.csv:1:1", "has no columns"),
    "rows": ("a,b\n", ALONE, "people.csv:1:1", "has no rows"),
    "header": ("a,a\n1,2\n", ALONE, "people.csv:1:1", "two columns 'a'"),
    "long": ("a\n" + "x" * 10_001 + "\n", ALONE, "people.csv:2:1", "10001 characters"),
    "place": ("place\na\nc\n", ALONE, "town.yaml:5:22", "row 2 of people.csv: there is no place 'c'"),
    "key": ("Household size\n1\n", ALONE, "town.yaml:5:22",
            "the column 'Household size' of people.csv cannot be the name of a state variable"),
    "reserved": ("now\n1\n", ALONE, "town.yaml:5:22", "'now' of people.csv is reserved"),
    "weight": ("a,w\n1,-1\n", "{name: p, table: people.csv, sample: 1, weights: w}", "people.csv:2:2",
               "at least 0, found -1"),
    "sample": ("a\n1\n", "{name: p, table: people.csv, sample: 2}", "town.yaml:5:42", "has 1 rows to draw from, and 2"),
    "drawn": ("name,w\na,1\n", "{name: p, table: people.csv, sample: 2, weights: w}", "town.yaml:5:42",
              "several times"),
    "format": ("a\n1\n", "{name: p, table: people.xlsx}", "town.yaml:5:22", "has no known format"),
    "missing": ("a\n1\n", "{name: p, table: others.csv}", "town.yaml:5:22", "others.csv cannot be read: No such file"),
    "outside": ("a\n1\n", "{name: p, table: ../people.csv}", "town.yaml:5:22", "is not in the folder of the scenario"),
    "both": ("a,b\n1,2\n", "{name: p, table: people.csv, columns: {b: state.a}}", "town.yaml:5:22",
             "both become state.a"),
    "taken": ("name\nq\n", ALONE + "\n  - {name: q}", "town.yaml:5:22", "the name 'q' of row 1"),
}  # fmt: skip


@pytest.mark.parametrize("fault", REFUSED)
def test_what_cannot_be_agents_is_refused_with_its_row(tmp_path, monkeypatch, fault):
    """One sentence names the file, the row and the column, what was found, and what was expected."""
    table, entry, where, message = REFUSED[fault]
    monkeypatch.chdir(tmp_path)
    scenario(tmp_path, entry, table)
    problem = problem_of(Path("town.yaml"))
    assert f"{problem.file}:{problem.line}:{problem.column}" == where
    assert message in problem.message
    assert problem.hint is not None or fault in ("cells", "no name", "place", "weight", "quote", "missing")


def test_whole_numbers_as_names(tmp_path):
    """Numbers of people, as in most surveys, become names with that of the entry."""
    world = world_of(scenario(tmp_path, "{name: person, table: people.csv, columns: {id: name}}", "id\n17\n4\n"))
    assert list(world.agents) == ["person-17", "person-4"]


@pytest.mark.slow
def test_samples_follow_the_seed_and_the_weights(tmp_path):
    """A sample is the same for a seed and another for another; drawn with replacement, rows come in proportion to their
    weights, and without, no row comes twice.
    """
    rows = "n,w\n" + "".join(f"{n},{n % 4}\n" for n in range(400))
    weighted = scenario(tmp_path, "{name: p, table: people.csv, sample: 4000, weights: w}", rows)
    drawn = [[agent.state["n"] for agent in world_of(weighted, seed=seed).agents.values()] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    shares = Counter(n % 4 for n in drawn[0])
    assert shares[0] == 0
    assert [shares[k] / 4000 for k in (1, 2, 3)] == pytest.approx([1 / 6, 2 / 6, 3 / 6], abs=0.03)
    for entry in ("sample: 100, weights: w, replace: false", "sample: 100"):
        once = scenario(tmp_path, f"{{name: p, table: people.csv, {entry}}}", rows)
        found = [agent.state["n"] for agent in world_of(once).agents.values()]
        assert len(set(found)) == 100
        assert found == sorted(found)


def test_the_scale_of_weights_does_not_matter(tmp_path):
    """Weights are relative: the same rows are drawn with small ones, which would not be powers of a draw any more."""
    drawn = []
    for weight in ("1", "1e-6", "1e-300", "1e300"):
        rows = "row,w\n" + "".join(f"{row},{weight}\n" for row in range(500))
        entry = "{name: p, table: people.csv, sample: 20, weights: w, replace: false}"
        world = world_of(scenario(tmp_path, entry, rows))
        drawn.append([agent.state["row"] for agent in world.agents.values()])
    assert drawn[1:] == drawn[:1] * 3
    assert max(drawn[0]) > 250


def test_the_limits_of_tables(tmp_path, monkeypatch):
    """More than the documentation says is refused, and it is not unpacked before."""
    limits = (table_files.MAX_TABLE_BYTES, table_files.MAX_ROWS, table_files.MAX_COLUMNS, table_files.MAX_TABLE_CELLS)
    assert limits == (50_000_000, 1_000_000, 500, 10_000_000)
    assert (table_files.MAX_CELL, population.MAX_AGENTS) == (10_000, 1_000_000)
    file = scenario(
        tmp_path, "{name: p, table: people.csv}", ",".join(f"c{n}" for n in range(501)) + "\n" + "1," * 500 + "1\n"
    )
    assert "1 rows of 501 columns" in problem_of(file).message
    monkeypatch.setattr(table_files, "MAX_ROWS", 2)
    for name, data in (("people.csv", b"a\n1\n2\n3\n"), ("people.parquet", parquet(pd.DataFrame({"a": [1, 2, 3]})))):
        assert " rows" in problem_of(scenario(tmp_path, f"{{name: p, table: {name}}}", data, name)).message
    monkeypatch.setattr(table_files, "MAX_TABLE_BYTES", 5)
    assert "larger than 5 bytes" in problem_of(scenario(tmp_path, "{name: p, table: people.csv}", "a\n1\n2\n5")).message


def test_a_run_keeps_its_tables(tmp_path):
    """Replays and branches need no file, another table gives another run, and a changed record is refused."""
    file = scenario(tmp_path)
    first = sim.run(file, out=tmp_path / "runs")
    assert sim.run(file, backend="trio").hash == first.hash
    (tmp_path / "people.csv").write_text(PEOPLE.replace("30", "31"))
    assert sim.run(file).hash != first.hash
    (tmp_path / "people.csv").unlink()
    folder = Path(first.run or "")
    assert sim.replay(folder).hash == first.hash
    assert sim.branch(folder, at=1, until=4).status == "finished"
    assert sim.branch(folder, at=0, seed=3).status == "finished"
    with open_run(folder) as stored:
        assert stored.info.digest is not None
        assert stored.info.digest["agents"]["ana"]["state"]["age"] == 30
    (folder / "tables.json").unlink()
    with (
        pytest.warns(sim.RecordWarning, match="tables of agents"),
        pytest.raises(sim.SimError, match=r"tables.json, the tables of agents, cannot be read"),
    ):
        sim.replay(folder)


def test_an_experiment_notices_another_table(tmp_path):
    """The plan of a sweep has the hash of the table, and workers elsewhere get it."""
    file = scenario(tmp_path)
    plan = make_sweep(file, count=1, vary=["until=2s,3s"])
    assert "tables.json" in _files(plan)
    check_scenario(plan, file)
    (tmp_path / "people.csv").write_text(PEOPLE.replace("30", "31"))
    with pytest.raises(sim.UsageError, match="is not the scenario of this plan"):
        check_scenario(plan, file)
