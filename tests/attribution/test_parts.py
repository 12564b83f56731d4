"""The parts of attribution that are plain functions: targets, intervals, tests, halving."""

import random
from collections.abc import Callable

import pytest

from sim.base.errors import UsageError
from sim.experiments.attribution.halving import Halving
from sim.experiments.attribution.significance import holm, sign_test, wilson
from sim.experiments.attribution.target import Target
from sim.scenario import Scenario
from tests.attribution.conftest import COIN


@pytest.fixture(scope="module")
def scenario(tmp_path_factory) -> Scenario:
    """The scenario of a coin, loaded."""
    from sim.scenario.loading import loads

    return loads(COIN)


@pytest.mark.parametrize(
    ("text", "name", "sign", "limit"),
    [
        ("last('side') > 0", "last('side')", ">", 0.0),
        ("side>=-1", "side", ">=", -1.0),
        ("first_time(heard > 3) < 5", "first_time(heard > 3)", "<", 5.0),
        ("late=mean(heard, from=2s)", "late", None, 0.0),
        ("last('heard') - last('side') != 1e3", "last('heard') - last('side')", "!=", 1000.0),
    ],
)
def test_a_target_is_an_outcome_or_one_compared(scenario, text, name, sign, limit):
    """A sign of comparison outside of brackets parts the outcome from a number; without one, it is a number itself."""
    target = Target.parse(text, scenario)
    assert (target.name, target.sign, target.limit) == (name, sign, limit)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("last('sid') > 0", "there is no metric 'sid'"),
        ("last('side') > high", "'high' in"),
        ("last('side')", "is no condition"),
        ("query('SELECT 1') > 0", "reads the record of a run"),
        ("> 3", "is no condition"),
    ],
)
def test_a_wrong_condition_is_refused(scenario, text, said):
    """What is no condition of the run is refused in a sentence that names the part."""
    with pytest.raises(UsageError, match=said):
        Target.parse(text, scenario, condition=True)


def test_intervals_of_shares_are_those_of_wilson():
    """The intervals are those of the textbook (Brown, Cai and DasGupta 2001), and lie within 0 and 1."""
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)


def test_the_test_of_pairs_is_exact():
    """The p-value is that of the binomial distribution; pairs without a difference do not count."""
    assert sign_test([1] * 6) == pytest.approx(2 / 64)
    assert sign_test([1, 1, -1, 0, 0]) == pytest.approx(1.0)
    assert sign_test([0.0] * 9) == 1.0


def test_several_tests_count_as_one_list():
    """By Holm, the smallest of three p-values is compared with a third of the level, the next with half, and so on."""
    assert holm([0.02, 0.01, 0.2]) == [True, True, False]
    assert holm([0.03, 0.03, 0.03]) == [False, False, False]


def hunt(effect: Callable[[frozenset[int]], float], runs: int = 400) -> tuple[Halving[int], list[tuple[int, ...]]]:
    """Return a search among 500 numbers, and what it has found."""
    halving = Halving[int](lambda groups: [effect(frozenset(group)) for group in groups], runs)
    return halving, [one.items for one in halving.search(range(500))]


def test_one_of_500_is_found_in_19_runs():
    """A single candidate with an effect is found by halving: two runs for each of nine divisions, and one for all."""
    for chosen in (0, 123, 499):

        def effect(group: frozenset[int], own: int = chosen) -> float:
            return float(own in group)

        halving, found = hunt(effect)
        assert found == [(chosen,)]
        assert halving.tried <= 19
        assert halving.complete


def test_a_large_one_is_found_among_small_ones():
    """Where all candidates have an effect, the largest is found first, and it is said that others are left."""
    draws = random.Random(1)
    weights = {number: draws.gauss(0, 1) for number in range(500)} | {77: 60.0}
    halving, found = hunt(lambda group: sum(weights[one] for one in sorted(group)), 60)
    assert found[0] == (77,)
    assert not halving.complete


def test_a_redundant_pair_is_found_as_a_pair():
    """If two can stand in for each other, neither alone has an effect, and both together are what is found."""
    _, found = hunt(lambda group: float({40, 333} <= group))
    assert found == [(40, 333)]


def test_what_is_not_known_is_counted():
    """A group whose effect is not known is no finding, and is counted."""
    halving = Halving[int](lambda groups: [None] * len(groups), 50)
    assert halving.search([1, 2, 3]) == []
    assert (halving.whole, halving.unknown) == (None, 1)
