import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.experiments.estimate import Estimate, student


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.7062), (2, 4.3027), (4, 2.7764), (9, 2.2622), (20, 2.0860), (21, 2.0796), (30, 2.0423), (60, 2.0003),
     (120, 1.9799), (10_000, 1.9602)],
)  # fmt: skip
def test_quantiles_are_those_of_the_tables(freedom, quantile):
    """The 97.5 % quantiles of Student's t are those in print, also beyond the table in the code."""
    assert student(freedom) == pytest.approx(quantile, abs=2e-4)


def test_quantiles_fall_towards_the_normal_one():
    """More seeds never make an interval wider, and where table and formula meet there is no step."""
    quantiles = [student(freedom) for freedom in range(1, 200)]
    assert quantiles == sorted(quantiles, reverse=True)
    assert quantiles[19] - quantiles[20] < 0.008


def test_an_interval_is_that_of_the_textbook():
    """Of 1, 2, 3, 4, 5 the mean is 3 ± 1.963: 2.776 standard errors of sqrt(2.5 / 5)."""
    estimate = Estimate.of([1, 2, 3, 4, 5])
    assert estimate is not None
    assert (estimate.n, estimate.mean) == (5, 3)
    assert estimate.half == pytest.approx(1.9632, abs=1e-4)
    assert estimate.low == pytest.approx(1.0368, abs=1e-4)
    assert estimate.high == pytest.approx(4.9632, abs=1e-4)


def test_what_cannot_be_said_is_not_said():
    """One seed has no interval, none no mean, and a value that is not finite is none."""
    assert Estimate.of([]) is None
    assert Estimate.of([math.nan, math.inf]) is None
    assert Estimate.of([7]) == Estimate(1, 7, None)
    assert Estimate.of([7, math.nan]) == Estimate(1, 7, None)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=50))
def test_an_interval_holds_its_mean(values):
    """An interval is centred on the mean of its values, and as wide as they are spread."""
    estimate = Estimate.of(values)
    assert estimate is not None
    assert estimate.low <= estimate.mean <= estimate.high
    assert (estimate.half == 0) == (statistics.stdev(values) == 0)
