"""Designs: how keys are varied, and which combinations are tried."""

import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
from sim.base.errors import UsageError
from sim.experiments.designs import joined, points_of, variable, varied
from sim.experiments.listed import listed
from sim.experiments.points import named
from sim.scenario.overrides import Override
from tests.helpers import command


def values(text: str) -> tuple[str, ...]:
    """Return the values of a variable."""
    return variable(text).values


def test_lists_and_ranges() -> None:
    """A list is taken as it is; a range has evenly spread values, whole ones if its bounds are whole."""
    assert values("a.b=1, 2,x") == ("1", "2", "x")
    assert values("a=1..10:4") == ("1", "4", "7", "10")
    assert values("a=1..4:3") == ("1", "3", "4")
    assert values("a=0.1..0.3:3") == ("0.1", "0.2", "0.3")
    assert values("a=1234567.5..2234567.5:2") == ("1234567.5", "2234567.5")
    assert values(f"a={2**60}..{2**60 + 2}:3") == (str(2**60), str(2**60 + 1), str(2**60 + 2))
    assert values("a=0.0..1:5") == ("0", "0.25", "0.5", "0.75", "1")
    assert values("a=10..100:4") == ("10", "40", "70", "100")
    assert values("a=-1e-3..1e-3:3") == ("-0.001", "0", "0.001")
    assert values("a=0..1") == ()


@pytest.mark.parametrize(
    "text",
    ["a", "a=", "=1", "a=1,1", "a=1,,2", "seed=1,2", "a=2..1:3", "a=1..1:2", "a=1..2:1", "a=x..y:3", "a=1..2:0",
     "a=nan..1:2", "a=1..inf:3", "a=0..1:5"],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(text: str) -> None:
    """The error shows the form with an example."""
    with pytest.raises(UsageError) as caught:
        variable(text)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("k=[1,2],[3]", ("[1,2]", "[3]")),
        ("k=[],[[1,2],[3]]", ("[]", "[[1,2],[3]]")),
        ("k={a: 1, b: 2},{a: 2}", ("{a: 1, b: 2}", "{a: 2}")),
        ('k="a,b",c', ('"a,b"', "c")),
        ("k=['x,y', z],[]", ("['x,y', z]", "[]")),
        ('k=["0..1"],"1..2"', ('["0..1"]', '"1..2"')),
        ("k=it's,5 o'clock", ("it's", "5 o'clock")),
    ],
)
def test_commas_inside_of_a_value_do_not_end_it(text: str, values: tuple[str, ...]) -> None:
    """Values can be lists, mappings and quoted texts, as in `--set`."""
    assert variable(text).values == values


def test_any_values_can_be_varied_from_python() -> None:
    """A list, a text with a comma and one that looks like a range reach the scenario as they are."""
    values = [[1, 2], [], {"a": [1, 2]}, "a,b", "0..1", "plain", 0.5, None, True]
    (text,) = varied({"k": values})
    assert [Override.parse(f"k={value}").value for value in variable(text).values] == values


def test_keys_can_change_together() -> None:
    """Each value is a list with one for each key; other keys are combined with them; from Python they are a tuple."""
    points = points_of([variable("a.x, a.y=[1, 'p,q'],[2,[3]]"), variable("b=5,6")], "factorial", None, 0)
    assert [tuple(point.values()) for point in points] == [
        ("1", "p,q", "5"), ("1", "p,q", "6"), ("2", "[3]", "5"), ("2", "[3]", "6"),
    ]  # fmt: skip
    assert list(points[0]) == ["a.x", "a.y", "b"]
    (text,) = varied({("a.x", "a.y"): [(1, "p,q"), (2, [3])]})
    assert points_of([variable(text)], "factorial", None, 0) == tuple(
        {**point} for point in ({"a.x": "1", "a.y": "p,q"}, {"a.x": "2", "a.y": "[3]"})
    )
    for wrong in ("a,b=1,2", "a,b=[1],[2]", "a,a=[1,2]", "a,=[1,2]", "a,seed=[1,2]", "a,b={x: 1}"):
        with pytest.raises(UsageError) as refused:
            variable(wrong)
        assert refused.value.hint
    with pytest.raises(UsageError, match="varied twice"):
        points_of([variable("a,b=[1,2]"), variable("b=3")], "factorial", None, 0)


