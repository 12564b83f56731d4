import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sim.base.errors import LimitError, UsageError
from sim.kernel import COMPILED, NS, Kernel, first_of_ns
from sim.kernel.waits import Signal, sleep_ns
from sim.resources import Limit, Rate, RateStatistics, RateTracker, RateUse


@pytest.fixture
def kernel():
    """Return a kernel."""
    return Kernel()


@pytest.fixture
def tracker(kernel):
    """Return a tracker without limits."""
    return RateTracker(kernel)


def limited(tracker, **limits):
    """Set limits by resource."""
    for name, limit in limits.items():
        tracker.set_limit(name, limit)


def test_without_a_limit_everything_is_allowed(tracker):
    """Nothing limited: nothing blocks, and infinitely much remains."""
    assert tracker.blocked("a") is None
    assert tracker.get_remaining("a", "x") == math.inf
    assert tracker.time_until_capacity("a", "x", 10**9) == 0
    assert tracker.consume("a", "x", 10**9)


def test_a_refused_amount_takes_nothing_from_any_scope(tracker):
    """All scopes or none: what the total refuses is not taken from the agent either."""
    limited(tracker, x=Limit(agent=Rate(5, NS), total=Rate(6, NS)))
    assert tracker.consume("a", "x", 4)
    assert not tracker.consume("b", "x", 3)
    assert tracker.get_usage("b", "x") == 0
    assert tracker.consume("b", "x", 2)


def test_what_blocks_is_named(tracker):
    """`blocked_by` names the resource that is short for a price, `blocked` the one of which there is not even one."""
    limited(tracker, x=Limit(agent=Rate(5, NS)), y=Limit(agent=Rate(1, NS)))
    assert tracker.blocked_by("a", {"x": 1, "y": 2}) == "y"
    assert tracker.blocked_by("a", {"x": 1, "y": 1}) is None
    assert tracker.consume("a", "y")
    assert tracker.blocked("a") == "y"


def test_a_group_shares_its_rate(tracker):
    """Agents of one group share the group's rate; an agent of another has its own."""
    limited(tracker, x=Limit(group=Rate(1, NS)))
    for agent, group in ("a", "g"), ("b", "g"), ("c", "h"):
        tracker.set_group(agent, group)
    assert tracker.consume("a", "x")
    assert tracker.blocked("b") == "x"
    assert tracker.blocked("c") is None


def test_an_agent_can_have_its_own_rate(tracker):
    """An agent's own rate replaces the one for each agent, until it is taken away."""
    limited(tracker, x=Limit(agent=Rate(1, NS)))
    tracker.set_agent_limit("a", "x", Rate(3, NS))
    assert tracker.get_remaining("a", "x") == 3
    assert tracker.get_remaining("b", "x") == 1
    tracker.set_agent_limit("a", "x", None)
    assert tracker.get_remaining("a", "x") == 1


def test_a_reservation_is_ended_once(tracker):
    """A reservation is settled or released once; more than reserved is recorded as overspent and counts."""
    limited(tracker, x=Limit(agent=Rate(10, NS)))
    reservation = tracker.reserve("a", "x", 4)
    tracker.settle(reservation, 12)
    assert tracker.get_remaining("a", "x") == -2
    assert tracker.statistics()["x"].overspent == 8
    for end in (tracker.release, lambda it: tracker.settle(it, 1)):
        with pytest.raises(UsageError):
            end(reservation)
    with pytest.raises(LimitError):
        tracker.reserve("a", "x", 1)


@pytest.mark.parametrize("amount", [-1, 1.5, True, math.nan, "1"])
def test_an_amount_is_a_whole_number_from_0(tracker, amount):
    """Amounts that are negative or not whole are refused everywhere, and nothing is taken."""
    limited(tracker, x=Limit(agent=Rate(1, NS)))
    for call in (tracker.consume, tracker.has_capacity, tracker.reserve, tracker.time_until_capacity):
        with pytest.raises(UsageError):
            call("a", "x", amount)
    with pytest.raises(UsageError):
        Rate(amount, NS)
    assert tracker.get_usage("a", "x") == 0


