"""Precision: when an experiment has enough seeds."""

import random
from collections.abc import Callable

import pytest

from sim.experiments.estimate import Estimate
from sim.experiments.experiment import _needed
from sim.experiments.options import Precision
from sim.experiments.plan import Plan


def measured(draw: Callable[[int], float], *, first: int = 2, share: float = 0.2, most: int = 1000) -> Estimate:
    """Return the estimate of an outcome by seed, of which seeds are added until it is precise."""
    plan = Plan(
        file="", sha256="", name="", vary=(), design="factorial", samples=None, design_seed=0, points=({},),
        seeds=(0, first), precision=Precision(share, most), outcomes=(), mode="tick", until=None, overrides=(),
        allow=(),
    )  # fmt: skip
    known: dict[int, float] = {}
    while (needed := _needed(plan, {(0, seed): "measured" for seed in known}, [0], {0: {"y": known}})) > len(known):
        known = {seed: known.get(seed, draw(seed)) for seed in range(needed)}
    found = Estimate.of(list(known.values()))
    assert found is not None
    return found


def test_two_seeds_that_are_alike_by_chance_are_not_enough() -> None:
    """There are at least 10 seeds, also if the first two have nearly the same value."""
    values = [1.0, 1.01, 3.0, 0.2, 1.7, 0.1, 2.2, 0.9, 1.4, 0.3]
    found = measured(lambda seed: values[seed % 10])
    assert found.n > 10
    assert measured(lambda seed: 1 + seed % 2 / 1000).n == 10


def test_a_rare_event_is_not_impossible_because_the_first_seeds_do_not_have_it() -> None:
    """An outcome without variation is precise from 30 seeds on only; fewer say little about what is rare."""
    found = measured(lambda seed: float(seed % 20 == 15))
    assert found.n > 100
    assert found.mean == pytest.approx(0.05, rel=0.2)
    assert measured(lambda _: 0.0).n == 33


@pytest.mark.parametrize(("first", "most", "seeds"), [(2, 5, 5), (20, 5, 20), (2, 12, 12), (50, 1000, 50)])
def test_the_most_seeds_bound_all(first: int, most: int, seeds: int) -> None:
    """There are never more than the most seeds, unless more were asked for at first."""
    assert measured(lambda _: 0.0, first=first, most=most).n == seeds


@pytest.mark.proof
@pytest.mark.parametrize(
    ("draw", "mean", "least"),
    [
        (lambda chance: float(chance.random() < 0.1), 0.1, 0.85),
        (lambda chance: chance.gauss(1, 0.5), 1.0, 0.9),
    ],
)  # fmt: skip
def test_intervals_cover_the_mean(draw: Callable[[random.Random], float], mean: float, least: float) -> None:
    """Nearly all intervals cover the true mean, also that of a rare event: a little less than 95 %, as is known."""
    covered = 0
    for number in range(200):
        chance = random.Random(number)
        found = measured(lambda _, own=chance: draw(own))  # type: ignore[misc]
        covered += found.low <= mean <= found.high
    assert covered >= 200 * least
