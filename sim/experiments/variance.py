"""Variance components: how much of the variance of scores comes from judges, seeds and agents.

Random effects of a crossed design, estimated from mean squares (Searle, Casella and McCulloch, Variance Components,
1992, chapter 4): each score is a mean plus an effect of each factor, of each pair of factors, of all three, and of
repetition. So what a certain agent does with a certain seed is credited to neither of them alone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from math import fsum, prod
from statistics import fmean, variance

import attrs

Cell = tuple[str, ...]
"""The levels of the factors at which scores were given."""


@attrs.frozen
class Component:
    """One source of variance.

    Attributes:
        source: a factor; `interaction`, the sum over two and more factors that act together; or `repetition`. Without
            repetitions, these two cannot be separated, and are `residual`.
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
    raw = {cell: cells[cell][:repeats] for cell in product(*levels)}
    within = fmean(variance(own) for own in raw.values()) if repeats > 1 else 0.0
    variances = _estimated({cell: fmean(own) for cell, own in raw.items()}, levels, used, within / max(repeats, 1))
    rest = [("repetition", within)] if repeats > 1 else []
    if len(used) > 1:  # one factor has no interaction
        rest.insert(0, ("interaction" if repeats > 1 else "residual", variances.pop()))
    named = [(factors[index], value) for index, value in zip(used, variances, strict=True)] + rest
    total = sum(value for _, value in named)
    counts = [len(levels[index]) for index in used] + [0] * len(rest)
    return [
        Component(name, count, value, value / total if total else 0.0)
        for (name, value), count in zip(named, counts, strict=True)
    ]


def _estimated(
    values: Mapping[Cell, float], levels: Sequence[list[str]], used: Sequence[int], within: float
) -> list[float]:
    """Return the variance of each factor, and that of all interactions together if there are several factors.

    The expected mean square of some factors is the sum, over all sets of factors that contain them, of the variance
    times the number of scores at one level of the set. So the variance of a set is the sum of the mean squares of the
    sets that contain it, with alternating signs, divided by that number. It is 0 if that is negative.

    Args:
        values: the mean score of each cell.
        levels: the levels of all factors.
        used: the factors with several levels.
        within: the variance of the mean of a cell over repetitions.
    """
    squares = _mean_squares(values, levels, used)
    estimates = {}
    for chosen in squares:
        signed = [(-1) ** (len(more) - len(chosen)) * square for more, square in squares.items() if chosen <= more]
        each = prod(len(levels[index]) for index in used if index not in chosen)
        estimates[chosen] = (fsum(signed) - (within if len(chosen) == len(used) else 0.0)) / each
    together = fsum(value for chosen, value in estimates.items() if len(chosen) > 1)
    main = [max(0.0, estimates[frozenset([index])]) for index in used]
    return [*main, max(0.0, together)] if len(used) > 1 else main


def _mean_squares(
    values: Mapping[Cell, float], levels: Sequence[list[str]], used: Sequence[int]
) -> dict[frozenset[int], float]:
    """Return the mean square of each set of factors: of its effects, without those of the sets in it."""
    rest = dict(values)  # without the effects so far
    squares = {}
    for chosen in _sets(used):
        groups: dict[Cell, list[float]] = {}
        for cell, value in rest.items():
            groups.setdefault(tuple(cell[index] for index in chosen), []).append(value)
        effects = {own: fmean(group) for own, group in groups.items()}
        rest = {cell: value - effects[tuple(cell[index] for index in chosen)] for cell, value in rest.items()}
        if chosen:
            total = fsum(len(groups[own]) * effect**2 for own, effect in effects.items())
            squares[frozenset(chosen)] = total / prod(len(levels[index]) - 1 for index in chosen)
    return squares


def _sets(factors: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield all sets of factors, the smaller ones first."""
    for size in range(len(factors) + 1):
        yield from combinations(factors, size)


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
