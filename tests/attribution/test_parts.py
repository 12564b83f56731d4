"""The parts of attribution that are plain functions: targets, intervals, tests, halving."""

import random
from collections.abc import Callable

import pytest

from sim.base.errors import UsageError
from sim.experiments.attribution.deciding import Cause, Hunt, verdict
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
        ("last('side') > nan", "'nan' in .* is no finite number"),
        ("last('side') < 1e999", "'1e999' in .* is no finite number"),
        (3, "an outcome is a text, not 3"),
        (None, "an outcome is a text, not None"),
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


def test_candidates_that_offset_each_other_are_not_looked_for():
    """If all together make no difference, the search ends, and does not claim to have found everything."""
    halving, found = hunt(lambda group: float(40 in group) - float(333 in group))
    assert (found, halving.whole, halving.complete, halving.tried) == ([], 0.0, False, 1)
    alone = Halving[int](lambda groups: [0.0] * len(groups), 50)
    assert (alone.search([1]), alone.complete) == ([], True)


def test_parts_that_are_not_known_are_no_complete_search():
    """If the effects of the halves are not known, nothing is found, and the search is not complete."""
    halving = Halving[int](lambda groups: [1.0 if len(group) == 4 else None for group in groups], 50)
    assert halving.search(range(4)) == []
    assert (halving.whole, halving.unknown, halving.complete) == (1.0, 2, False)


def of_hunt(kind: str, whole: float | None, unknown: int = 0, *, complete: bool = True) -> Hunt:
    """Return what a search among ten candidates has found."""
    return Hunt(kind, 10, whole, 5, unknown, complete, 0, 0)


def test_the_verdict_claims_no_more_than_was_tried():
    """It names what was left out together, and says whose effect is not known, and not that single ones have none."""
    offset = verdict([of_hunt("event", 0.0, complete=False), of_hunt("agent", 0.0, complete=False)], [])
    assert offset == (
        "Leaving out all messages and published events or all agents together makes no difference here; single ones"
        " that offset each other were not looked for."
    )
    assert verdict([of_hunt("agent", 0.0)], []) == "Nothing that can be left out makes a difference here."
    assert verdict([of_hunt("agent", None, 1), of_hunt("event", 0.0)], []) == "It is not known what decided it."
    unknown = verdict([of_hunt("event", 1.0, 2, complete=False)], [])
    assert unknown.startswith("Among the messages and published events it is not known which decided it")
    assert "spread over several" in verdict([of_hunt("event", 1.0)], [])
    pair = Cause("event", ("a", "b"), 1.0, None, 1.0, significant=False)
    assert "it is not known whether fewer of them did" in verdict([of_hunt("event", 1.0, 2, complete=False)], [pair])
    mixed = verdict([of_hunt("event", 1.0), of_hunt("agent", None, 1)], [pair])
    assert "can stand in for each other" in mixed
    assert mixed.endswith("Among the agents, it is not known what decided it.")
