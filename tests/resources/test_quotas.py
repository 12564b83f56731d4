import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.base.errors import UsageError
from sim.resources import Quotas
from sim.resources.quotas import QuotaStatistics


def test_what_is_held_stays_held_until_given_back():
    """A quota limits what each agent holds at once; giving back makes room again."""
    quotas = Quotas()
    quotas.define("disk", 10)
    assert quotas.hold("a", "disk", 8)
    assert not quotas.hold("a", "disk", 3)
    assert quotas.hold("b", "disk", 10)
    quotas.give_back("a", "disk", 8)
    assert quotas.remaining("a", "disk") == 10
    assert quotas.state() == {"disk": {"b": 10}}


def test_nobody_gives_back_what_it_does_not_hold():
    """Giving back too much is refused and changes nothing, so nothing is ever negative."""
    quotas = Quotas()
    quotas.define("disk", 10)
    quotas.hold("a", "disk", 2)
    with pytest.raises(UsageError):
        quotas.give_back("a", "disk", 3)
    assert quotas.held("a", "disk") == 2
    quotas.define("disk", 1)
    assert quotas.remaining("a", "disk") == 0
    with pytest.raises(UsageError):
        quotas.held("a", "memory")
    assert "memory" not in quotas


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 7))))
def test_holdings_follow_a_plain_count(steps):
    """Held is what was granted less what was given back, always between 0 and the limit."""
    quotas, held = Quotas(), 0
    quotas.define("disk", 10)
    for hold, amount in steps:
        if hold:
            granted = quotas.hold("a", "disk", amount)
            assert granted == (held + amount <= 10)
            held += amount * granted
        elif amount <= held:
            quotas.give_back("a", "disk", amount)
            held -= amount
        assert quotas.held("a", "disk") == held
        assert quotas.remaining("a", "disk") == 10 - held


def test_statistics_sum_up_what_is_held():
    """Of each quota: its limit, what all hold, and the share of whoever holds most; a limit of 0 divides nothing."""
    quotas = Quotas()
    quotas.define("disk", 10)
    quotas.define("none", 0)
    quotas.hold("a", "disk", 3)
    quotas.hold("b", "disk", 4)
    assert quotas.statistics() == {"disk": QuotaStatistics(10, 7, 0.4), "none": QuotaStatistics(0, 0, 0.0)}
