import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.base.errors import LimitError, UsageError
from sim.kernel import Kernel
from sim.resources import Budgets
from sim.resources.budgets import BudgetStatistics


@pytest.fixture
def kernel():
    """Return a kernel."""
    return Kernel()


@pytest.fixture
def budgets(kernel):
    """Return budgets of which one is reset."""
    budgets = Budgets(kernel)
    budgets.define("money", 10, reset_ns=100)
    budgets.define("once", 5)
    return budgets


def test_a_budget_is_never_spent_twice(budgets):
    """Check and take are one step, for each agent by itself."""
    assert budgets.spend("a", "money", 7)
    assert not budgets.spend("a", "money", 4)
    assert budgets.remaining("a", "money") == 3
    assert budgets.remaining("b", "money") == 10


def test_a_new_period_starts_at_exactly_each_multiple(kernel, budgets):
    """At reset_ns - 1 the old period lasts, at reset_ns the whole amount is there again."""
    budgets.spend("a", "money", 10)
    budgets.spend("a", "once", 5)
    kernel.advance_to(99)
    assert (budgets.remaining("a", "money"), budgets.until_reset("money")) == (0, 1)
    kernel.advance_to(100)
    assert (budgets.remaining("a", "money"), budgets.until_reset("money")) == (10, 100)
    assert (budgets.remaining("a", "once"), budgets.until_reset("once")) == (0, None)


def test_an_earmark_is_ended_once_and_may_be_exceeded(kernel, budgets):
    """Less comes back, more is spent come what may; a second end is refused."""
    first, second = budgets.reserve("a", "money", 6), budgets.reserve("a", "money", 4)
    with pytest.raises(LimitError):
        budgets.reserve("a", "money", 1)
    budgets.settle(first, 2)
    assert budgets.remaining("a", "money") == 4
    budgets.settle(second, 9)
    assert budgets.remaining("a", "money") == -1
    with pytest.raises(UsageError):
        budgets.release(first)


def test_nothing_comes_back_into_a_later_period(kernel, budgets):
    """What was reserved in one period and released in the next gives that one nothing."""
    earmark = budgets.reserve("a", "money", 6)
    kernel.advance_to(150)
    budgets.spend("a", "money", 1)
    budgets.release(earmark)
    assert budgets.remaining("a", "money") == 9


def test_unknown_names_and_amounts_are_refused(budgets):
    """A budget must be defined, and an amount be whole and not negative."""
    assert "money" in budgets
    assert "fuel" not in budgets
    for call in (lambda: budgets.remaining("a", "fuel"), lambda: budgets.spend("a", "money", -1)):
        with pytest.raises(UsageError):
            call()
    with pytest.raises(UsageError):
        budgets.define("bad", 1, reset_ns=0)


def test_state_holds_the_present_period_only(kernel, budgets):
    """The state lists what was spent in the present periods, sorted."""
    budgets.spend("b", "money", 1)
    budgets.spend("a", "once", 2)
    assert budgets.state() == {"money": {"b": 1}, "once": {"a": 2}}
    kernel.advance_to(100)
    assert budgets.state() == {"once": {"a": 2}}


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12))))
def test_no_period_holds_more_than_the_amount(steps):
    """Whatever is asked for and when, the sum granted within each period stays within the amount."""
    kernel = Kernel()
    budgets = Budgets(kernel)
    budgets.define("money", 10, reset_ns=100)
    granted: dict[int, int] = {}
    for by, micro in steps:
        kernel.advance_to(kernel.now + by)
        period = kernel.now // 100
        fits = granted.get(period, 0) + micro <= 10
        assert budgets.spend("a", "money", micro) == fits
        granted[period] = granted.get(period, 0) + micro * fits


def test_statistics_sum_up_the_present_period(kernel, budgets):
    """Of each budget: its amount, what all have spent in this period, and the share of whoever spent most."""
    budgets.spend("a", "money", 2)
    budgets.spend("b", "money", 5)
    amount = budgets.statistics()["money"].amount_micro
    assert budgets.statistics()["money"] == BudgetStatistics(amount, 7, 5 / amount)
    assert budgets.statistics()["once"].spent_micro == 0
    kernel.advance_to(100)
    assert budgets.statistics()["money"] == BudgetStatistics(amount, 0, 0.0)
