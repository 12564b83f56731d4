"""Variance components: what comes from judges, seeds and agents."""

import random
from itertools import product
from statistics import fmean

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


@pytest.mark.slow
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


def joint(sizes: tuple[int, int, int], repeats: int, chance: random.Random) -> dict[Cell, list[float]]:
    """Return scores that depend on the agent and the seed together (variance 1), and on chance (variance 0.04)."""
    both = {pair: chance.gauss(0, 1) for pair in product(range(sizes[1]), range(sizes[2]))}
    return {
        tuple(map(str, cell)): [both[cell[1], cell[2]] + chance.gauss(0, 0.2) for _ in range(repeats)]
        for cell in product(*map(range, sizes))
    }


@pytest.mark.proof
@pytest.mark.parametrize(("repeats", "rest"), [(1, "residual"), (3, "interaction")])
def test_what_seed_and_agent_do_together_is_credited_to_neither(repeats: int, rest: str) -> None:
    """Ten judges, six seeds and agents, 200 draws: the variance of seed x agent is no variance of seeds or agents.

    On average, an estimate that cannot be negative is a little above 0.
    """
    chance = random.Random(11)
    draws = [{one.source: one for one in components(joint((10, 6, 6), repeats, chance), FACTORS)} for _ in range(200)]
    mean = {name: fmean(draw[name].variance for draw in draws) for name in draws[0]}
    assert mean["judge"] < 0.01
    assert mean["seed"] < 0.07
    assert mean["agent"] < 0.07
    assert mean[rest] == pytest.approx(1.04 if repeats == 1 else 1.0, rel=0.08)


def test_three_factors_by_hand() -> None:
    """Two levels of each: the mean squares are those of contrasts, and the estimates their alternating sums."""
    numbers = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0]
    cells: dict[Cell, list[float]] = {
        tuple(map(str, cell)): [value] for cell, value in zip(product(range(2), repeat=3), numbers, strict=True)
    }
    square = {}
    for chosen in product(range(2), repeat=3):
        signs = [(-1) ** sum(a * b for a, b in zip(chosen, cell, strict=True)) for cell in product(range(2), repeat=3)]
        square[chosen] = sum(sign * value for sign, value in zip(signs, numbers, strict=True)) ** 2 / 8
    found = {one.source: one.variance for one in components(cells, FACTORS)}
    judge = (square[1, 0, 0] - square[1, 1, 0] - square[1, 0, 1] + square[1, 1, 1]) / 4
    agent = (square[0, 0, 1] - square[1, 0, 1] - square[0, 1, 1] + square[1, 1, 1]) / 4
    pairs = sum((square[one] - square[1, 1, 1]) / 2 for one in ((1, 1, 0), (1, 0, 1), (0, 1, 1)))
    assert found["judge"] == pytest.approx(max(0.0, judge))
    assert found["agent"] == pytest.approx(max(0.0, agent))
    assert found["residual"] == pytest.approx(max(0.0, pairs + square[1, 1, 1]))


@pytest.mark.slow
def test_additive_scores_have_their_components_on_average() -> None:
    """Few levels and additive effects, 400 draws: the mean of each estimate is its variance."""
    drawn = [
        {one.source: one.variance for one in components(scores((4, 5, 6), (2, 1, 3), 0.5, 1, seed), FACTORS)}
        for seed in range(400)
    ]
    wanted = {"judge": 4, "seed": 1, "agent": 9, "residual": 0.25}
    for name, variance in wanted.items():
        assert fmean(one[name] for one in drawn) == pytest.approx(variance, rel=0.1)


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
