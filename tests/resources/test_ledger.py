import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sim.base.errors import LimitError, UsageError
from sim.resources import MICRO, Ledger, to_micro
from sim.resources.ledger import MAX_MICRO

ACCOUNT = st.sampled_from(["a", "b", "c", "nobody"])


class LedgerMachine(RuleBasedStateMachine):
    """Transfers and issues, right and wrong ones, against plain sums."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.issued = 0
        for account in "abc":
            self.ledger.open(account, 10)
            self.issued += 10

    @rule(payer=ACCOUNT, payee=ACCOUNT, micro=st.integers(-3, 20))
    def transfer(self, payer, payee, micro):
        before = self.ledger.state()
        try:
            self.ledger.transfer(payer, payee, micro)
        except (LimitError, UsageError):
            assert self.ledger.state() == before
        else:
            assert "nobody" not in (payer, payee)
            assert 0 < micro <= before["balances"][payer]

    @rule(account=ACCOUNT, micro=st.integers(-20, 20))
    def issue(self, account, micro):
        try:
            self.ledger.issue(account, micro, "test")
        except (LimitError, UsageError):
            assert account == "nobody" or micro == 0 or micro < -self.ledger.balance(account)
        else:
            self.issued += micro

    @invariant()
    def total_is_what_was_issued(self):
        balances = self.ledger.state()["balances"].values()
        assert sum(balances) == self.ledger.total == self.issued
        assert min(balances) >= 0


TestLedger = pytest.mark.slow(LedgerMachine.TestCase)


def test_a_transfer_moves_exactly_the_amount():
    """What one account loses the other gets, to the last micro-unit."""
    ledger = Ledger()
    ledger.open("a", 3 * MICRO)
    ledger.open("b")
    ledger.transfer("a", "b", 1)
    assert (ledger.balance("a"), ledger.balance("b")) == (3 * MICRO - 1, 1)
    ledger.transfer("a", "a", 5)
    assert ledger.balance("a") == 3 * MICRO - 1


def test_short_funds_are_refused_with_both_numbers():
    """A transfer beyond the balance raises a limit error that names account, amount and balance."""
    ledger = Ledger()
    ledger.open("a", 5)
    ledger.open("b")
    with pytest.raises(LimitError) as raised:
        ledger.transfer("a", "b", 6)
    assert (raised.value.value, raised.value.limit, raised.value.source) == (6, 5, "a")


def test_an_account_is_opened_once():
    """Opening twice, or with less than nothing, is refused; an unknown account has no balance."""
    ledger = Ledger()
    ledger.open("a")
    for call in (lambda: ledger.open("a"), lambda: ledger.open("b", -1), lambda: ledger.balance("b")):
        with pytest.raises(UsageError):
            call()
    assert "a" in ledger
    assert "b" not in ledger


def test_no_balance_outgrows_the_run_file():
    """Neither an issue nor a transfer takes a balance beyond 63 bits."""
    ledger = Ledger()
    ledger.open("a", MAX_MICRO)
    ledger.open("b", 1)
    with pytest.raises(LimitError):
        ledger.issue("a", 1, "more")
    with pytest.raises(LimitError):
        ledger.transfer("b", "a", 1)


@pytest.mark.parametrize(
    ("units", "micro"),
    [(0.1, 100_000), ("0.1", 100_000), (1, MICRO), ("-2.000001", -2_000_001), (0.1 + 0.2, 300_000), (1e-9, 0),
     ("1e3", 1000 * MICRO), (0.0000005, 0), (0.0000015, 2), ("1.0000000", MICRO), (1e12, 10**18)],
    ids=repr,
)  # fmt: skip
def test_amounts_become_micro_units(units, micro):
    """Decimals are exact; a float is the decimal it is written as, rounded to the nearest micro-unit."""
    assert to_micro(units) == micro


@pytest.mark.parametrize(
    "units",
    [math.nan, math.inf, -math.inf, 1e13, "1e999999999", "1e-999999999", "0.0000001", "nan", "", "x", True, None, [1],
     10**40],
    ids=repr,
)  # fmt: skip
def test_what_is_no_amount_is_refused(units):
    """Not a number, not finite, too large, or text with more than six decimals: refused, and quickly."""
    with pytest.raises(UsageError):
        to_micro(units)


@given(st.decimals(min_value=-(10**12), max_value=10**12, places=6))
def test_six_decimals_are_exact(units):
    """Any text with six decimals becomes exactly its micro-units."""
    assert to_micro(str(units)) == Fraction(units) * MICRO


@given(st.floats(-(10**9), 10**9))
def test_a_float_is_off_by_half_a_micro_unit_at_most(units):
    """Rounding a float never moves it further than to the nearest micro-unit."""
    assert abs(to_micro(units) - Fraction(repr(units)) * MICRO) <= Fraction(1, 2)
