"""The parts of attribution that are plain functions: targets, intervals, tests, halving."""

import ast
import json
import random
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim
from sim.base.errors import UsageError
from sim.experiments.attribution.candidates import Candidate, EventCandidates
from sim.experiments.attribution.curve import Jump, TurningSearch
from sim.experiments.attribution.deciding import WhyOptions, _Why
from sim.experiments.attribution.explanation import Cause, Hunt, verdict
from sim.experiments.attribution.halving import Decisive, Halving
from sim.experiments.attribution.significance import holm, sign_test, wilson
from sim.experiments.attribution.target import ExplainedOutcome
from sim.experiments.attribution.task import LATE, SAME, Assigned, EventBetween, Future, FuturesTask, Passage, short
from sim.experiments.attribution.turning import jump_text
from sim.experiments.estimate import Estimate
from sim.experiments.pool import NEVER, Deadline
from sim.runner.plain import StepMoment
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
    target = ExplainedOutcome.parse(text, scenario)
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
        ExplainedOutcome.parse(text, scenario, condition=True)


def test_intervals_of_shares_are_those_of_wilson():
    """The intervals are those of the textbook (Brown, Cai and DasGupta 2001), and lie within 0 and 1."""
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)
    assert all((wilson(0, n)[0], wilson(n, n)[1]) == (0.0, 1.0) for n in range(1, 200))  # exactly, as they are shown


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


def test_one_of_500_is_found_in_20_runs():
    """A single candidate with an effect is found by halving: two runs for each of nine divisions, one for all, and one
    for all others. As some of these could offset each other, it is not known that all were found."""
    for chosen in (0, 123, 499):

        def effect(group: frozenset[int], own: int = chosen) -> float:
            return float(own in group)

        halving, found = hunt(effect)
        assert found == [(chosen,)]
        assert halving.tried <= 20
        assert (halving.complete, halving.silent in (498, 499)) == (False, True)


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


@pytest.mark.parametrize(("runs", "count"), [(400, 500), (400, 20), (60, 20), (60, 50)])
def test_a_redundant_pair_is_found_beside_a_single_one(runs, count):
    """What stands in for each other is found beside one that is needed, whether that has the largest effect or not."""
    for weight in (1.0, 0.2, 5.0):

        def effect(group: frozenset[int], own: float = weight) -> float:
            return own * (3 in group) + float({1, 13} <= group)

        halving, found = hunt(effect, runs, count)
        assert sorted(found) == [(1, 13), (3,)]
        assert halving.complete is (count == 20)  # of more, some could offset each other
        assert halving.tried <= runs


def test_no_group_is_left_out_twice():
    """Whatever is looked for, no group of candidates is left out again, in another order neither."""
    for pair in ({3, 13}, {0, 1}, {18, 19}):
        tried = list[frozenset[int]]()

        def effects(groups, own=pair, tried=tried):
            tried += map(frozenset, groups)
            return [float(0 in group) + float(own <= set(group)) for group in groups]

        for count in (20, 300):
            Halving[int](effects, 200).search(range(count))
            assert len(tried) == len(set(tried))
            tried.clear()


def test_candidates_need_no_hash():
    """Candidates are told apart by their places, so that one can have a value without a hash, such as a list."""
    lists = [[number] for number in range(8)]
    halving = Halving[list[int]](lambda groups: [float([5] in group) for group in groups], 50)
    assert [one.items for one in halving.search(lists)] == [([5],)]


def test_the_effect_of_a_smallest_set_is_its_own():
    """What is found together has the effect of leaving that out, and not of the group in which it was found."""
    halving = Halving[int](lambda groups: [2.0 * ({0, 3} <= set(one)) + (len(one) == 4) for one in groups], 50)
    assert [(one.items, one.effect) for one in halving.search(range(4))] == [((0, 3), 2.0)]


