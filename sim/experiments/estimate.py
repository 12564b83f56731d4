"""Means over seeds, with confidence intervals."""

import math
import statistics
import sys
from collections.abc import Sequence
from typing import Final

import attrs

NORMAL: Final = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""

_POWER = 0.8416212335729143  # its 80 % quantile
_QUANTILES = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010, 2.1788, 2.1604, 2.1448,
    2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
)  # fmt: skip
"""The 97.5 % quantiles of Student's t distribution, for 1 to 20 degrees of freedom."""
_LEAST_EFFECTS = (
    16.3340, 5.6535, 4.2559, 3.7611, 3.5139, 3.3669, 3.2698, 3.2009, 3.1496, 3.1100, 3.0784, 3.0527, 3.0313, 3.0133,
    2.9979, 2.9845, 2.9729, 2.9627, 2.9536, 2.9455,
)  # fmt: skip
"""The least effects in standard errors, for 1 to 20 degrees of freedom.

Each is the noncentrality at which 80 % of the noncentral t distribution are beyond the 97.5 % quantile of Student's t
on either side, as `scipy.stats.nct` gives it (Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions,
volume 2, 1995, chapter 31).
"""

FEW: Final = 5
"""Of fewer values, charts show each one in place of the interval.

By Student's t, half the interval of 2, 3 and 4 values is 9, 2.5 and 1.6 of their standard deviations: it is wider than
the values are spread.
"""


@attrs.frozen
class Estimate:
    """A mean over seeds.

    Attributes:
        n: the number of seeds.
        mean: the mean over seeds.
        half: half the width of the 95 % confidence interval (Student, 1908); None for a single seed.
    """

    n: int
    mean: float
    half: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate | None":
        """Return the estimate from one value per seed. Values that are not finite are omitted. None: no values."""
        finite = [value for value in values if math.isfinite(value)]
        if not finite:
            return None
        mean = mean_of(finite)
        if len(finite) == 1:
            return cls(1, mean, None)
        return cls(len(finite), mean, _errors(student(len(finite) - 1), finite))

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return max(self.mean - (self.half or 0), -sys.float_info.max)

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return min(self.mean + (self.half or 0), sys.float_info.max)


def mean_of(values: Sequence[float]) -> float:
    """Return the mean of numbers, also of those whose sum is too large for a float."""
    try:
        return statistics.fmean(values)
    except OverflowError:
        return math.fsum(value / len(values) for value in values)


def _errors(count: float, values: Sequence[float]) -> float:
    """Return a multiple of the standard error of the mean of values; the largest float if it is more."""
    try:
        return min(count * statistics.stdev(values) / math.sqrt(len(values)), sys.float_info.max)
    except OverflowError:
        return sys.float_info.max


def least_effect(values: Sequence[float]) -> float | None:
    """Return the least mean that experiments with as many values would show, with a power of 80 %.

    That is, an interval of 95 % around the mean would leave out 0 in 80 of 100 such experiments, if the true mean were
    this large (Cohen, Statistical Power Analysis for the Behavioral Sciences, 1988, chapter 2).

    Args:
        values: one value per seed. Values that are not finite are omitted.

    Returns:
        None if there are fewer than two values, or all are the same: how much they vary is not known then.
    """
    finite = [value for value in values if math.isfinite(value)]
    if len(finite) < 2 or min(finite) == max(finite):
        return None
    freedom = len(finite) - 1
    exact = freedom <= len(_LEAST_EFFECTS)
    factor = _LEAST_EFFECTS[freedom - 1] if exact else student(freedom) + _expanded(_POWER, freedom)
    return _errors(factor, finite)


def student(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t distribution, to 4 digits."""
    return _QUANTILES[freedom - 1] if freedom <= len(_QUANTILES) else _expanded(NORMAL, freedom)


def _expanded(z: float, freedom: int) -> float:
    """Return a quantile of Student's t distribution from that of the normal distribution.

    This is the expansion of Fisher and Cornish (1960) in powers of 1 / freedom.
    """
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
