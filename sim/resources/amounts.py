"""Exact sums of amounts. A float stands for the decimal number that it is written as, so ten times 0.1 is 1.

Binary floats would leave a container with 0.9999999999999999 after ten puts of 0.1, and a `get` of 1 would wait for
ever. Sums of ints stay ints, which is the fast way.
"""

from decimal import Context, Decimal

Amount = int | Decimal

_EXACT = Context(prec=800)
"""More digits than a sum of floats can have: the largest float has 309 before the point, the smallest 342 behind it."""


def exact(value: float) -> Amount:
    """Return a number as an exact amount."""
    if isinstance(value, int):
        return int(value)
    return Decimal(repr(float(value)))


def shown(amount: Amount) -> float:
    """Return an amount as a number: an int if it was added up from ints only, else the nearest float."""
    return amount if isinstance(amount, int) else float(amount)


def plus(one: Amount, other: Amount) -> Amount:
    """Return the exact sum."""
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    return _EXACT.add(one, other)


def minus(one: Amount, other: Amount) -> Amount:
    """Return the exact difference."""
    if isinstance(one, int) and isinstance(other, int):
        return one - other
    return _EXACT.subtract(one, other)


def times(amount: Amount, count: int) -> Amount:
    """Return the exact product."""
    return amount * count if isinstance(amount, int) else _EXACT.multiply(amount, count)