def test_what_was_not_divided_is_counted():
    """If the runs do not suffice, the largest effect of a group that was not divided is known."""
    halving, found = hunt(lambda group: float(3 in group), 8)
    assert (found, halving.undivided, halving.complete) == ([], 1.0, False)
    halving, found = hunt(lambda group: float(len(group)), 400, 20)
    assert (len(found), halving.complete) == (5, False)


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
        assert (found, halving.whole, halving.tried, halving.complete) == ([(7,), (9,)], whole, 22, True)


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


@attrs.frozen
class Effects:
    """The effects of leaving out groups of numbers: sums of those of single ones, and of sets that are all left out.

    Attributes:
        weights: the effect of each number.
        together: the effects of sets, beside those of their members.
        failing: numbers that are not all left out in a run whose effect is known, by the least of them.
    """

    weights: list[int]
    together: list[tuple[frozenset[int], int]]
    failing: list[frozenset[int]]

    def of(self, group: Iterable[int]) -> float | None:
        """Return the effect of a group; None: it is not known."""
        own = set(group)
        if any(one <= own for one in self.failing):
            return None
        return float(sum(self.weights[one] for one in own) + sum(more for every, more in self.together if every <= own))


@st.composite
def effects(draw: st.DrawFn) -> Effects:
    """Draw a table of effects, of which most are 0."""
    count = draw(st.integers(1, 40))
    places, small = st.integers(0, count - 1), st.integers(-3, 3)
    weights = [0] * count
    for place, weight in draw(st.dictionaries(places, small, max_size=6)).items():
        weights[place] = weight
    together = draw(st.lists(st.tuples(st.frozensets(places, min_size=1, max_size=4), small), max_size=3))
    return Effects(weights, together, draw(st.lists(st.frozensets(places, min_size=1, max_size=3), max_size=2)))


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(effects(), st.integers(1, 150), st.integers(1, 6), st.integers(0, 150))
def test_what_a_search_says_agrees_with_any_table_of_effects(table, runs, most, in_time):
    """Whatever the effects are: what is found has the effect that is named, and what is said to be known is so.

    A search that is complete has found all that make a difference alone, and all others together make none. One that
    ran out of time says so, and tries no more; if all others together were not left out, it is not complete.
    """
    tried = dict[tuple[int, ...], float | None]()

    def effect(groups: list[tuple[int, ...]]) -> list[float | None]:
        assert not halving.cut
        known = [table.of(group) for group in groups[: in_time - len(tried)]]
        tried.update(zip(groups, known, strict=False))
        return known

    every = range(len(table.weights))
    halving = Halving[int](effect, runs, most)
    found = halving.search(every)
    assert (halving.whole, halving.tried) == (table.of(every) if tried else None, len(tried))
    assert halving.tried <= min(runs, in_time)
    rest = tuple(one for one in every if not any(one in own.items for own in found))
    assert not halving.unchecked or (found and not halving.complete and frozenset(rest) not in halving._effect_of)
    assert not halving.cut or not halving.complete
    assert halving.unknown == list(tried.values()).count(None)
    assert len({one.items for one in found}) == len(found) <= most
    for one in found:
        assert one.effect is not None
        assert one.effect == table.of(one.items) != 0
        alone = [table.of((item,)) for item in one.items]
        assert not one.redundant or alone == [0.0] * len(alone)
        for item in one.items if len(one.items) > 1 and one.minimal else ():
            less = table.of(sorted({*one.items} - {item}))
            assert less is not None
            assert less * one.effect <= 0 or abs(less) < abs(one.effect)
    named = {item for one in found for item in one.items}
    if halving.undivided:
        assert halving.undivided in {abs(own or 0.0) for own in tried.values()}
    silent = [one for one in every if (one,) not in tried and one not in named]
    assert halving.silent <= len(silent)
    if halving.complete:
        assert all(one.minimal for one in found)
        assert (halving.unknown, halving.silent, halving.undivided, silent) == (0, 0, 0.0, [])
        assert {one for one in every if table.of((one,))} <= named
        assert table.of([one for one in every if one not in named]) == 0


