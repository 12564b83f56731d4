"""Variance components: how much of the variance of scores comes from judges, seeds and agents.

Random effects of a crossed design, estimated from mean squares (Searle, Casella and McCulloch, Variance Components,
1992, chapter 4): each score is a mean plus one effect for each factor, one of their interaction, and one of repetition.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from statistics import fmean, variance

import attrs

Cell = tuple[str, ...]
"""The levels of the factors at which scores were given."""


@attrs.frozen
class Component:
    """One source of variance.

    Attributes:
        source: a factor, `interaction`, or `repetition`. Without repetitions, these two cannot be told apart, and are
            `residual`.
        levels: the number of levels of a factor; 0 for the others.
        variance: the variance that it adds; at least 0.
        share: its share of the sum.
    """

    source: str
    levels: int
    variance: float
    share: float


def components(cells: Mapping[Cell, Sequence[float]], factors: Sequence[str]) -> list[Component]:
    """Return the variance components of scores.

    Args:
        cells: the scores by the levels of the factors. Levels at which scores are missing are left out, those that miss
            most first, and repetitions that other cells do not have.
        factors: the names of the factors; those with a single level have no component.

    Returns:
        One component for each factor, then the rest; empty if fewer than two factors have several levels and there are
        no repetitions.
    """
    levels = _complete(cells, len(factors))
    used = [index for index, own in enumerate(levels) if len(own) > 1]
    chosen = [cells[cell] for cell in product(*levels)]
    repeats = min(map(len, chosen), default=0)
    if not used or (len(used) < 2 and repeats < 2):
        return []
    values = {cell: fmean(cells[cell][:repeats]) for cell in product(*levels)}
    found = _estimated(values, [cells[cell][:repeats] for cell in values], levels, used, repeats)
    names = [factors[index] for index in used] + (["interaction", "repetition"] if repeats > 1 else ["residual"])
    if len(used) < 2:  # one factor has no interaction
        del names[1], found[1]
    total = sum(found)
    counts = [len(levels[index]) for index in used] + [0, 0]
    return [
        Component(name, count, value, value / total if total else 0.0)
        for name, count, value in zip(names, counts, found, strict=False)
    ]


def _estimated(
    values: Mapping[Cell, float], raw: Sequence[Sequence[float]], levels: Sequence[list[str]], used: Sequence[int],
    repeats: int,
) -> list[float]:  # fmt: skip
    """Return the variances of the factors, of their interaction, and of repetition if there is any."""
    mean = fmean(values.values())
    effects = {
        index: {level: fmean(v for cell, v in values.items() if cell[index] == level) - mean for level in levels[index]}
        for index in used
    }
    rest = sum(
        (value - mean - sum(effects[index][cell[index]] for index in used)) ** 2 for cell, value in values.items()
    )
    freedom = len(values) - 1 - sum(len(levels[index]) - 1 for index in used)
    residual = rest / freedom if freedom else 0.0
    within = fmean(variance(one) for one in raw) / repeats if repeats > 1 else 0.0  # of the mean of a cell
    if not freedom:
        residual = within
    main = []
    for index in used:
        own = effects[index].values()
        each = len(values) / len(own)  # cells at one level
        square = each * sum(effect**2 for effect in own) / (len(own) - 1)
        main.append(max(0.0, (square - residual) / each))
    return [*main, max(0.0, residual - within), *([within * repeats] if repeats > 1 else [])]


def _complete(cells: Mapping[Cell, Sequence[float]], factors: int) -> list[list[str]]:
    """Return the levels of each factor at which no score is missing."""
    levels = [sorted({cell[index] for cell in cells}) for index in range(factors)]
    while True:
        gaps = [cell for cell in product(*levels) if not cells.get(cell)]
        if not gaps:
            return levels
        counts = Counter((index, cell[index]) for cell in gaps for index in range(factors) if len(levels[index]) > 1)
        if not counts:
            return [[] for _ in levels]
        index, level = max(counts, key=lambda one: (counts[one], len(levels[one[0]]), one[1]))
        levels[index].remove(level)
