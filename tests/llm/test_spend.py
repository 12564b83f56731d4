"""The money of a run: set aside before, settled after, never over the ceiling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.base.errors import UsageError
from sim.llm.limits.spend import Bill, Spend, total_usage
from sim.llm.types import ModelError, TokenUsage


def settle(spend, held, cost, *, bills=None, **rest):
    """Settle a call of one agent."""
    options = {"agent": "a", "group": "g", **rest}
    spend.settle(held, bills=bills or [Bill("p:m", TokenUsage(10, 5, 2), cost)], **options)


def test_totals_by_model_group_and_agent():
    """A call counts once in each, a failed one with its attempts and what it cost all the same."""
    spend = Spend()
    settle(spend, spend.reserve(50), 30)
    settle(spend, spend.reserve(50), 7, failed=True, bills=[Bill("p:m", None, 7, 4)], agent="b")
    total = spend.total
    assert (total.calls, total.failed, total.attempts, total.cost_micro) == (1, 1, 5, 37)
    assert (total.input_tokens, total.output_tokens, total.cached_tokens) == (10, 5, 2)
    assert spend.agents["b"].cost_micro == 7
    assert spend.groups["g"] == spend.models["p:m"] == total


def test_each_request_counts_under_its_own_model():
    """A call that goes down its chain costs each model what was asked of it, and is counted as a call by the last."""
    spend = Spend()
    bills = [
        Bill("p:big", TokenUsage(100, 9, estimated=True), 70),
        Bill("p:big", None, 0),
        Bill("p:small", TokenUsage(10, 5), 3),
    ]
    settle(spend, spend.reserve(50), 0, bills=bills)
    big, small = spend.models["p:big"], spend.models["p:small"]
    assert (big.calls, big.failed, big.attempts, big.cost_micro, big.input_tokens) == (0, 0, 2, 70, 100)
    assert (small.calls, small.failed, small.attempts, small.cost_micro, small.input_tokens) == (1, 0, 1, 3, 10)
    assert (spend.total.cost_micro, spend.total.input_tokens, spend.total.output_tokens) == (73, 110, 14)
    assert (spend.total.calls, spend.total.attempts, spend.total.estimated) == (1, 3, 1)


def test_no_usage_is_none():
    """Requests of which none took tokens took none; one that did is told apart from those."""
    assert total_usage([None, None]) is None
    assert total_usage([None, TokenUsage(1, 2, 1)]) == TokenUsage(1, 2, 1)


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


@pytest.mark.slow
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