def test_what_is_known_alone_is_found_when_runs_end():
    """A candidate that was left out alone and makes a difference is found, also if a larger group was not divided."""
    weights = {0: 5, 20: 30, 21: 30, 22: 30, 23: 30, 24: 30}
    for runs in range(12, 40):
        halving, found = hunt(lambda group: float(sum(weights.get(one, 0) for one in group)), runs, 60)
        alone = {one for one, known in halving._effect_of.items() if len(one) == 1 and known}
        assert len(found) == min(len(alone), halving.most)


@pytest.mark.slow
def test_a_set_that_was_not_reduced_is_not_minimal():
    """If the runs do not suffice to find a smallest set, it is said of what is found, and the search is incomplete."""
    seen = set()
    for runs in range(3, 120):
        halving = Halving[int](lambda groups: [float({3, 170, 340} <= set(one)) for one in groups], runs)
        (one,) = halving.search(range(400))
        assert one.items == (3, 170, 340) or not (one.minimal or halving.complete)
        seen.add(one.minimal)
    assert seen == {True, False}


def test_halves_are_tried_where_all_together_fail():
    """If the run without all of them fails, halves of them are left out, and one of weight is found in these."""
    halving = Halving[int](lambda groups: [None if len(one) > 100 else float(77 in one) for one in groups], 60)
    found = halving.search(range(400))
    assert [(one.items, one.effect) for one in found] == [((77,), 1.0)]
    assert (halving.whole, halving.complete) == (None, False)


def test_a_half_that_fails_is_divided_where_the_other_does_not_explain_the_effect():
    """If a group makes a difference, one half makes none and that of the other is not known, this is divided first."""

    def effect(group: tuple[int, ...]) -> float | None:
        return None if 8 <= len(group) < 300 and 3 in group else float(3 in group)

    halving = Halving[int](lambda groups: [effect(group) for group in groups], 60)
    assert [one.items for one in halving.search(range(400))] == [(3,)]
    assert (halving.unknown > 0, halving.complete) == (True, False)


def test_a_search_with_enough_findings_tries_the_others_together():
    """Also if there are as many findings as are wanted, it is known whether all others make a difference."""
    halving = Halving[int](lambda groups: [float(3 in one) + float({7, 9} <= set(one)) for one in groups], 60, most=1)
    assert [one.items for one in halving.search(range(20))] == [(3,)]
    assert (halving.complete, halving.undivided) == (False, 1.0)
    halving = Halving[int](lambda groups: [float(3 in one) for one in groups], 60, most=1)
    assert [one.items for one in halving.search(range(20))] == [(3,)]
    assert halving.complete


def of_hunt(
    kind: str, whole: float | None, unknown: int = 0, *, complete: bool = True, found: int = 0, undivided: float = 0.0
) -> Hunt:
    """Return what a search among ten candidates has found."""
    return Hunt(kind, 10, whole, 5, unknown, 0, undivided, complete, found, 0)


def cause(here: float, *names: str, minimal: bool = True, redundant: bool = True) -> Cause:
    """Return an event without which the outcome differs, or several that can stand in for each other."""
    return Cause("event", names, here, Estimate(4, here, None), 1.0, False, minimal, redundant)


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
    for undivided in (0.1, 1.0):
        said = verdict([of_hunt("event", 1.0, complete=False, undivided=undivided)], [])
        assert said.endswith("it is not known which decided it; others with an effect were not divided.")
    pair = cause(1.0, "a", "b")
    mixed = verdict([of_hunt("event", 1.0), of_hunt("agent", None, 1)], [pair])
    assert "can stand in for each other" in mixed
    assert mixed.endswith("Among the agents, it is not known what decided it; the effect of 1 group is not known.")


