"""What was published of Generative Agents' town is what the generator makes, for seeds that it was not tuned with."""

from itertools import pairwise
from statistics import fmean, pstdev

import pytest

from sim.base.errors import UsageError
from sim.kinds.town import DAY_STEPS, TownTrace, generate
from sim.kinds.town.generation import CALLS_BY_HOUR
from sim.kinds.town.routine import HEIGHT, HOUR, WIDTH
from sim.llm.behaviour import ServerSpec

ALONE = ServerSpec(prefill_rate=6500.0, decode_rate=18.0)  # as in scenarios/town.yaml


@pytest.fixture(
    scope="module", params=[(1, 2), pytest.param((1, 2, 3, 4, 5), marks=pytest.mark.proof)], ids=["two", "five"]
)
def days(request: pytest.FixtureRequest) -> list[TownTrace]:
    """Make a day of 25 agents for each seed, of which the first is 1."""
    return [generate(seed) for seed in request.param]


# -- what was published


@pytest.mark.slow
def test_a_day_has_56_700_calls(days):
    """The sum is exact: hours have fixed shares of it."""
    assert sum(CALLS_BY_HOUR) == 56_700
    assert [sum(day.calls_by_hour().values()) for day in days] == [56_700] * len(days)


def test_the_busy_and_the_quiet_hour_are_those_published(days):
    """From 12 to 13 there are 5,000 calls, more than in any other hour; from 6 to 7 there are 800."""
    for day in days:
        hours = day.calls_by_hour()
        assert (hours[12], hours[6]) == (5000, 800)
        assert max(hours.values()) == hours[12]


def test_tokens_are_those_published_on_average(days):
    """Calls read 642.6 tokens and write 21.9 on average: within 1 % for each seed, and 0.5 % over all."""
    means = [day.token_means() for day in days]
    for got, wanted in zip(zip(*means, strict=True), (642.6, 21.9), strict=True):
        assert list(got) == pytest.approx([wanted] * len(days), rel=0.01)
        assert fmean(got) == pytest.approx(wanted, rel=0.005)


def test_agents_depend_on_as_many_as_published(days):
    """1.85 agents, itself included, are near an agent on average: within 10 % for each seed, and 5 % over all."""
    means = [day.dependencies(every=6) for day in days]
    assert means == pytest.approx([1.85] * len(days), rel=0.10)
    assert fmean(means) == pytest.approx(1.85, rel=0.05)


def test_a_barrier_keeps_as_few_calls_in_flight_as_published(days):
    """With a barrier after each step, and no queue, 1.94 calls are in flight on average: within 10 %."""
    assert [in_flight(day) for day in days] == pytest.approx([1.94] * len(days), rel=0.10)


def in_flight(trace: TownTrace) -> float:
    """Return how many calls are under way on average if all wait for the slowest in each step."""
    work, length = 0.0, [0.0] * DAY_STEPS
    for chains in trace.calls:
        for step, chain in chains.items():
            takes = sum(c.input_tokens / ALONE.prefill_rate + c.output_tokens / ALONE.decode_rate for c in chain)
            work += takes
            length[step] = max(length[step], takes)
    return work / sum(length)


# -- the shape


def test_most_steps_make_no_call_and_some_make_many(days):
    """Chains are rare and their lengths differ: what a barrier waits for is a heavy tail."""
    chains = [len(chain) for calls in days[0].calls for chain in calls.values()]
    assert len(chains) < 0.1 * len(days[0].agents) * DAY_STEPS
    assert max(chains) >= 5 * fmean(chains)
    assert pstdev(chains) > 0.8 * fmean(chains)


def test_people_sleep_at_night_and_work_apart(days):
    """Nobody moves at three; at three in the afternoon people are somewhere else than at night."""
    for path in days[0].positions:
        assert len({(path.x[step], path.y[step]) for step in range(2 * HOUR, 4 * HOUR)}) == 1
    moved = [p for p in days[0].positions if (p.x[3 * HOUR], p.y[3 * HOUR]) != (p.x[15 * HOUR], p.y[15 * HOUR])]
    assert len(moved) > 20


def test_nobody_walks_faster_than_one_cell_a_step(days):
    """Positions change by one cell a step at most, along x or along y: the top speed holds in every metric."""
    for path in days[0].positions:
        spots = list(zip(path.x, path.y, strict=True))
        assert max(abs(x - i) + abs(y - j) for (x, y), (i, j) in pairwise(spots)) == 1


@pytest.mark.proof
def test_everybody_stays_inside_and_apart_from_the_next_town(days):
    """People keep so far from the edges that those of towns side by side never see each other."""
    for day in days:
        for path in day.positions:
            assert min(path.x) >= 3
            assert max(path.x) < WIDTH - 3
            assert 0 <= min(path.y) <= max(path.y) < HEIGHT


# -- parts of it


def test_the_same_seed_makes_the_same_trace_and_another_one_another():
    """A trace is a function of its seed."""
    one, again, other = (generate(seed, first_step=12 * HOUR, steps=60) for seed in (7, 7, 8))
    assert one == again
    assert one.positions != other.positions
    assert one.calls != other.calls


@pytest.mark.parametrize(("first_step", "steps"), [(6 * HOUR, HOUR), (12 * HOUR + 100, 500), (DAY_STEPS - 7, 7)])
def test_a_window_is_that_window_of_the_day(days, first_step, steps):
    """What happens between two times does not depend on whether the rest of the day is made."""
    window, day = generate(1, first_step=first_step, steps=steps), days[0]
    for agent in range(25):
        part = slice(first_step, first_step + steps + 1)
        assert window.positions[agent].x == day.positions[agent].x[part]
        assert window.positions[agent].y == day.positions[agent].y[part]
        wanted = {step: c for step, c in day.calls[agent].items() if first_step <= step < first_step + steps}
        assert window.calls[agent] == wanted


def test_the_first_town_of_many_is_the_town_alone():
    """Larger crowds are towns side by side: what is added changes nothing for those who were there."""
    alone, many = (generate(3, agents, first_step=12 * HOUR, steps=100) for agents in (25, 60))
    assert (many.width, many.height, len(many.agents)) == (300, 140, 60)
    assert many.agents[:25] == alone.agents
    assert many.positions[:25] == alone.positions
    assert many.calls[:25] == alone.calls
    for agent, path in enumerate(many.positions):
        assert {x // WIDTH for x in path.x} == {agent // 25}


def test_towns_of_one_crowd_differ():
    """Every town has its own seed."""
    many = generate(3, 50, first_step=12 * HOUR, steps=100)
    assert many.calls[:25] != many.calls[25:]


def test_what_cannot_be_made_is_refused():
    """Too few or too many agents and windows beyond the day are named."""
    for agents in (0, 10_001):
        with pytest.raises(UsageError, match="1 to 10000 agents"):
            generate(1, agents)
    for first_step, steps in ((-1, 10), (0, 0), (1, DAY_STEPS)):
        with pytest.raises(UsageError, match="within the 8640 steps of a day"):
            generate(1, first_step=first_step, steps=steps)
