"""The ledger: balances of accounts in whole micro-units, and transfers between them.

Amounts are integers, so that sums are exact. Only `issue` changes the sum of all balances, by exactly its amount.
"""

from decimal import Decimal, InvalidOperation
from typing import Any

from sim.base.errors import LimitError, UsageError
from sim.kernel.ports import ANYONE, Guard

MICRO = 1_000_000
"""Micro-units in one unit."""

MAX_MICRO = 2**63 - 1  # the maximum of an integer column of a run file

MAX_UNITS = MAX_MICRO // MICRO

_MOST_DIGITS = 30  # numbers with more digits are refused early, before a huge exponent is expanded


def to_micro(units: float | str) -> int:
    """Convert an amount to micro-units.

    Text and whole numbers are converted exactly, or refused. A float is taken as its shortest decimal text (0.1 is a
    tenth) and rounded to the nearest micro-unit, because a sum such as 0.1 + 0.2 has unintended digits.

    Args:
        units: the amount in units, as a number or as decimal text.

    Raises:
        UsageError: if it is not a number, not finite, too large, or text with more than six decimals.
    """
    whole: Any = units
    if whole.__class__ in (int, float) and -MAX_UNITS < whole < MAX_UNITS and (number := int(whole)) == whole:
        return number * MICRO  # most amounts; a whole float of this size has exact digits
    try:
        if isinstance(units, bool) or not isinstance(units, int | float | str):
            raise InvalidOperation
        value = Decimal(str(units) if isinstance(units, float) else units)
    except (InvalidOperation, ValueError):
        raise UsageError(f"an amount of money is a number, not {units!r}") from None
    if not value.is_finite() or value.adjusted() > _MOST_DIGITS:
        raise UsageError(f"an amount of money must be finite and below {MAX_UNITS} units, not {units!r:.60}")
    micro = _round(value, exact=not isinstance(units, float))
    if micro is None:
        raise UsageError(f"{units!r:.60} cannot be held exactly: money has six decimals")
    if abs(micro) > MAX_MICRO:
        raise UsageError(f"an amount of money must be below {MAX_UNITS} units, not {units!r:.60}")
    return micro


def _round(value: Decimal, *, exact: bool) -> int | None:
    """Return the nearest number of micro-units (half to even), or None if `exact` and there is a remainder."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = int("".join(map(str, digits)))
    decimals = -6 - exponent  # number of decimals beyond the sixth
    if decimals <= 0:
        micro, rest, half = number * int(10 ** abs(decimals)), 0, 1
    elif decimals > len(digits) + 1:
        micro, rest, half = 0, min(number, 1), 2  # the value is far below half a micro-unit
    else:
        scale = int(10 ** abs(decimals))
        micro, rest = divmod(number, scale)
        half = scale // 2
    if exact and rest:
        return None
    if rest > half or (rest == half and micro % 2):
        micro += 1
    return -micro if sign else micro


def amount_text(micro: int) -> str:
    """Return micro-units as text: in units, with two to six decimals."""
    units, rest = divmod(abs(micro), MICRO)
    decimals = f"{rest:06}".rstrip("0").ljust(2, "0")
    return f"{'-' if micro < 0 else ''}{units}.{decimals}"


def insufficient(what: str, needed: int, available: int) -> str:
    """Return the error text for an insufficient amount. Both amounts are in micro-units."""
    return f"insufficient {what}: {amount_text(needed)} needed, {amount_text(available)} available"


def _too_much(account: str, micro: int) -> LimitError:
    text = f"the balance would be {amount_text(micro)}, at most {amount_text(MAX_MICRO)} are allowed"
    return LimitError("balance", micro, MAX_MICRO, account, message=text)


class Ledger:
    """The balances of all accounts. A balance is never negative.

    Args:
        gate: who may change it.
    """

    def __init__(self, gate: Guard = ANYONE) -> None:
        self._gate = gate
        self._balances: dict[str, int] = {}
        self.find = self._balances.get  # returns the balance of an account in micro-units, or None
        self._issued: dict[str, int] = {}  # by reason
        self._transfers = 0

    def open(self, account: str, micro: int = 0) -> None:
        """Open an account. Its initial balance counts as issued for the reason `open`.

        Raises:
            UsageError: if it is open already, or the amount is not a whole number from 0.
        """
        if self._gate.current is None:
            self._gate.acting()  # it refuses a call from outside before anything changes
        if account in self._balances:
            raise UsageError(f"the account {account!r} is open already")
        if micro.__class__ is not int or not 0 <= micro <= MAX_MICRO:
            raise UsageError(f"an account starts with a whole number of micro-units from 0, not {micro!r}")
        self._balances[account] = 0
        if micro:
            self.issue(account, micro, "open")

    def __contains__(self, account: str) -> bool:
        return account in self._balances

    def balance(self, account: str) -> int:
        """Return the balance of an account in micro-units."""
        balance = self._balances.get(account)
        if balance is None:
            raise UsageError(f"there is no account named {account!r}")
        return balance

    def transfer(self, source: str, target: str, micro: int) -> int:
        """Move micro-units from one account to another, and return what the first one has left.

        Raises:
            LimitError: if the balance is insufficient, or the target would exceed the maximum. Nothing is moved.
            UsageError: if there is no such account, or the amount is not a whole number above 0.
        """
        if self._gate.current is None:
            self._gate.acting()  # it refuses a call from outside before anything changes
        balances = self._balances
        funds, there = balances.get(source), balances.get(target)
        if funds is None or there is None:
            funds, there = self.balance(source), self.balance(target)  # raises
        if micro.__class__ is not int or micro <= 0:
            raise UsageError(f"a transfer must be a whole number of micro-units above 0, not {micro!r}")
        if micro > funds:
            raise LimitError("transfer", micro, funds, source, message=insufficient("funds", micro, funds))
        if source == target:
            self._transfers += 1
            return funds
        if there + micro > MAX_MICRO:
            raise _too_much(target, there + micro)
        self._transfers += 1
        balances[source] = left = funds - micro
        balances[target] = there + micro
        return left

    def issue(self, account: str, micro: int, reason: str) -> None:
        """Create micro-units (above 0) or destroy them (below 0). This is the only way to change the total.

        Raises:
            LimitError: if the balance would become negative, or exceed the maximum.
            UsageError: if there is no such account, or the amount is not a whole number other than 0.
        """
        if self._gate.current is None:
            self._gate.acting()  # it refuses a call from outside before anything changes
        balance = self.balance(account)
        if micro.__class__ is not int or micro == 0:
            raise UsageError(f"an issue must be a whole number of micro-units other than 0, not {micro!r}")
        if balance + micro < 0:
            raise LimitError("issue", micro, -balance, account, message=insufficient("funds", -micro, balance))
        if balance + micro > MAX_MICRO:
            raise _too_much(account, balance + micro)
        self._balances[account] = balance + micro
        self._issued[reason] = self._issued.get(reason, 0) + micro

    @property
    def total(self) -> int:
        """The sum of all balances in micro-units, which is the sum of all issues."""
        return sum(self._issued.values())

    @property
    def transfers(self) -> int:
        """The number of transfers."""
        return self._transfers

    def state(self) -> dict[str, dict[str, int]]:
        """Return the balances by account and the issued amounts by reason, sorted, in micro-units."""
        balances, issued = sorted(self._balances.items()), sorted(self._issued.items())
        return {"balances": dict(balances), "issued": dict(issued)}