def waiter(tracker, agent, costs, log, take=False, at=0):
    """Return a coroutine that waits and logs (agent, time); it consumes in the step in which it wakes."""

    async def run():
        if at:
            await sleep_ns(at)
        got = await tracker.wait_for_capacity(agent, costs, take=take)
        assert (got is not None) == take
        if not take:
            assert all(tracker.consume(agent, name, amount) for name, amount in costs.items())
        log.append((agent, tracker._kernel.now))

    return run()


@pytest.mark.parametrize("take", [False, True])
def test_who_waits_wakes_exactly_when_capacity_returns(kernel, tracker, take):
    """One rate of 2 in 10 ns, five agents: each is served at the nanosecond at which a unit is free, in order."""
    limited(tracker, x=Limit(total=Rate(2, 10)))
    log = list[Any]()
    for i in range(5):
        kernel.spawn(f"a{i}", waiter(tracker, f"a{i}", {"x": 1}, log, take, at=i))
    kernel.run()
    assert log == [("a0", 0), ("a1", 1), ("a2", 10), ("a3", 11), ("a4", 20)]
    assert tracker.statistics()["x"] == RateStatistics(granted=5, waited=3)


def test_nobody_comes_between_hand_over_and_step(kernel, tracker):
    """Someone who acts at the instant at which capacity returns cannot take what was handed over."""
    limited(tracker, x=Limit(total=Rate(1, 10)))
    log = list[Any]()

    async def thief():
        assert tracker.consume("t", "x")
        for _ in range(3):
            await sleep_ns(10)
            log.append(tracker.consume("t", "x"))
            for _ in range(5):
                await sleep_ns(0)
                log.append(tracker.consume("t", "x"))

    kernel.spawn("t", thief())
    for i in range(3):
        kernel.spawn(f"a{i}", waiter(tracker, f"a{i}", {"x": 1}, log))
    kernel.run()
    assert [item for item in log if item is not False] == [("a0", 10), ("a1", 20), ("a2", 30)]


def test_what_a_waiter_leaves_goes_to_the_next(kernel, tracker):
    """A waiter that wakes and consumes nothing holds up nobody: the next one wakes at the same instant."""
    limited(tracker, x=Limit(total=Rate(1, 10)))
    log = list[Any]()

    async def idler():
        await tracker.wait_for_capacity("i", {"x": 1})
        log.append(("i", kernel.now))

    async def main():
        tracker.consume("m", "x")
        kernel.spawn("i", idler())
        kernel.spawn("a", waiter(tracker, "a", {"x": 1}, log))
        kernel.spawn("b", waiter(tracker, "b", {"x": 1}, log))

    kernel.spawn("m", main())
    kernel.run()
    assert log == [("i", 10), ("a", 10), ("b", 20)]


def test_only_those_may_overtake_who_need_nothing_that_is_waited_for(kernel, tracker):
    """A later waiter overtakes one blocked on its own rate, not one blocked on the rate that both need."""
    limited(tracker, own=Limit(agent=Rate(1, 100)), shared=Limit(total=Rate(4, 10)))
    log = list[Any]()

    async def main():
        tracker.consume("a", "own")
        tracker.consume("m", "shared", 2)
        for name, costs in (
            ("a", {"own": 1, "shared": 1}),  # blocked on its own rate only, until 100
            ("b", {"shared": 4}),  # blocked on the shared rate
            ("c", {"shared": 1}),  # would fit, but is behind b
            ("d", {"own": 1}),  # needs nothing that is waited for
        ):
            kernel.spawn(name, waiter(tracker, name, costs, log))

    kernel.spawn("main", main())
    kernel.run()
    assert log == [("d", 0), ("b", 10), ("c", 20), ("a", 100)]


def test_what_never_fits_is_refused_at_once(kernel, tracker):
    """A wait for more than a window holds raises instead of lasting for ever."""
    limited(tracker, x=Limit(agent=Rate(2, NS)))
    assert tracker.time_until_capacity("a", "x", 3) is None
    kernel.spawn("a", waiter(tracker, "a", {"x": 3}, []))
    with pytest.raises(LimitError, match="a: x 3 is over the limit of 2"):
        kernel.run()