def test_combinations_come_from_files_and_tables(tmp_path: Path) -> None:
    """CSV, JSON Lines, DataFrames and mappings give the same combinations, also of lists and texts with commas."""
    rows = [{"a.b": 0.5, "c": [1, 2], "d": "x, y"}, {"a.b": 2, "c": [], "d": "yes"}]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    (tmp_path / "d.csv").write_text('a.b,c,d\n0.5,"[1, 2]","x, y"\n2,[],"""yes"""\n')
    values = [
        [{key: Override.parse(f"{key}={text}").value for key, text in point.items()} for point in listed(given)]
        for given in (tmp_path / "d.jsonl", str(tmp_path / "d.csv"), rows, pd.DataFrame(rows), iter(rows))
    ]
    assert all(found == rows for found in values)
    assert joined(listed(rows), [{"e": "1"}, {"e": "2"}])[1] == {"a.b": "0.5", "c": "[1, 2]", "d": "x, y", "e": "2"}
    with pytest.raises(UsageError, match="varied twice"):
        joined(listed(rows), [{"c": "1"}])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("d.csv", "", "has no combinations"),
        ("d.csv", "a,b\n", "has no combinations"),
        ("d.csv", "a,b\n1,2\n1,2,3\n", "line 3: there are 3 cells, and 2 keys"),
        ("d.csv", "a,b\n1,\n", "line 2: b has no value"),
        ("d.csv", "a,a\n1,2\n", "the key 'a' is in the first line twice"),
        ("d.csv", "a,b\n1,2\n3,4\n1,2\n", "line 4: this combination is that of line 2"),
        ("d.csv", "seed,b\n1,2\n", "varies the seed"),
        ("d.csv", 'a,b\n"1,2\n', "line 2: unexpected end of data"),
        ("d.jsonl", '{"a": 1}\n[2]\n', "line 2: this is no JSON object"),
        ("d.jsonl", '{"a": 1}\n{"b": 1}\n', "line 2: there is no 'a'"),
        ("d.jsonl", '{"a": 1}\n{"a": 1, "b": 1}\n', "line 2: only this line has 'b'"),
        ("d.jsonl", "{}\n", "has no keys"),
    ],
)
def test_files_that_are_no_list_of_combinations(tmp_path: Path, name: str, text: str, said: str) -> None:
    """One sentence names the file, the line, and what is wrong."""
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=re.escape(said)) as refused:
        listed(tmp_path / name)
    assert str(tmp_path / name) in str(refused.value)
    with pytest.raises(UsageError, match="cannot be read"):
        listed(tmp_path / "none.csv")


def test_a_combination_is_named_by_its_values() -> None:
    """A key can be its last part, and a number can be written otherwise; one that is not there has a hint."""
    points = [{"a.state.beta": "0.1", "b": "x"}, {"a.state.beta": "0.2", "b": "x"}]
    assert named(points, ["beta=0.20"]) == 1
    for wrong, hint in (
        (["beta=0.3"], "there is"),
        (["b=x"], "each varied key"),
        (["bate=1"], "there are"),
        (["beta"], ""),
    ):
        with pytest.raises(UsageError) as refused:
            named(points, wrong)
        assert hint in str(refused.value.hint)


