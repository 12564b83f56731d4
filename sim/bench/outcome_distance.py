"""How far the outcomes of two runs are apart.

An outcome is a number that a run ends with: the last value of a metric, the mean of an observation, how many actions of
a kind were done or refused, how many agents ended in a state. The distance of two values a and b is
|a - b| / (|a| + |b|): 0 where they are equal, 1/3 where one is twice the other, 1 where one of them is 0 or has the
other sign. The distance of two runs is the mean over their outcomes; those that are 0 in both are left out.
"""

import math
import statistics
from collections.abc import Mapping

from sim.runner import RunResult

Outcomes = Mapping[str, float]


def outcomes_of(result: RunResult) -> Outcomes:
    """Return what a run ended with: numbers by name."""
    found = {f"metric {name}": series[-1] for name, series in result.metrics.items() if name != "time" and series}
    found |= {f"mean {name}": distribution.mean for name, distribution in result.observations.items()}
    for words, counts in (("done", result.kinds), ("refused", result.refused), ("at the end", result.states)):
        found |= {f"{words} {name}": count for name, count in counts.items()}
    return {name: float(value) for name, value in found.items() if _is_number(value)}


def distance(one: float, other: float) -> float:
    """Return how far two numbers are apart, from 0 to 1; 0 for two zeros."""
    size = abs(one) + abs(other)
    return abs(one - other) / size if size else 0.0


def outcome_distance(one: Outcomes, other: Outcomes) -> float:
    """Return the distance of two runs, from 0 to 1; an outcome that only one of them has counts as 0 in the other."""
    pairs = [(one.get(name, 0.0), other.get(name, 0.0)) for name in {**one, **other}]
    told = [distance(left, right) for left, right in pairs if left or right]
    return statistics.fmean(told) if told else 0.0


def relative(base: Outcomes, other: Outcomes, name: str) -> float | None:
    """Return by which share of the base's value an outcome is greater in the other run; None if it is 0 in the base."""
    before = base.get(name, 0.0)
    return (other.get(name, 0.0) - before) / abs(before) if before else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