def test_limits_may_change_while_agents_wait(kernel, tracker):
    """A higher limit lets waiters through at once; one that makes a need impossible raises in it."""
    limited(tracker, x=Limit(total=Rate(2, NS)), y=Limit(total=Rate(2, NS)))
    log, ends = list[Any](), list[Any]()

    async def main():
        tracker.consume("m", "x", 2)
        tracker.consume("m", "y", 2)
        kernel.spawn("a", waiter(tracker, "a", {"x": 2}, log))
        kernel.spawn("b", waiter(tracker, "b", {"y": 2}, log), on_exit=lambda _, exit: ends.append(exit))
        kernel.spawn("c", waiter(tracker, "c", {"y": 1}, log))
        await sleep_ns(5)
        tracker.set_limit("x", Limit(total=Rate(4, NS)))
        await sleep_ns(5)
        tracker.set_limit("y", Limit(total=Rate(1, 50)))

    kernel.spawn("main", main())
    kernel.run()
    assert log == [("a", 5), ("c", 50)]
    assert isinstance(ends[0].error, LimitError)


def test_taking_a_limit_away_frees_everybody(kernel, tracker):
    """Who waits for a resource that is no longer limited goes on at once."""
    limited(tracker, x=Limit(total=Rate(1, NS)))
    log = list[Any]()

    async def main():
        tracker.consume("m", "x")
        kernel.spawn("a", waiter(tracker, "a", {"x": 1}, log))
        kernel.spawn("b", waiter(tracker, "b", {"x": 1}, log, take=True))
        await sleep_ns(5)
        tracker.set_limit("x", Limit())

    kernel.spawn("main", main())
    kernel.run()
    assert log == [("a", 5), ("b", 5)]


@pytest.mark.parametrize("take", [False, True])
@pytest.mark.parametrize("when", [5, 10])
def test_a_cancelled_wait_takes_nothing(kernel, tracker, take, when):
    """Cancelled before or right after hand-over, the unit goes to the next, at the same nanosecond."""
    limited(tracker, x=Limit(total=Rate(1, 10)))
    log, actors = list[Any](), list[Any]()

    async def main():
        tracker.consume("m", "x")
        actors.append(kernel.spawn("a", waiter(tracker, "a", {"x": 1}, log, take)))
        kernel.spawn("b", waiter(tracker, "b", {"x": 1}, log, take))
        await sleep_ns(when)  # at 10 this runs between hand-over and step
        kernel.cancel(actors[0])

    kernel.spawn("main", main())
    kernel.run()
    assert log == [("b", 10)]
    assert actors[0].exit.kind == "cancelled"


def test_those_behind_a_cancelled_wait_go_on_at_once(kernel, tracker):
    """Who was only held up by somebody's larger need goes on at the instant at which that one is cancelled."""
    limited(tracker, x=Limit(total=Rate(3, 10)))
    log = list[Any]()

    async def main():
        tracker.consume("m", "x")
        large = kernel.spawn("large", waiter(tracker, "large", {"x": 3}, log))
        kernel.spawn("small", waiter(tracker, "small", {"x": 1}, log))
        await sleep_ns(4)
        kernel.cancel(large)

    kernel.spawn("main", main())
    kernel.run()
    assert log == [("small", 4)]


def test_capacity_is_one_of_several_waits(kernel, tracker):
    """Under `first_of` the wait that loses takes nothing, and the one that wins gives a reservation."""
    limited(tracker, x=Limit(total=Rate(1, 10)))
    signal, log = Signal(kernel), list[Any]()

    async def main():
        tracker.consume("m", "x")
        fired = await first_of_ns(tracker.capacity("m", {"x": 1}, take=True), signal, timeout_ns=4)
        log.append((fired.index, kernel.now))
        fired = await first_of_ns(signal, tracker.capacity("m", {"x": 1}, take=True), timeout_ns=400)
        log.append((fired.index, kernel.now, tracker.get_remaining("m", "x")))
        tracker.release(fired.value)
        log.append(tracker.get_remaining("m", "x"))

    kernel.spawn("main", main())
    kernel.run()
    assert log == [(None, 4), (1, 10, 0), 1]


def test_a_level_is_told_at_the_first_moment(kernel, tracker):
    """`on_level` calls back once, when so much is left, over all scopes, and never inside somebody's step."""
    limited(tracker, x=Limit(agent=Rate(5, 20), total=Rate(5, 10)))
    log = list[Any]()

    async def main():
        tracker.on_level("m", "x", 5, lambda: log.append(("full", kernel.now)))
        tracker.consume("m", "x", 3)
        tracker.on_level("m", "x", 4, lambda: log.append(("never", kernel.now))).cancel()
        tracker.on_level("m", "x", 2.5, lambda: log.append(("some", kernel.now)))
        assert log == []
        await sleep_ns(3)
        tracker.consume("n", "x", 2)

    kernel.spawn("main", main())
    kernel.run()
    assert log == [("full", 0), ("some", 20)]