def test_the_verdict_names_what_is_open():
    """If groups with an effect were not divided, or effects are not known, each sentence ends with that."""
    whole = cause(1.0, "a")
    ends = [
        verdict([of_hunt("event", effect, 2, complete=False, undivided=1.0, found=1)], own)
        for effect in (1.0, 0.0, None)
        for own in ([], [whole], [whole, cause(1.0, "b")], [cause(1.0, "b", "c")], [whole, cause(1.0, "b", "c")])
    ]
    end = "; others with an effect were not divided; the effect of 2 groups is not known."
    assert [one for one in ends if not one.endswith(end)] == []
    assert [one for one in ends if "spread over several" in one] == []


def test_one_that_decided_it_is_named_with_what_was_left_to_try():
    """That one decided it is said with a note, if no future or no time was left to leave out all others together."""
    halving = Halving[int](lambda groups: [float(3 in one) for one in groups], 19)
    assert [one.items for one in halving.search(range(500))] == [(3,)]
    assert (halving.unchecked, halving.complete) == (True, False)
    for cut, why in ((False, "no future was left"), (True, "there was no time")):
        one = attrs.evolve(of_hunt("event", 1.0, found=1), unchecked=True, cut=cut)
        assert verdict([one], [cause(1.0, "a")]).endswith(
            f" decided it (with new draws this is not significant); {why} to leave out all others together, so that"
            " others may have an effect as well."
        )


def test_events_of_a_jump_over_several_instants_are_no_candidates():
    """Of a jump that was not divided into single steps, no event is left out: any of thousands can have a part."""
    moment = TurningSearch(Planned({0: 1.0}), (0,), 1, 100, StepMoment(0)).point(StepMoment(0), [Future(1.0)])
    wide = Jump(moment, moment, None, 1.0, False, (EventBetween(1, 0, "a", "news", ""),), ())
    why = _Why(SimpleNamespace(stored=None), WhyOptions(), EventCandidates(("news",), 1, 0))  # type: ignore[arg-type]
    assert why._listed([], [wide]) == []


def test_a_group_is_claimed_to_be_no_smaller_than_was_tried():
    """Of a group that was not reduced, it is not said that its members can stand in for each other, and not that
    leaving out one changes nothing unless each was left out alone."""
    hunts = [of_hunt("event", 1.0, complete=False)]
    large = cause(1.0, "a", "b", "c", minimal=False, redundant=False)
    assert verdict(hunts, [large]) == (
        "Among the messages and published events, a; b; c decided it together; it is not known whether fewer of them"
        " did."
    )
    beside = verdict(hunts, [cause(1.0, "d"), large])
    assert beside.endswith("and so are a; b; c together; it is not known whether fewer of them are.")
    some = verdict(hunts, [cause(1.0, "a", "b", redundant=False)])
    assert some.endswith("a; b can stand in for each other; leaving out all changes it.")


@pytest.mark.parametrize("kind", ["event", "state", "agent", "intervention"])
def test_the_sentences_of_a_search_are_english(kind):
    """One candidate of a kind is `the one`, several are `all`, and each figure that is not known is said beside the
    others."""
    hunt = attrs.evolve(of_hunt(kind, 1.0, 2, undivided=1.0), silent=3)
    assert re.fullmatch(
        r"Without all 10 ([a-z ]+), it is 4; 5 groups were left out;"
        r" others with an effect are not divided further; the effect of 2 of them is not known;"
        r" 3 \1 were left out only in groups that make no difference, in which some could offset each other\.",
        hunt.sentence(5.0),
    )
    single = attrs.evolve(of_hunt(kind, None, 1), count=1, tried=1)
    assert re.fullmatch(
        r"Without the one (message or published event|initial value in which an agent differs|agent|intervention), the"
        r" outcome is not known; 1 group was left out; the effect of 1 of them is not known\.",
        single.sentence(5.0),
    )


def test_what_is_not_known_is_no_number_in_the_table():
    """An effect that is not known, or was not tested with new draws, is named so, and is no 0."""
    assert Cause("event", ("a",), None, None, 1.0, significant=False).row() == (
        "a",
        "unknown",
        "unknown",
        "",
        "unknown",
    )
    untested = Cause("event", ("a",), 2.0, None, None, significant=False)
    assert untested.row() == ("a", "+2", "not tested", "", "not tested")
    assert "a decided it (not tested with new draws)" in verdict([of_hunt("event", 2.0)], [untested])


