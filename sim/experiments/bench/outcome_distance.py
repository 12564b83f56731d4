"""The distance of the outcomes of two runs.

The distance of two values of an outcome (see `outcomes_of`) is |a - b| / (|a| + |b|): 0 if a and b are equal, 1/3 if
one is twice the other, 1 if one of them is 0 or they have different signs. The distance of two runs is the mean over
their outcomes, without outcomes that are 0 in both.
"""

import statistics
from collections.abc import Mapping

from sim.agents.outcomes import COUNTS

Outcomes = Mapping[str, float | None]


def distance(one: float, other: float) -> float:
    """Return the distance of two numbers, from 0 to 1; 0 for two zeros."""
    size = abs(one) + abs(other)
    return abs(one - other) / size if size else 0.0


def outcome_distance(one: Outcomes, other: Outcomes) -> float:
    """Return the distance of two runs, from 0 to 1. A count that is missing in one run is 0 there; an outcome without a
    value in one run is left out.
    """
    pairs = [(value_of(one, name), value_of(other, name)) for name in {**one, **other}]
    distances = [
        distance(left, right) for left, right in pairs if left is not None and right is not None and (left or right)
    ]
    return statistics.fmean(distances) if distances else 0.0


def value_of(outcomes: Outcomes, name: str) -> float | None:
    """Return an outcome of a run; None if it has no value there. What was not counted is 0."""
    return outcomes.get(name, 0.0 if name.startswith(COUNTS) else None)


def relative(base: Outcomes, other: Outcomes, name: str) -> float | None:
    """Return the relative difference of an outcome from its base value; None if that is 0, or one has no value."""
    before, after = value_of(base, name), value_of(other, name)
    return (after - before) / abs(before) if before and after is not None else None
