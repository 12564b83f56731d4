import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
from sim.experiments.bench.outcome_distance import distance, outcome_distance, relative
from sim.experiments.trial import outcomes_of

NUMBERS = st.floats(-1e9, 1e9)
OUTCOMES = st.dictionaries(st.sampled_from("abcdef"), NUMBERS)


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [(3, 3, 0), (0, 0, 0), (1, 2, 1 / 3), (10, 5, 1 / 3), (1, 3, 0.5), (0, 7, 1), (-2, 2, 1), (-1, -2, 1 / 3)],
)
def test_the_distance_of_two_numbers(one, other, apart):
    """|a - b| / (|a| + |b|): 0 for equal ones, 1/3 for twice as much, 1 for nothing against something."""
    assert distance(one, other) == pytest.approx(apart)


@given(NUMBERS, NUMBERS)
def test_a_distance_has_no_direction(one, other):
    """It lies between 0 and 1, whichever comes first."""
    assert distance(one, other) == distance(other, one)
    assert 0 <= distance(one, other) <= 1


@pytest.mark.slow
@given(OUTCOMES, OUTCOMES)
def test_the_drift_of_two_runs(one, other):
    """It is 0 for equal runs, lies between 0 and 1, and has no direction."""
    assert outcome_distance(one, one) == 0
    assert outcome_distance(one, other) == pytest.approx(outcome_distance(other, one))
    assert 0 <= outcome_distance(one, other) <= 1


def test_drift_is_the_mean_over_what_tells_something():
    """A count that only one run has is 0 in the other; an outcome without a value in one, or 0 in both, is left out."""
    assert outcome_distance({"a": 1, "b": 4, "zero": 0}, {"a": 2, "b": 4, "zero": 0}) == pytest.approx((1 / 3 + 0) / 2)
    assert outcome_distance({"a": 1}, {"a": 1, "done_b": 5}) == pytest.approx((0 + 1) / 2)
    assert outcome_distance({"a": 1, "b": None}, {"a": 1, "b": 5, "c": 3}) == 0
    assert outcome_distance({}, {}) == 0


def test_the_relative_difference():
    """By which share a value is greater than that of the base; nothing can be said against 0."""
    assert relative({"a": 4}, {"a": 5}, "a") == pytest.approx(0.25)
    assert relative({"a": -4}, {"a": -5}, "a") == pytest.approx(-0.25)
    assert relative({"a": 0}, {"a": 5}, "a") is None
    assert relative({"done_a": 4}, {}, "done_a") == -1
    assert relative({"a": 4}, {}, "a") is None
    assert relative({"a": None}, {"a": 4}, "a") is None


def test_outcomes_of_a_run(tmp_path):
    """The last value of metrics, the mean of observations, actions by kind, and states at the end."""
    file = tmp_path / "tiny.yaml"
    file.write_text(
        "name: tiny\nuntil: 10s\nagents: [{name: a, count: 2, loop: {min_loop_delay: 1s},"
        " rules: [{do: {publish: {topic: x}}, record: {now: '=now'}}]}]\n"
        "metrics: {every: 4s, values: {told: \"published('x')\"}}\n"
    )
    told, own = outcomes_of(sim.run(file))
    assert own == ("mean_now", "told")
    assert told["told"] == 20
    assert told["mean_now"] == 4.5
    assert told["done_publish"] == 20
    assert told["agents_running"] == 2
    assert told["agents_sleeping"] == 0