@pytest.mark.parametrize(
    ("whole", "causes", "said"),
    [
        (None, [cause(1, "a")], ("Among the {}, leaving out a (+1) makes a difference; without all of them it is not"
         " known.")),
        (0.0, [cause(1, "a")], ("Leaving out all {} together makes no difference, but leaving out only this does: a"
         " (+1).")),
        (0.0, [cause(1, "a"), cause(1, "b")], ("Leaving out all {} together makes no difference, but leaving out one of"
         " these does: a (+1) and b (+1).")),
        (0.0, [cause(5, "a"), cause(-5, "b")], ("Leaving out all {} together makes no difference, as they offset each"
         " other: a (+5) and b (-5).")),
        (0.0, [], "Leaving out all {} together makes no difference, but leaving out a part of them does."),
        (1.0, [cause(1, "a"), cause(1, "b", "c")], ("Among the {}, a is needed for it (with new draws this is not"
         " significant), and so is one of b; c, which can stand in for each other.")),
        (1.0, [cause(1, "a"), cause(1, "b")], ("Among the {}, each of 2 or more is needed for it, such as a (with new"
         " draws this is not significant).")),
        (4.0, [cause(3, "b", "c"), cause(1, "a")], ("Among the {} there is no single decider: b; c can stand in for"
         " each other; leaving out one changes nothing, leaving out all does.")),
    ],
)  # fmt: skip
def test_the_verdict_says_what_was_found_whatever_all_together_do(whole, causes, said):
    """If all together make no difference, or theirs is not known, it does not say that all offset each other."""
    found = verdict([of_hunt("event", whole, found=max(1, len(causes)))], causes)
    assert found == said.format("messages and published events")


class Planned:
    """Futures whose outcomes are given by their moments; None is one that fails."""

    within, way, carried_out, own, seconds = False, "planned", 0, Future(1.0), 0.0
    patterns: tuple[str, ...] = ()

    def __init__(
        self, outcomes: dict[int, float | None], *, fresh: float | None = 1.0, deadline: Deadline = NEVER
    ) -> None:
        self.outcomes, self.fresh, self.asked, self.deadline = outcomes, fresh, list[StepMoment](), deadline

    def values(self, tasks: list[FuturesTask]) -> list[list[Future]]:
        """Return the outcomes of the futures of each task."""
        found = []
        for task in tasks:
            value = self.fresh if task.moment in self.asked else self.outcomes[task.moment.time_ns]
            self.asked.append(task.moment)
            found.append([Future(value, None if value is not None else "it failed")] * len(task.seeds))
            self.carried_out += len(task.seeds)
        return found

    def steps(self, time_ns: int) -> int:
        """Return how many steps an instant has."""
        return 1

    def between(self, first: StepMoment, last: StepMoment) -> Passage:
        """Return what happened between two moments."""
        return Passage((), ())

    def close(self) -> None:
        """Do nothing."""


def test_a_moment_whose_futures_fail_is_no_moment_of_p_0():
    """If all futures of a moment fail, P is unknown there: it is neither below a level, nor 0 beside a jump.

    All that failed is counted, also of the futures with fresh seeds.
    """
    futures = Planned({0: 0.0, 1: 0.0, 2: None, 3: 1.0}, fresh=None)
    search = TurningSearch(futures, (0, 1, 2, 3), 1, 100, StepMoment(0))
    search.explore()
    assert [(one.last_below, one.first_above) for one in search.passed()] == [(StepMoment(1), StepMoment(3))] * 2
    futures.asked = [StepMoment(0), StepMoment(1)]
    search = TurningSearch(futures, (0, 1), 1, 100, StepMoment(0))
    search.futures_at = {StepMoment(0): [Future(0.0)] * 3, StepMoment(1): [Future(1.0)] * 3}
    (jump,) = search.jumps()
    assert (jump.change, jump.before.p, jump.before.unknown) == (0.0, None, len(search.fresh[StepMoment(0)]))
    said = jump_text(jump)
    assert "P may change; of the fresh futures none is known, so this was not tested" in said
    assert "from 0" not in said


