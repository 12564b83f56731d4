"""Designs: how keys are varied, and which combinations are tried."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.base.errors import UsageError
from sim.experiments.designs import points_of, variable, varied
from sim.scenario.overrides import Override


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


def test_a_factorial_tries_all_combinations() -> None:
    """In the order of the file: the last key changes first."""
    points = points_of([variable("a=1,2"), variable("b=x,y,z")], "factorial", None, 0)
    assert [(point["a"], point["b"]) for point in points] == list(product("12", "xyz"))
    assert points_of([], "factorial", None, 0) == ({},)


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
