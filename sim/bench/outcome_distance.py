"""The distance of the outcomes of two runs.

The distance of two values of an outcome (see `outcomes_of`) is |a - b| / (|a| + |b|): 0 if a and b are equal, 1/3 if
one is twice the other, 1 if one of them is 0 or they have different signs. The distance of two runs is the mean over
their outcomes, without outcomes that are 0 in both.
"""

import statistics
from collections.abc import Mapping

Outcomes = Mapping[str, float]


def distance(one: float, other: float) -> float:
    """Return the distance of two numbers, from 0 to 1; 0 for two zeros."""
    size = abs(one) + abs(other)
    return abs(one - other) / size if size else 0.0


def outcome_distance(one: Outcomes, other: Outcomes) -> float:
    """Return the distance of two runs, from 0 to 1. An outcome that is missing in one run counts as 0 there."""
    pairs = [(one.get(name, 0.0), other.get(name, 0.0)) for name in {**one, **other}]
    told = [distance(left, right) for left, right in pairs if left or right]
    return statistics.fmean(told) if told else 0.0


def relative(base: Outcomes, other: Outcomes, name: str) -> float | None:
    """Return the relative difference of an outcome from its base value; None if the base value is 0."""
    before = base.get(name, 0.0)
    return (other.get(name, 0.0) - before) / abs(before) if before else None
