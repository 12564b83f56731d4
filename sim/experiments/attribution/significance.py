"""Significance in attribution: intervals of shares, tests of pairs, and several tests at once."""

import math
from collections.abc import Sequence
from typing import Final

from sim.experiments.estimate import NORMAL

LEVEL: Final = 0.05
"""The chance of a false finding in a list of tests."""


def wilson(hits: float, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson 1927; without correction). Of no trials: 0 to 1."""
    if not n:
        return 0.0, 1.0
    share, square = hits / n, NORMAL * NORMAL
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = NORMAL * math.sqrt(share * (1 - share) / n + square / (4 * n * n)) / (1 + square / n)
    return (middle - half if hits else 0.0), (middle + half if hits < n else 1.0)  # at both ends exactly


def sign_test(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of differences of pairs: how often one sign has so much the majority by chance.

    Of conditions, this is McNemar's test in its exact form (1947). Pairs without a difference do not count.
    """
    ups, downs = sum(one > 0 for one in differences), sum(one < 0 for one in differences)
    n, fewer = ups + downs, min(ups, downs)
    if not n:
        return 1.0
    tail: float = sum(math.comb(n, k) for k in range(fewer + 1)) / 2**n
    return min(1.0, 2 * tail)


def holm(values: Sequence[float], level: float = LEVEL) -> list[bool]:
    """Return which of several tests are significant together (Holm 1979): false findings are rarer than the level."""
    significant = [False] * len(values)
    for place, index in enumerate(sorted(range(len(values)), key=lambda one: values[one])):
        if values[index] > level / (len(values) - place):
            break
        significant[index] = True
    return significant