def test_combinations_are_compared_seed_by_seed(tmp_path: Path) -> None:
    """With a baseline, a sweep has paired differences, in tables, on the page, over time, and later for any other."""
    scenario = tmp_path / "line.yaml"
    scenario.write_text(
        "name: line\nuntil: 30s\nmetrics: {every: 10s, values: {y: \"total('a', 'y')\"}}\n"
        "agents: [{name: a, state: {y: 0, slope: 1, text: q}, loop: {min_loop_delay: 10s},"
        " rules: [{set: {y: '=y + slope * uniform(0.9, 1.1)'}}]}]\n"
    )
    (tmp_path / "d.csv").write_text('agents.a.state.slope,agents.a.state.text\n1,"p, q"\n2,z\n')
    code, out, err = command(
        "sweep", scenario, "--points", tmp_path / "d.csv", "--seeds", 3, "--jobs", 1, "--baseline", "slope=1",
        "--to", tmp_path / "found", "--json",
    )  # fmt: skip
    assert code == 0, err
    told = json.loads(out)
    (difference,) = told["differences"]
    assert (difference["arm"], difference["outcome"]) == ("state.slope=2, state.text=z", "y")
    found = sim.Experiment.open(tmp_path / "found")
    assert (
        found.plan
        == sim.sweep(
            scenario, points=tmp_path / "d.csv", seeds=3, jobs=1, baseline={"slope": 1}, out=tmp_path / "again"
        ).plan
    )
    first, second = (row.outcomes["y"].mean for row in found.estimates)
    (other,) = found.compare({"text": "z"})
    assert difference["difference"]["mean"] == pytest.approx(second - first) == pytest.approx(-other.difference.mean)
    assert "Differences from the baseline, state.slope=1, state.text=p, q" in found.page.read_text()
    assert found.plot_differences("y", over="time").svg.count('stroke-opacity="0.5"') == 3  # three seeds, each a line
    assert found.without_effect == ()  # keys that change together have their effect together


def test_a_factorial_tries_all_combinations() -> None:
    """In the order of the file: the last key changes first."""
    points = points_of([variable("a=1,2"), variable("b=x,y,z")], "factorial", None, 0)
    assert [(point["a"], point["b"]) for point in points] == list(product("12", "xyz"))
    assert points_of([], "factorial", None, 0) == ({},)


@pytest.mark.slow
@given(st.integers(1, 60), st.integers(0, 5))
def test_a_latin_hypercube_has_one_value_in_each_part(samples: int, seed: int) -> None:
    """Each of n equal parts of a range has exactly one of n values; the same seed gives the same sample."""
    given_ = [variable("a=0.0..1.0"), variable("b=10.0..20.0")]
    points = points_of(given_, "latin", samples, seed)
    parts = sorted(min(samples - 1, int(float(point["b"]) * samples / 10 - samples + 1e-4)) for point in points)
    assert len(set(parts)) >= samples - 1  # values are rounded, so one can be at the edge of the next part
    assert points == points_of(given_, "latin", samples, seed)


def test_a_sobol_sequence_fills_the_space_evenly() -> None:
    """Each quarter of the square has a quarter of the points."""
    points = points_of([variable("a=0.0..2.0"), variable("b=0.0..2.0")], "sobol", 64, 1)
    for low_a, low_b in product((0, 1), repeat=2):
        inside = [p for p in points if low_a <= float(p["a"]) < low_a + 1 and low_b <= float(p["b"]) < low_b + 1]
        assert len(inside) == 16


def test_samples_of_lists_and_whole_numbers() -> None:
    """A list has each value equally often, and whole bounds give whole numbers within them."""
    points = points_of([variable("a=x,y,z,w"), variable("n=1..8")], "sobol", 32, 0)
    assert sorted(point["a"] for point in points) == sorted(["w", "x", "y", "z"] * 8)
    assert {int(point["n"]) for point in points} == set(range(1, 9))


@pytest.mark.parametrize(
    ("vary", "design", "samples", "said"),
    [
        (["a=1..2"], "factorial", None, "no number of values"),
        (["a=1,2", "a=3"], "factorial", None, "varied twice"),
        (["a=1,2"], "factorial", 5, "tries all combinations"),
        (["a=1..2"], "latin", None, "needs --samples"),
        ([], "sobol", 4, "needs --samples"),
        (["a=1..2"], "sobol", 10, "power of two"),
        (["a=1..1000:1000", "b=1..1000:1000"], "factorial", None, "at most 100,000"),
    ],
)
def test_designs_that_do_not_fit(vary: list[str], design: str, samples: int | None, said: str) -> None:
    """One sentence says what does not fit."""
    with pytest.raises(UsageError, match=said):
        points_of([variable(text) for text in vary], design, samples, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("design", ["latin", "sobol", "saltelli", "morris", "fast"])
def test_a_number_of_values_is_refused_where_ranges_are_sampled(design: Any) -> None:
    """A design that samples takes any value of a range, so `:n` would be ignored."""
    with pytest.raises(UsageError, match=r"takes any value in the range of a, so a number"):
        points_of([variable("a=0.0..1.0:5"), variable("b=0.0..1.0")], design, 64, 1)
