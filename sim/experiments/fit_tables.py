"""What a fit has found: the best values with intervals, what the data leaves open, and tables and JSON of it."""

from collections.abc import Mapping, Sequence
from statistics import correlation
from typing import Any, Final

import attrs

from sim.experiments.designs import Variable, variable
from sim.experiments.estimate import Estimate
from sim.experiments.fitting import Candidate, Fit, fit_of
from sim.experiments.points import short
from sim.experiments.results import Results
from sim.experiments.score_tables import Cell, Table, rounded
from sim.experiments.targets import most_by_chance

WIDE: Final = 0.5
"""The share of a range from which on the data says little about a value."""

ALONG: Final = 0.2
"""The share of both ranges from which on two values that go together cannot be told apart."""

TOGETHER: Final = 0.8
"""The correlation of ranks from which on two values go together."""

FEWEST: Final = 8
"""The fewest candidates that agree with the data for a statement about what it leaves open."""


@attrs.frozen
class Value:
    """A varied key, and which of its values agree with the data.

    Attributes:
        key: how it is called.
        low, high: the interval of a number: between these tried values lie all candidates that agree with the data;
            None: it has a list.
        values: those of a list.
        width: the share of the range, or of the list.
    """

    key: str
    low: float | None
    high: float | None
    values: tuple[str, ...]
    width: float


@attrs.frozen
class Found:
    """What a fit has found.

    Attributes:
        best: the candidate with the least loss; of several targets, the Pareto front.
        agreeing: the candidates that agree with the data.
        intervals: the varied keys with the values that agree with the data; empty: that is not known.
        by_chance: by target, the loss that 95 % of the runs of the best candidate would stay below, if one of its own
            runs were the data; None: it is not known.
        ended_early: how many candidates ended early.
        without_loss: how many have no loss.
        notes: what to know, one sentence each.
    """

    best: tuple[Candidate, ...]
    agreeing: tuple[Candidate, ...]
    intervals: tuple[Value, ...]
    by_chance: tuple[float | None, ...]
    ended_early: int
    without_loss: int
    notes: tuple[str, ...]


def found_by(results: Results) -> Found:
    """Return what a fit has found so far."""
    fit = Fit.of(results)
    best = tuple(fit.best)
    agreeing = tuple(_agreeing(fit, best))
    variables = [variable(text) for text in fit.plan.vary]
    intervals = tuple(_value(one, fit, agreeing) for one in variables) if len(agreeing) > 0 else ()
    early = sum(one.ended_early for one in fit.candidates)
    done = [one for one in fit.candidates if one.seeds or fit.is_done(one.number, 1)]
    without = sum(one.values is None for one in done)
    by_chance = tuple(_by_chance(fit, best[0])) if len(best) == 1 else ()
    notes = [*_notes(fit, best, by_chance, without), *_left_open(variables, intervals, agreeing)]
    return Found(
        best, agreeing, intervals, by_chance=by_chance, ended_early=early, without_loss=without, notes=tuple(notes)
    )


def _by_chance(fit: Fit, one: Candidate) -> list[float | None]:
    plan = fit_of(fit.plan)
    return [most_by_chance(target, own, plan.loss) for target, own in zip(plan.targets, one.curves, strict=True)]