def test_the_largest_effects_are_tested_and_no_finding_is_lost():
    """The short list has the largest effects first, whatever their kinds are. If the budget does not suffice for all,
    the last ones are listed as not tested, so that the verdict knows of them."""
    found = [
        Decisive((Candidate("event", "small", SAME, StepMoment(0)),), 1.0),
        Decisive((Candidate("event", "unknown", SAME, StepMoment(0)),), None),
        Decisive((Candidate("agent", "large", SAME, StepMoment(0)),), -5.0),
    ]
    futures = Planned({0: 1.0})
    why = _Why(SimpleNamespace(futures=futures), WhyOptions(), EventCandidates((), 0, 0))  # type: ignore[arg-type]
    listed = why._listed(found, [])
    assert [one.effect for one in listed] == [-5.0, 1.0, None]
    causes = why._tested(TurningSearch(futures, (0,), 1, 100, StepMoment(0)), listed, 4)
    assert [(one.names, one.here, one.p_value) for one in causes] == [
        (("large",), -5.0, 1.0), (("small",), 1.0, None), (("unknown",), None, None),
    ]  # fmt: skip
    assert "small decided it (not tested with new draws)" in verdict([of_hunt("event", 1.0, found=1)], causes)


def test_without_one_pair_no_cause_is_tested():
    """If time ends before the first pair with new draws, all on the short list are listed as not tested."""
    found = [Decisive((Candidate("event", "first", SAME, StepMoment(0)),), 1.0)]
    late = SimpleNamespace(deadline=NEVER, values=lambda tasks: [[LATE] * len(task.seeds) for task in tasks])
    why = _Why(SimpleNamespace(futures=late), WhyOptions(), EventCandidates((), 0, 0))  # type: ignore[arg-type]
    (one,) = why._tested(TurningSearch(Planned({0: 1.0}), (0,), 1, 100, StepMoment(0)), found, 4)
    assert (one.names, one.effect, one.p_value) == (("first",), None, None)
    assert holm([]) == []


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
        {"piece": number, "event": attrs.astuple(EventBetween(number, number, longest, longest, longest))},
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


@pytest.mark.parametrize("deciders", [{499}, {7, 30}, set(range(8))])
def test_a_search_that_time_ended_never_says_that_it_knows_the_decider(deciders):
    """Wherever time ends, the verdict says that others may count: it names no decider without that reservation."""
    for allowed in range(1, 25):
        left = iter(range(allowed))

        def effects(groups: list[tuple[int, ...]], left: Iterable[int] = left) -> list[float | None]:
            return [float(len(deciders & set(group))) for group, _ in zip(groups, left, strict=False)]

        halving = Halving[int](effects, 200)
        found = halving.search(range(500))
        singles = sum(len(one.items) == 1 for one in found)
        searched = Hunt(
            "event", 500, halving.whole, halving.tried, halving.unknown, halving.silent, halving.undivided,
            halving.complete, singles, len(found) - singles, halving.cut, halving.unchecked,
        )  # fmt: skip
        causes = [
            Cause("event", tuple(map(str, one.items)), one.effect, None, None, False, one.minimal, one.redundant)
            for one in found
        ]
        said = verdict([searched], causes)
        if halving.cut:
            assert "no single decider" not in said
            assert "there was no time" in said


def test_one_event_without_listeners_has_one_topic():
    """What was not left out is said in the singular for one event."""
    (one,), (two,) = (EventCandidates((), 0, unheard).sentences() for unheard in (1, 2))
    assert ("its topic in" in one, "their topics in" in two) == (True, True)