def test_a_level_that_a_release_restores_is_told_at_once(kernel, tracker):
    """Giving back reaches watchers at the same instant; a threshold above the limit is never reached."""
    limited(tracker, x=Limit(agent=Rate(5, NS)))
    log = list[Any]()

    async def main():
        reservation = tracker.reserve("m", "x", 5)
        for threshold in (1, 6):
            tracker.on_level("m", "x", threshold, lambda: log.append(kernel.now))
        await sleep_ns(7)
        tracker.release(reservation)

    kernel.spawn("main", main())
    kernel.run()
    assert log == [7]


def test_the_tracker_costs_nothing_while_nobody_waits(kernel, tracker):
    """Consuming schedules nothing, and the last waiter leaves no timer behind."""
    limited(tracker, x=Limit(total=Rate(1, NS)))

    async def main():
        tracker.consume("m", "x")
        other = kernel.spawn("a", waiter(tracker, "a", {"x": 1}, []))
        await sleep_ns(5)
        kernel.cancel(other)

    kernel.spawn("main", main())
    kernel.run()
    assert tracker._line._timer is None


def test_agents_of_whom_nothing_counts_are_forgotten(kernel, tracker):
    """A tracker that has seen many agents keeps windows only of those that consumed lately."""
    limited(tracker, x=Limit(agent=Rate(1, 10)))

    async def main():
        for i in range(20_000):
            tracker.consume(f"a{i}", "x")
            await sleep_ns(1)

    kernel.spawn("main", main())
    kernel.run()
    assert len(tracker._agent_windows) < 2_100
    assert tracker.get_remaining("a19999", "x") == 1 - tracker.get_usage("a19999", "x")


def test_who_runs_ahead_forgets_nobody_behind(kernel, tracker):
    """What one consumed still counts for it, though newcomers far ahead of it in time have had idle agents dropped."""
    limited(tracker, x=Limit(agent=Rate(1, 100)))
    left = []

    async def behind():
        tracker.consume("behind", "x")

    def newcomers():
        for i in range(3_000):
            tracker.consume(f"a{i}", "x")

    actor = kernel.spawn("behind", behind())
    kernel.run()
    kernel.ahead(1_000, 0, actor, newcomers)
    kernel.ahead(50, 0, actor, lambda: left.append(tracker.get_remaining("behind", "x")))
    kernel.ahead(100, 0, actor, lambda: left.append(tracker.get_remaining("behind", "x")))
    assert left == [0, 1]


def test_state_holds_what_counts_now(kernel, tracker):
    """The state lists present usage by scope, sorted, without what has left its window."""
    limited(tracker, x=Limit(agent=Rate(5, 10), total=Rate(9, 20)), a=Limit(group=Rate(2, 50)))
    tracker.set_group("n", "g")
    tracker.consume("z", "x", 2)
    tracker.consume("n", "a")
    kernel.advance_to(10)
    tracker.consume("b", "x", 1)
    assert tracker.state() == {
        "agents": {"x": {"b": 1}}, "groups": {"a": {"g": 1}}, "total": {"x": 3},
    }  # fmt: skip


GROUPS = {"a": "g", "b": "g", "c": "h"}
LIMITS = {
    "x": Limit(agent=Rate(2, 11), total=Rate(3, 7)),
    "y": Limit(group=Rate(3, 13)),
}


