"""The money of a run: set aside before, settled after, never over the ceiling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.errors import UsageError
from sim.llm.port import ModelError, Usage
from sim.llm.spend import Spend


def settle(spend, held, cost, **rest):
    """Settle a call of one agent."""
    options = {"agent": "a", "group": "g", "model": "p:m", "usage": Usage(10, 5, 2), "attempts": 1, **rest}
    spend.settle(held, cost_micro=cost, **options)


def test_totals_by_model_group_and_agent():
    """A call counts once in each, a failed one with its attempts and what it cost all the same."""
    spend = Spend()
    settle(spend, spend.reserve(50), 30)
    settle(spend, spend.reserve(50), 7, failed=True, usage=None, attempts=4, agent="b")
    total = spend.total
    assert (total.calls, total.failed, total.attempts, total.cost_micro) == (1, 1, 5, 37)
    assert (total.input_tokens, total.output_tokens, total.cached_tokens) == (10, 5, 2)
    assert spend.agents["b"].cost_micro == 7
    assert spend.groups["g"] == spend.models["p:m"] == total


def test_the_ceiling_counts_what_is_under_way():
    """What is set aside is gone until it is settled; what was not used comes back."""
    spend = Spend(100)
    first = spend.reserve(60)
    with pytest.raises(ModelError) as refused:
        spend.reserve(41)
    assert refused.value.kind == "quota"
    settle(spend, first, 10)
    assert spend.left_micro == 90
    spend.release(spend.reserve(90))
    assert spend.left_micro == 90


def test_money_is_given_back_once():
    """Settling twice would make money."""
    spend = Spend(10)
    held = spend.reserve(5)
    spend.release(held)
    with pytest.raises(UsageError):
        spend.release(held)


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(0, 1), st.booleans()), max_size=60))
def test_no_run_spends_more_than_its_ceiling(calls):
    """Whatever is under way together, if no call costs more than was set aside for it, the ceiling holds."""
    spend, under_way = Spend(100), []
    for most, share, wait in calls:
        try:
            under_way.append((spend.reserve(most), int(most * share)))
        except ModelError:
            continue
        if not wait:
            settle(spend, *under_way.pop(0))
        assert spend.total.cost_micro <= 100
    for held, cost in under_way:
        settle(spend, held, cost)
    assert spend.total.cost_micro <= 100
    assert spend.left_micro == 100 - spend.total.cost_micro
