"""Variance components: what comes from judges, seeds and agents."""

import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.experiments.variance import Cell, components

FACTORS = ("judge", "seed", "agent")


def scores(
    sizes: tuple[int, int, int], sds: tuple[float, float, float], rest: float, repeats: int, seed: int
) -> dict[Cell, list[float]]:
    """Return scores that are drawn from the model with these standard deviations."""
    chance = random.Random(seed)
    effects = [[chance.gauss(0, sd) for _ in range(size)] for size, sd in zip(sizes, sds, strict=True)]
    made: dict[Cell, list[float]] = {}
    for cell in product(*(range(size) for size in sizes)):
        mean = 10 + sum(own[level] for own, level in zip(effects, cell, strict=True))
        made[tuple(map(str, cell))] = [mean + chance.gauss(0, rest) for _ in range(repeats)]
    return made


def test_the_components_of_a_known_model() -> None:
    """With many levels, the variances that scores were drawn with are found again."""
    found = {one.source: one for one in components(scores((40, 40, 40), (2, 1, 3), 0.5, 1, 7), FACTORS)}
    wanted = {"judge": 4, "seed": 1, "agent": 9, "residual": 0.25}
    for name, variance in wanted.items():
        assert found[name].variance == pytest.approx(variance, rel=0.45)
    assert sum(one.share for one in found.values()) == pytest.approx(1)
    assert [one.levels for one in found.values()] == [40, 40, 40, 0]


def test_repetitions_are_told_from_the_interaction() -> None:
    """Scores that are additive but for repetition have no interaction."""
    found = {one.source: one.variance for one in components(scores((6, 6, 20), (1, 1, 1), 2, 10, 3), FACTORS)}
    assert found["repetition"] == pytest.approx(4, rel=0.1)
    assert found["interaction"] < 0.2


def test_a_worked_example() -> None:
    """Two judges and three agents: mean squares by hand."""
    rows: dict[Cell, list[float]] = {("a", "s", "1"): [1.0], ("a", "s", "2"): [2.0], ("a", "s", "3"): [6.0],
            ("b", "s", "1"): [3.0], ("b", "s", "2"): [4.0], ("b", "s", "3"): [5.0]}  # fmt: skip
    judge, agent, residual = components(rows, FACTORS)
    # grand mean 3.5; judges 3 and 4; agents 2, 3, 5.5; squares: judge 1.5, agent 13, residual 3 with 2 degrees
    assert residual.source == "residual"
    assert residual.variance == pytest.approx(1.5)
    assert judge.variance == pytest.approx(0)
    assert agent.variance == pytest.approx((6.5 - 1.5) / 2)


def test_levels_with_gaps_are_left_out() -> None:
    """An agent that one judge has not scored, or a score too many, changes nothing for the others."""
    full = scores((3, 1, 4), (1, 0, 1), 0.3, 2, 5)
    more = {**full, ("0", "0", "9"): [1.0, 2.0]}
    more["1", "0", "2"] = [*more["1", "0", "2"], 99.0]
    assert components(more, FACTORS) == components(full, FACTORS)


def test_what_has_no_components() -> None:
    """One factor without repetitions, or no scores, can be split into nothing."""
    assert components({}, FACTORS) == []
    assert components({("a", "s", str(n)): [float(n)] for n in range(5)}, FACTORS) == []
    one = components({("a", "s", str(n)): [float(n), n + 0.5] for n in range(5)}, FACTORS)
    assert [part.source for part in one] == ["agent", "repetition"]


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 5), st.integers(1, 3), st.integers(0, 10**6))
def test_shares_are_shares(judges: int, seeds: int, agents: int, repeats: int, seed: int) -> None:
    """Each variance is at least 0, and the shares add up to one."""
    found = components(scores((judges, seeds, agents), (1, 2, 3), 1, repeats, seed), FACTORS)
    assert all(one.variance >= 0 for one in found)
    if found and sum(one.variance for one in found):
        assert sum(one.share for one in found) == pytest.approx(1)