def naive(arrivals):
    """Serve (time, agent, costs) first come first served, looking at every single nanosecond."""
    log, waiting, served = list[Any](), list[Any](), list[Any]()

    def windows(agent, resource):
        limit = LIMITS[resource]
        if limit.agent:
            yield limit.agent, ("agent", agent, resource)
        if limit.group:
            yield limit.group, ("group", GROUPS[agent], resource)
        if limit.total:
            yield limit.total, ("total", resource)

    def room(rate, key, now):
        return rate.amount - sum(n for at, where, n in log if where == key and now < at + rate.window_ns)

    for now in range(max(at for at, _, _ in arrivals) + 200):
        waiting += [(i, agent, costs) for i, (at, agent, costs) in enumerate(arrivals) if at == now]
        held_up = set()
        for item in list(waiting):
            needs = [(rate, key, n) for r, n in item[2].items() for rate, key in windows(item[1], r)]
            if all(room(rate, key, now) >= n and key not in held_up for rate, key, n in needs):
                log.extend((now, key, n) for _, key, n in needs)
                served.append((now, item[0]))
                waiting.remove(item)
            rest = waiting[: waiting.index(item) + 1] if item in waiting else [w for w in waiting if w[0] < item[0]]
            for other in rest:
                for r, n in other[2].items():
                    held_up |= {key for rate, key in windows(other[1], r) if room(rate, key, now) < n}
    return sorted(served)


COSTS = st.sampled_from([{"x": 1}, {"x": 2}, {"y": 1}, {"y": 3}, {"x": 1, "y": 2}])


@example(  # who is let through at one window must not hide those behind it at another
    [
        (0, "a", {"x": 1}),
        (0, "b", {"x": 1}),
        (0, "b", {"x": 2}),
        (0, "a", {"x": 1}),
        (0, "a", {"x": 2}),
        (11, "c", {"x": 1}),
    ]
)
@settings(max_examples=80)
@given(st.lists(st.tuples(st.integers(0, 25), st.sampled_from("abc"), COSTS), min_size=1, max_size=12))
def test_waiting_agrees_with_looking_at_every_nanosecond(arrivals):
    """The order and the time at which waits end are those of a naive first come first served queue."""
    kernel = Kernel()
    tracker = RateTracker(kernel)
    limited(tracker, **LIMITS)
    for agent, group in GROUPS.items():
        tracker.set_group(agent, group)
    arrivals, served = sorted(arrivals, key=lambda item: item[0]), list[Any]()

    async def run(index, at, agent, costs):
        await sleep_ns(at)
        await tracker.wait_for_capacity(agent, costs, take=True)
        served.append((kernel.now, index))

    for index, (at, agent, costs) in enumerate(arrivals):
        kernel.spawn(f"{index}", run(index, at, agent, costs))
    kernel.run()
    assert sorted(served) == naive(arrivals)


def test_uses_sum_up_each_scope(kernel, tracker):
    """For each resource and scope: what counts now in all windows, what fits, and the fullest; nothing is changed."""
    limited(tracker, x=Limit(agent=Rate(4, NS), total=Rate(10, NS)), y=Limit(group=Rate(0, NS)))
    tracker.set_group("a", "g")
    assert tracker.uses() == []
    assert tracker.consume("a", "x", 1)
    kernel.advance_to(NS // 2)
    assert tracker.consume("a", "x", 2)
    assert tracker.consume("b", "x", 1)
    assert tracker.uses() == [
        RateUse("x", "agent", 4, 8, 0.75), RateUse("y", "group", 0, 0, 0.0), RateUse("x", "total", 4, 10, 0.4)
    ]  # fmt: skip
    kernel.advance_to(NS)
    before = tracker._agent_windows["x", "a"].used
    assert [use.used for use in tracker.uses()] == [3, 0, 3]
    assert tracker._agent_windows["x", "a"].used == before == 3
    assert tracker.state()["total"] == {"x": 3}


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4)), max_size=30))
def test_uses_are_what_counts(steps):
    """Whatever was consumed and when, the observer counts exactly what the tracker counts."""
    kernel = Kernel()
    tracker = RateTracker(kernel)
    tracker.set_limit("x", Limit(agent=Rate(9, 20)))
    for by, amount in steps:
        kernel.advance_to(kernel.now + by)
        tracker.consume("a", "x", amount)
        kernel.advance_to(kernel.now + by)
        seen = sum(use.used for use in tracker.uses())
        assert seen == tracker.get_usage("a", "x")


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="the compiled part is not here")
def test_a_tracker_answers_alike_in_c_and_in_python():
    """Whatever is consumed, asked, waited for or changed: answers, errors and what counts are the same in both."""
    program = Path(__file__).with_name("rates_program.py")
    compiled, plain = (
        subprocess.run([sys.executable, str(program), how], capture_output=True, text=True, check=True).stdout
        for how in ("compiled", "plain")
    )
    assert compiled == plain
    assert compiled.count("True") > 1000
