"""The least effect: what an experiment of a certain size would show."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.experiments.arms import Difference
from sim.experiments.estimate import Estimate, least_effect
from sim.experiments.tables import differences_table


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=50))
def test_the_least_effect_is_wider_than_the_interval(values: list[float]) -> None:
    """What 80 of 100 experiments show is more than half an interval, and less than twice that."""
    estimate, least = Estimate.of(values), least_effect(values)
    assert estimate is not None
    assert estimate.half is not None
    if least is None:
        assert estimate.half == 0
    else:
        assert estimate.half <= least <= 2 * estimate.half + 1e-9


@pytest.mark.parametrize("values", [[], [1.0], [0.0, 0.0, 0.0], [0.1, 0.1, 0.1]])
def test_without_variation_there_is_no_least_effect(values: list[float]) -> None:
    """Differences that are all the same do not say how much others would vary; the table has an empty cell."""
    assert least_effect(values) is None
    found = [Difference("a", "y", Estimate(2, 1, 0.1), Estimate(2, 0, 0), None, 0)]
    assert differences_table(found)[1][0][4] is None


def test_values_that_are_not_finite_are_omitted() -> None:
    """The least effect is that of the values which the estimate has."""
    assert least_effect([math.inf, 1.0, math.nan, 2.0]) == least_effect([1.0, 2.0])
    assert least_effect([math.inf, 1.0]) is None


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 15, 21, 22, 60])
def test_the_power_at_the_least_effect(count: int) -> None:
    """If the true mean is the least effect, 80 % of intervals leave out 0, for any number of values."""
    chi2, norm = pytest.importorskip("scipy.stats").chi2, pytest.importorskip("scipy.stats").norm
    values = [float(place) for place in range(count)]
    estimate, least = Estimate.of(values), least_effect(values)
    assert estimate is not None
    assert estimate.half is not None
    assert least is not None
    error = statistics.stdev(values) / math.sqrt(count)
    quantile, effect = estimate.half / error, least / error
    # The distribution of the standard error, at 20,000 of its quantiles.
    spreads = [math.sqrt(x / (count - 1)) for x in chi2.ppf([(k + 0.5) / 20_000 for k in range(20_000)], count - 1)]
    below = norm.cdf([effect - quantile * spread for spread in spreads])
    above = norm.cdf([-effect - quantile * spread for spread in spreads])
    assert float(below.mean() + above.mean()) == pytest.approx(0.8, abs=0.0005)
