"""The variance of the outcomes of a sweep: split by keys, seeds and personas."""

import json
import shutil
import sqlite3
from contextlib import closing
from typing import Any

import pytest

import sim
from sim.base.errors import UsageError
from sim.experiments.results import Results
from sim.experiments.shares import shares_of
from tests.helpers import command

SUMS = """
name: sums
until: 1s
agents: [{name: a, state: {x: 0, y: 0, z: 1, noise: "=round(gauss(0, 1), 3)"}}]
metrics:
  values:
    first: state_of('a', 'x') + state_of('a', 'y')
    second: state_of('a', 'x') + state_of('a', 'y') + 10
    chance: state_of('a', 'noise')
    same: state_of('a', 'z')
    odd: null if state_of('a', 'noise') < 0 and state_of('a', 'x') > 0 else 1.0 * state_of('a', 'noise')
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A sweep over two keys, one of which changes two values together, with four seeds."""
    place = tmp_path_factory.mktemp("sums")
    (place / "sums.yaml").write_text(SUMS, encoding="utf-8")
    vary: dict[str, list[Any]] = {
        "agents.a.state.x": [0, 4],
        "agents.a.state.y,agents.a.state.z": [[0, 1], [2, 1], [4, 1]],
    }
    sim.sweep(place / "sums.yaml", vary=vary, seeds=4, out=place / "made")
    return place / "made"


def split(folder, *outcomes, **across):
    """Return the shares of outcomes by their names."""
    with closing(Results(folder, read_only=True)) as results:
        return {one.outcome: one for one in shares_of(results, outcomes, across)}


def test_the_variance_is_that_of_what_makes_it(folder):
    """Values that are sums have the variances of their parts, and nothing else: x has 8, y has 4, seeds have none."""
    found = split(folder)["first"]
    assert {part.source: (part.levels, part.variance) for part in found.parts} == {
        "state.x": (2, 8), "state.y, state.z": (3, 4), "seed": (4, 0), "residual": (0, 0),
    }  # fmt: skip
    assert [round(part.share, 3) for part in found.parts] == [0.667, 0.333, 0, 0]
    assert (found.values, found.left_out, found.note) == (24, 0, "")


def test_seeds_alone_are_all_of_the_variance_of_chance(folder):
    """An outcome that no key changes has the variance of its seeds."""
    shares = {part.source: part.share for part in split(folder)["chance"].parts}
    assert shares == {"state.x": 0, "state.y, state.z": 0, "seed": 1, "residual": 0}


def test_personas_are_levels_of_a_source(folder):
    """Outcomes that measure the same of several groups are split from the keys: 10 apart have the variance 50."""
    found = split(folder, "chance", persona=["first", "second"])
    assert list(found) == ["chance", "first, second"]
    parts = {part.source: part.variance for part in found["first, second"].parts}
    assert parts == pytest.approx({"state.x": 8, "state.y, state.z": 4, "seed": 0, "persona": 50, "residual": 0})
    assert found["first, second"].values == 48


def test_what_cannot_be_split_is_said(folder):
    """Values that are all the same have no shares, and values whose level lacks others are left out and counted."""
    assert split(folder)["same"].note == "all values are the same"
    odd = split(folder)["odd"]
    assert odd.left_out > 0
    assert odd.values + odd.left_out == 24


def test_an_outcome_that_is_named_twice_counts_once(folder):
    """Names that are repeated add no level, no value, and no other shares."""
    once = split(folder, "chance", persona=["first", "second"])
    assert split(folder, "chance", "chance", persona=["first", "second", "first"]) == once
    assert once["first, second"].left_out == 0


def test_trials_that_are_not_there_are_left_out_and_counted(folder, tmp_path):
    """A seed that no combination has, and one that one combination lacks, are each missing values."""
    for name, point in (("seed", "%"), ("trial", "3")):
        shutil.copytree(folder, tmp_path / name)
        with closing(sqlite3.connect(tmp_path / name / "results.db")) as database, database:
            database.execute("DELETE FROM outcomes WHERE seed = 2 AND point LIKE ?", (point,))
            database.execute("DELETE FROM trials WHERE seed = 2 AND point LIKE ?", (point,))
        found = split(tmp_path / name, "first")["first"]
        assert (found.values, found.left_out) == (18, 6)


def test_the_command_prints_it(folder):
    """A line for each outcome and source; as JSON the same numbers; wrong use names what to do."""
    code, out, err = command("report", folder, "variance", "--outcome", "first", "--across", "persona=first,second")
    assert code == 0, err
    assert ["first", "state.x", "2", "8", "67%"] in [line.split() for line in out.splitlines()]
    code, out, _ = command("report", folder, "variance", "--outcome", "first", "--json")
    (one,) = json.loads(out)["outcomes"]
    assert [part["source"] for part in one["parts"]] == ["state.x", "state.y, state.z", "seed", "residual"]
    for words, said in (
        (["--across", "persona"], "names no outcomes"),
        (["--across", "persona=first"], "one outcome"),
        (["--across", "seed=first,second"], "take another name than seed"),
        (["--across", "state.x=first,second"], "a source of its own"),
        (["--across", "p=first,second", "--across", "p=first,chance"], "twice"),
        (["--across", "persona=first,secnd"], "second"),
        (["--outcome", "thirst"], "first"),
        (["--to", "x.html"], "writes no file"),
    ):
        code, _, err = command("report", folder, "variance", *words)
        assert code == 2
        assert said in err
    for words, said in (
        (["results", "--to", folder.parent / "x.txt"], "results need a format"),
        (["candidates", "--to", folder.parent / "x.csv"], "only a fit has candidates"),
    ):
        code, _, err = command("export", folder, *words)
        assert code == 2
        assert said in err
    code, _, err = command("report", folder, "sensitivity", "--across", "persona=first,second")
    assert code == 2
    assert "--across is about variance" in err


@pytest.mark.slow
def test_other_designs_are_refused(tmp_path):
    """Only all combinations are a crossed design."""
    (tmp_path / "sums.yaml").write_text(SUMS, encoding="utf-8")
    vary = {"agents.a.state.x": "0..4", "agents.a.state.y": "0..4"}
    sim.sweep(tmp_path / "sums.yaml", vary=vary, design="latin", samples=4, seeds=1, out=tmp_path / "made")
    with pytest.raises(UsageError, match="all combinations"):
        split(tmp_path / "made")