def _agreeing(fit: Fit, best: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates that agree with the data.

    Their loss is one that runs of the best could have, if one of these were the data; or it is not clearly larger than
    that of the best. With one or two seeds, what runs do by chance is not known, so none agree.
    """
    if fit.plan.seeds[1] < 3:
        return []
    limits = [_by_chance(fit, one) for one in best]
    found = []
    for one in fit.candidates:
        if one.values is None:
            continue
        by_chance = any(
            all(limit is not None and loss <= limit for loss, limit in zip(one.values, own, strict=True))
            for own in limits
        )
        near = not one.ended_early and any(one is other or not fit.is_clearly_worse(one, other) for other in best)
        if by_chance or near:
            found.append(one)
    return found


def _texts(one: Variable, candidates: Sequence[Candidate]) -> list[str]:
    """Return the values of a key; of keys that change together, those of the first one."""
    return [candidate.point[one.key.split(",")[0]] for candidate in candidates]


def _value(one: Variable, fit: Fit, agreeing: Sequence[Candidate]) -> Value:
    """Return which values of a key agree with the data: an interval reaches to the next tried ones that do not."""
    name = _name(one, fit.plan.points[0])
    if one.low is None or one.high is None:
        values = tuple(dict.fromkeys(_texts(one, agreeing)))
        return Value(name, None, None, values, len(values) / len(one.values))
    own = sorted(map(float, _texts(one, agreeing)))
    every = sorted({float(one.low), *map(float, _texts(one, fit.candidates)), float(one.high)})
    low = max((value for value in every if value < own[0]), default=own[0])
    high = min((value for value in every if value > own[-1]), default=own[-1])
    return Value(name, low, high, (), (high - low) / (one.high - one.low))


def _name(one: Variable, point: Mapping[str, str]) -> str:
    return ", ".join(short(key, point) for key in one.key.split(","))


def _notes(fit: Fit, best: Sequence[Candidate], by_chance: Sequence[float | None], without: int) -> list[str]:
    plan, told = fit_of(fit.plan), []
    if without:
        told.append(f"{without} candidates have no loss, because a number of the data has no value in their runs")
    if fit.held:
        told.append(
            f"{fit.held} of {len(fit.done)} runs had ended before the last time of the data; their last values count"
            " for later times"
        )
    if empty := sum(target.empty for target in plan.targets):
        told.append(f"{empty} cells of the data are empty, and left out")
    if fit.plan.seeds[1] < 3:
        told.append("with fewer than 3 seeds, how far chance goes is not known: there are no intervals of values")
    for one in best[:1] if len(best) == 1 else ():
        for target, loss, most in zip(plan.targets, one.losses, by_chance, strict=True):
            if loss is not None and most is not None and loss.mean > most:
                told.append(
                    f"the best candidate does not reproduce {target.name}: its loss is {loss.mean:.4g}, and 95 % of its"
                    f" own runs would have less than {most:.4g}; the model, or the ranges, may be wrong"
                )
    return told


def _left_open(variables: Sequence[Variable], intervals: Sequence[Value], agreeing: Sequence[Candidate]) -> list[str]:
    """Return what the data does not determine: single values, and pairs that go together."""
    if len(agreeing) < FEWEST:
        return []
    told = [
        f"this data says little about {one.key}: candidates from all over {one.width:.0%} of its range agree with it"
        for one in intervals
        if one.width >= WIDE
    ]
    numbers = [(one, value) for one, value in zip(variables, intervals, strict=True) if value.low is not None]
    for place, (one, value) in enumerate(numbers):
        for other, another in numbers[place + 1 :]:
            pairs = [[float(text) for text in _texts(each, agreeing)] for each in (one, other)]
            if min(value.width, another.width) < ALONG or any(min(own) == max(own) for own in pairs):
                continue
            ranks = correlation(*map(_ranks, pairs))
            if abs(ranks) >= TOGETHER:
                how = "together" if ranks > 0 else "while the other falls"
                told.append(
                    f"{value.key} and {another.key} cannot be told apart by this data: one can rise {how}, and the"
                    " candidates still agree with it"
                )
    return told


def _ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value; equal ones have the mean of theirs."""
    return [sum(other < one for other in values) + (values.count(one) - 1) / 2 for one in values]


def best_table(results: Results, found: Found) -> Table:
    """Return a line for each of the best candidates: its number, values, and losses with half of their intervals."""
    plan = fit_of(results.plan)
    point = results.plan.points[0]
    heads = ["candidate", *(short(key, point) for key in point)]
    held_out = any(loss is not None for one in found.best for loss in one.held_out)
    for target in plan.targets:
        name = target.name if len(plan.targets) > 1 else plan.loss
        heads += [name, "±", *([f"{name} held out", "±"] if held_out else [])]
    rows: list[list[Cell]] = []
    for one in found.best:
        row: list[Cell] = [one.number, *one.point.values()]
        for loss, later in zip(one.losses, one.held_out, strict=True):
            row += [*_two(loss), *(_two(later) if held_out else [])]
        rows.append(row)
    return heads, rows


def _two(one: Estimate | None) -> list[Cell]:
    return [None, None] if one is None else [rounded(one.mean), rounded(one.half)]


def intervals_table(found: Found) -> Table:
    """Return a line for each varied key: which of its values agree with the data."""
    rows: list[list[Cell]] = [
        [one.key, rounded(one.low), rounded(one.high), ", ".join(one.values), f"{one.width:.0%}"]
        for one in found.intervals
    ]
    if any(one.values for one in found.intervals):
        return ["agree with the data", "from", "to", "values", "of the range"], rows
    return ["agree with the data", "from", "to", "of the range"], [[*row[:3], row[4]] for row in rows]


def candidates_rows(results: Results) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the columns and a row for each candidate, for a DataFrame or a file."""
    fit, plan = Fit.of(results), fit_of(results.plan)
    best = {one.number for one in fit.best}
    names = [target.name if len(plan.targets) > 1 else "loss" for target in plan.targets]
    columns = ["candidate", "batch", *results.plan.points[0], "seeds"]
    columns += [part for name in names for part in (name, f"{name}_half", f"{name}_held_out")]
    rows = []
    for one in fit.candidates:
        row: list[Any] = [one.number, one.number // plan.batch, *map(_number, one.point.values()), one.seeds]
        for loss, later in zip(one.losses, one.held_out, strict=True):
            row += [loss and loss.mean, loss and loss.half, later and later.mean]
        rows.append((*row, one.ended_early, one.number in best))
    return [*columns, "ended_early", "best"], rows


def _number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def fit_to_json(results: Results) -> dict[str, Any]:
    """Return what a fit has found as JSON."""
    found, plan = found_by(results), fit_of(results.plan)
    return {
        "targets": [target.name for target in plan.targets], "loss": plan.loss,
        "best": [
            {
                "candidate": one.number, "values": dict(one.point), "seeds": one.seeds,
                "losses": [None if loss is None else attrs.asdict(loss) for loss in one.losses],
                "held_out": [None if loss is None else attrs.asdict(loss) for loss in one.held_out],
            }
            for one in found.best
        ],
        "intervals": [attrs.asdict(one) for one in found.intervals],
        "agreeing": [one.number for one in found.agreeing], "by_chance": list(found.by_chance),
        "candidates": len(results.plan.points), "planned": plan.candidates, "ended_early": found.ended_early,
        "without_loss": found.without_loss, "notes": list(found.notes),
    }  # fmt: skip
