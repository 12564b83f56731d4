"""What is computed from a trace, on one that can be counted by hand."""

from array import array

import pytest

from sim.kinds.town import Path, TownTrace, TraceCall, critical_path, generate
from sim.kinds.town.routine import HOUR
from sim.llm.behaviour import ServerSpec

SERVER = ServerSpec(prefill_rate=100.0, decode_rate=10.0, decode_total=None)
ONE = TraceCall(100, 10)  # takes 2 s


def trace(*people: tuple[list[int], dict[int, int]], first_step: int = 0) -> TownTrace:
    """Return a trace of agents on a line: where each is at the start of each step, and how often it calls in which."""
    return TownTrace(
        width=100,
        height=1,
        first_step=first_step,
        steps=len(people[0][0]) - 1,
        agents=tuple(f"a{number}" for number in range(len(people))),
        positions=tuple(Path(array("H", x), array("H", [0] * len(x))) for x, _ in people),
        calls=tuple({step: (ONE,) * count for step, count in calls.items()} for _, calls in people),
    )


def test_counts_and_means():
    """Calls are counted by the hour of the day; means are over all calls."""
    made = trace(([5, 5, 5], {HOUR - 1: 2, HOUR: 1}), first_step=HOUR - 1)
    assert made.calls_by_hour() == {0: 2, 1: 1}
    assert made.token_means() == (100, 10)
    assert made.at(0, HOUR) == (5, 0)
    assert made.numbers == {"a0": 0}
    assert trace(([5, 5], {})).token_means() == (0, 0)


def test_dependencies_are_those_who_may_meet_within_a_step():
    """At most radius + speed apart counts, for both; everybody depends on itself."""
    assert trace(([0, 0], {}), ([5, 5], {}), ([11, 11], {})).dependencies() == pytest.approx(5 / 3)


def test_pairs_are_those_of_all_pairs():
    """The search by cells finds who is near, no more and no less than looking at all does."""
    made = generate(1, first_step=12 * HOUR, steps=60)
    for step in (12 * HOUR, 12 * HOUR + 59):
        spots = [made.at(agent, step) for agent in range(25)]
        near = {
            (one, other)
            for one, (x, y) in enumerate(spots)
            for other, (i, j) in enumerate(spots)
            if one < other and max(abs(x - i), abs(y - j)) <= 5
        }
        assert set(made.pairs(step, 5)) == near != set()


def test_the_critical_path_of_one_is_all_it_does():
    """An agent makes its calls one after the other."""
    assert critical_path(trace(([0] * 4, {0: 3, 2: 1})), SERVER) == pytest.approx(8)


def test_who_is_far_away_is_not_waited_for():
    """The calls of agents that never see each other overlap."""
    assert critical_path(trace(([0] * 4, {0: 3}), ([50] * 4, {2: 2})), SERVER) == pytest.approx(6)


def test_who_is_seen_is_waited_for():
    """A step waits for the step before of those who are in sight when it begins, but not for the same step."""
    assert critical_path(trace(([0] * 4, {0: 3}), ([4] * 4, {2: 2})), SERVER) == pytest.approx(10)
    assert critical_path(trace(([0] * 2, {0: 3}), ([4] * 2, {0: 2})), SERVER) == pytest.approx(6)


def test_waiting_is_passed_on():
    """Who waits for somebody who has waited waits for both."""
    made = trace(([0, 0, 0, 0], {0: 3}), ([4, 4, 4, 4], {1: 1}), ([8, 8, 8, 8], {2: 1}))
    assert critical_path(made, SERVER) == pytest.approx(10)


def test_a_ceiling_below_the_rate_of_one_call_counts():
    """A machine that writes slower altogether than one call could writes a call slower."""
    server = ServerSpec(prefill_rate=100.0, decode_rate=10.0, decode_total=5.0)
    assert critical_path(trace(([0] * 2, {0: 1})), server) == pytest.approx(3)
