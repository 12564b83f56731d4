from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sim.kernel import Kernel
from sim.resources import Limit, Rate, RateTracker
from sim.resources.windows import Window

AGENTS = {"a": "g", "b": "g", "c": None}
LIMIT = Limit(agent=Rate(5, 10), group=Rate(7, 7), total=Rate(9, 13))
WHO = st.sampled_from(sorted(AGENTS))
AMOUNT = st.integers(0, 6)


class WindowMachine(RuleBasedStateMachine):
    """The tracker against a plain list of everything that was ever consumed."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = Kernel()
        self.tracker = RateTracker(self.kernel)
        self.tracker.set_limit("x", LIMIT)
        for agent, group in AGENTS.items():
            self.tracker.set_group(agent, group)
        self.log: list[Any] = []  # [time, agent, amount]
        self.open: list[Any] = []  # (reservation, its item of the log)
        self.overspent = False

    def scopes(self, agent):
        """Yield (rate, agents that count) of each scope of an agent."""
        group = AGENTS[agent]
        yield LIMIT.agent, [agent]
        if group:
            yield LIMIT.group, [other for other in AGENTS if AGENTS[other] == group]
        yield LIMIT.total, list(AGENTS)

    def room(self, agent, time):
        """Return the least room over the scopes at a time, from the log alone."""
        return min(
            rate.amount - sum(n for at, who, n in self.log if who in members and at <= time < at + rate.window_ns)
            for rate, members in self.scopes(agent)
        )

    @rule(by=st.integers(1, 9))
    def pass_time(self, by):
        self.kernel.advance_to(self.kernel.now + by)

    @rule(who=WHO, amount=AMOUNT)
    def consume(self, who, amount):
        expected = amount == 0 or amount <= self.room(who, self.kernel.now)
        assert self.tracker.has_capacity(who, "x", amount) == expected
        assert self.tracker.consume(who, "x", amount) == expected
        if expected:
            self.log.append([self.kernel.now, who, amount])

    @rule(who=WHO, amount=AMOUNT)
    def reserve(self, who, amount):
        if self.tracker.has_capacity(who, "x", amount):
            item = [self.kernel.now, who, amount]
            self.log.append(item)
            self.open.append((self.tracker.reserve(who, "x", amount), item))

    @rule(data=st.data(), actual=AMOUNT)
    def settle(self, data, actual):
        if self.open:
            reservation, item = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
            self.tracker.settle(reservation, actual)
            if actual > item[2]:
                self.overspent = True
                self.log.append([self.kernel.now, item[1], actual - item[2]])
            item[2] = min(item[2], actual)

    @rule(data=st.data())
    def release(self, data):
        if self.open:
            reservation, item = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
            self.tracker.release(reservation)
            item[2] = 0

    @invariant()
    def rooms_agree(self):
        for who in AGENTS:
            room = self.room(who, self.kernel.now)
            assert self.tracker.get_remaining(who, "x") == room
            assert room >= 0 or self.overspent
            assert (self.tracker.blocked(who) == "x") == (room < 1)

    @rule(who=WHO, amount=st.integers(1, 6))
    def capacity_returns_exactly_then(self, who, amount):
        span = self.tracker.time_until_capacity(who, "x", amount)
        if amount > min(rate.amount for rate, _ in self.scopes(who)):
            assert span is None
        else:
            assert span is not None
            assert self.room(who, self.kernel.now + span) >= amount
            assert span == 0 or self.room(who, self.kernel.now + span - 1) < amount


TestWindows = pytest.mark.slow(WindowMachine.TestCase)
TestWindows.settings = settings(max_examples=60, stateful_step_count=40)


def test_an_amount_counts_until_exactly_its_window_has_passed():
    """What is consumed at t counts at t + span - 1 and is free at t + span."""
    window = Window(Rate(3, 10))
    window.add(2, 5)
    assert window.room(14) == 1
    assert window.room(15) == 3


def test_what_is_consumed_at_one_instant_is_one_entry():
    """Memory follows the number of instants, not of calls."""
    window = Window(Rate(1000, 10))
    for _ in range(1000):
        window.add(1, 7)
    assert len(window.entries or ()) == 1


def test_what_was_given_back_leaves_no_trace():
    """Any number of reservations that are released within one window take bounded memory."""
    window = Window(Rate(10, 10**9))
    for now in range(10_000):
        window.give_back(window.add(3, now), 3, now)
    assert len(window.entries or ()) < 100
    assert window.room(10_000) == 10
