"""The parts of attribution that are plain functions: targets, intervals, tests, halving."""

import ast
import json
import random
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

import sim
from sim.base.errors import UsageError
from sim.experiments.attribution.deciding import Cause, Hunt, verdict
from sim.experiments.attribution.halving import Halving
from sim.experiments.attribution.significance import holm, sign_test, wilson
from sim.experiments.attribution.target import Target
from sim.experiments.attribution.task import Assigned, Noted, short
from sim.scenario import Scenario
from tests.attribution.conftest import COIN
from tests.helpers import command

ROOT = Path(__file__).parents[2]


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


def hunt(
    effect: Callable[[frozenset[int]], float], runs: int = 400, count: int = 500
) -> tuple[Halving[int], list[tuple[int, ...]]]:
    """Return a search among so many numbers, and what it has found."""
    halving = Halving[int](lambda groups: [effect(frozenset(group)) for group in groups], runs)
    return halving, [one.items for one in halving.search(range(count))]


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
    assert (halving.whole, halving.unknown) == (None, 4)


def test_candidates_that_offset_each_other_are_found_apart():
    """If all together make no difference, and parts do, two that offset each other are found."""
    for pair in ((40, 333), (40, 140)):

        def effect(group: frozenset[int], own: tuple[int, int] = pair) -> float:
            return float(own[0] in group) - float(own[1] in group)

        halving, found = hunt(effect)
        assert (found, halving.whole) == ([(pair[0],), (pair[1],)], 0.0)
        assert halving.tried <= 1 + 30 + 4 * 9


def test_a_few_are_left_out_one_by_one():
    """A run without many can be quite another one, so of a few each is left out alone, whatever all together do."""
    for whole in (0.0, 1.0):

        def effect(group: frozenset[int], own: float = whole) -> float:
            return own if len(group) == 20 else float(group in ({7}, {9}))

        halving, found = hunt(effect, 60, 20)
        assert (found, halving.whole, halving.tried, halving.complete) == ([(7,), (9,)], whole, 21, True)


def test_what_could_offset_each_other_is_counted():
    """Nothing is found of two neighbours that offset each other: at most 31 groups are tried, and all 500 counted."""
    halving, found = hunt(lambda group: float(40 in group) - float(41 in group))
    assert (found, halving.whole, halving.complete, halving.silent, halving.tried) == ([], 0.0, False, 500, 31)
    alone = Halving[int](lambda groups: [0.0] * len(groups), 50)
    assert (alone.search([1]), alone.complete, alone.silent) == ([], True, 0)
    halving, found = hunt(lambda group: float(7 in group))
    assert (found, halving.silent) == ([(7,)], 499 - 1)


def test_parts_that_are_not_known_are_no_complete_search():
    """If the effects of the halves are not known, nothing is found, and the search is not complete."""
    halving = Halving[int](lambda groups: [1.0 if len(group) == 4 else None for group in groups], 50)
    assert halving.search(range(4)) == []
    assert (halving.whole, halving.unknown, halving.complete) == (1.0, 6, False)


def of_hunt(kind: str, whole: float | None, unknown: int = 0, *, complete: bool = True) -> Hunt:
    """Return what a search among ten candidates has found."""
    return Hunt(kind, 10, whole, 5, unknown, 0, complete, 0, 0)


def test_the_verdict_claims_no_more_than_was_tried():
    """It names what was left out together, and says whose effect is not known, and not that single ones have none."""
    offset = verdict([of_hunt("event", 0.0, complete=False), of_hunt("agent", 0.0, complete=False)], [])
    assert offset == (
        "Leaving out all messages and published events or all agents together makes no difference here; single ones"
        " that offset each other can have been missed."
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


def test_every_error_has_a_hint():
    """Each error that attribution raises says what to do."""
    modules = [*(ROOT / "sim" / "experiments" / "attribution").glob("*.py"), ROOT / "sim" / "runner" / "plain.py"]
    raised = [
        (file.name, node.lineno, [word.arg for word in node.exc.keywords])
        for file in sorted(modules)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
        if isinstance(node.exc.func, ast.Name) and node.exc.func.id in ("RunError", "UsageError")
    ]
    assert len(raised) > 20
    assert [one for one in raised if "hint" not in one[2]] == []


def test_a_line_of_a_passage_fits_into_a_pipe(coin):
    """What is told of a passage is at most 4,096 bytes a line, which is written as one, whatever texts it has."""
    worst = short("\x01" * 5000), short("\U0001f600" * 5000), short('"' * 5000), short("a" * 5000)
    assert {len(json.dumps(one)) for one in worst} <= set(range(750, 1001))
    longest = max(worst, key=lambda one: len(json.dumps(one)))
    number = 2**63
    lines = [
        {"piece": number, "event": attrs.astuple(Noted(number, number, longest, longest, longest))},
        {"piece": number, "set": attrs.astuple(Assigned(longest, longest, longest, longest))},
    ]
    assert [len(json.dumps(line).encode()) < 4096 for line in lines] == [True, True]


def test_answers_are_shared_by_a_seed_or_fresh(coin):
    """The help of `why` lists the two ways of answers that there are, and any other is refused with a hint."""
    code, out, _ = command("why", "--help")
    assert code == 0
    assert "--answers [seed|fresh]" in out
    with pytest.raises(UsageError, match="are shared by the futures of a seed, or are fresh, not 'all'") as caught:
        sim.turning_point(coin, "last('side') > 0", answers="all")  # type: ignore[arg-type]
    assert caught.value.hint is not None
