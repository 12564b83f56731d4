"""What a fit has found: the best values with intervals, what the data leaves open, and tables and JSON of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import correlation
from typing import Any, Final

import attrs

from sim.base.text import counted
from sim.experiments.designs import VariedKey, each, variable
from sim.experiments.estimate import Estimate
from sim.experiments.fitting import Fit, TriedCombination, fit_of
from sim.experiments.points import number_or_text, short
from sim.experiments.results import Results
from sim.experiments.score_tables import Cell, Table, rounded
from sim.experiments.targets import LACKS, MOST_BEST, most_by_chance
from sim.kernel.codec import Json

WIDE: Final = 0.5
"""The share of a range from which on the data says little about a value."""

ALONG: Final = 0.2
"""The share of both ranges from which on two values that go together cannot be distinguished."""

TOGETHER: Final = 0.8
"""The correlation of ranks from which on two values go together."""

FEWEST: Final = 8
"""The fewest candidates that agree with the data for a statement about what it leaves open: the intervals of fewer are
as wide as the gaps between candidates, and their values go together by chance."""


@attrs.frozen
class AgreeingValues:
    """A varied key, and which of its values agree with the data.

    Attributes:
        key: how it is called.
        low, high: the interval of a number: between these tried values lie all candidates that agree with the data;
            None: it has a list.
        values: those of a list; of keys that change together, a list for each.
        width: the share of the range, or of the list.
        of: how many values the list has; 0: it is a range.
    """

    key: str
    low: float | None
    high: float | None
    values: tuple[str, ...]
    width: float
    of: int


@attrs.frozen
class FitFindings:
    """What a fit has found.

    Attributes:
        best: the candidate with the least loss; of several targets, the Pareto front.
        reproduced: whether the loss of the best, or of one of the front for each target, is one that runs of it could
            have, if one of these were the data; None: it is not known.
        agreeing: the candidates that agree with the data; none if it is not reproduced.
        nearest: if it is not reproduced, the candidates that are not clearly worse than one of the best for any target.
        intervals: the varied keys with the values of these candidates; empty: that is not known.
        by_chance: by target, the 97.5 % bound of the loss of the best candidate, if one of its own runs were the data;
            None: it is not known. Empty with several targets.
        ended_early: how many candidates ended early.
        without_loss: how many have no loss.
        notes: what to know, one sentence each.
    """

    best: tuple[TriedCombination, ...]
    reproduced: bool | None
    agreeing: tuple[TriedCombination, ...]
    nearest: tuple[TriedCombination, ...]
    intervals: tuple[AgreeingValues, ...]
    by_chance: tuple[float | None, ...]
    ended_early: int
    without_loss: int
    notes: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """How many candidates agree with the data, in words."""
        if self.reproduced is None:
            return "whether they agree with the data is not known"
        if not self.reproduced:
            return "none agrees with the data: the fit does not reproduce it"
        count = len(self.agreeing)
        return f"{count:,} of them {'agrees' if count == 1 else 'agree'} with the data"

    @property
    def heading(self) -> str:
        """What the values of the intervals are."""
        return "agree with the data" if self.reproduced else "nearest to the data"


def found_by(results: Results) -> FitFindings:
    """Return what a fit has found so far."""
    fit = Fit.of(results)
    best = tuple(fit.best)
    limits = [_by_chance(fit, one) for one in best]
    enough = fit.plan.seeds[1] >= 3 and bool(best)
    has_limits = enough and all(limit is not None for own in limits for limit in own)
    sound = [(one, own) for one, own in zip(best, limits, strict=True) if _within(one, own)]
    agreeing = tuple(one for one in fit.judged if _agrees(fit, one, sound)) if has_limits else ()
    nearest = tuple(one for one in fit.judged if _is_near(fit, one, best)) if has_limits and not sound else ()
    variables = [variable(text) for text in fit.plan.vary]
    intervals = tuple(_value(one, fit, agreeing or nearest) for one in variables) if agreeing or nearest else ()
    lacking = [one for one in fit.candidates if one.lack and one.same_as is None and fit.is_finished(one)]
    notes = [
        *_notes(fit, results, lacking),
        *_not_reproduced(fit, best, limits),
        *_left_open(variables, intervals, agreeing),
    ]
    return FitFindings(
        best,
        bool(sound) if has_limits else None,
        agreeing,
        nearest,
        intervals,
        by_chance=tuple(limits[0]) if len(best) == 1 else (),
        ended_early=sum(one.ended_early for one in fit.candidates),
        without_loss=len(lacking),
        notes=tuple(notes),
    )


def _by_chance(fit: Fit, one: TriedCombination) -> list[float | None]:
    plan = fit_of(fit.plan)
    return [most_by_chance(target, own, plan.loss) for target, own in zip(plan.targets, one.curves, strict=True)]


def _within(one: TriedCombination, limits: Sequence[float | None]) -> bool:
    """Return whether each loss of a candidate is one that runs have by chance."""
    return one.values is not None and all(
        limit is not None and loss <= limit for loss, limit in zip(one.values, limits, strict=True)
    )


def _agrees(fit: Fit, one: TriedCombination, sound: Sequence[tuple[TriedCombination, Sequence[float | None]]]) -> bool:
    """Return whether a candidate agrees with the data, as some of the best do.

    Its losses are those that runs of one of these could have, if one of its runs were the data; or none is clearly
    larger than that of one of these.

    Args:
        fit: the fit.
        one: the candidate.
        sound: those of the best that reproduce the data, with the losses that they have by chance.
    """
    return any(_within(one, limits) for _, limits in sound) or _is_near(fit, one, [best for best, _ in sound])


def _is_near(fit: Fit, one: TriedCombination, best: Iterable[TriedCombination]) -> bool:
    """Return whether a candidate is not clearly worse than one of the best for any target."""
    return not one.ended_early and any(one is other or not any(fit.clearly_worse(one, other)) for other in best)


def _chosen(one: VariedKey, candidates: Sequence[TriedCombination]) -> list[str]:
    """Return those values of a list that candidates have, in the order of the list."""
    had = {tuple(candidate.point[key] for key in one.keys) for candidate in candidates}
    return [value for value in one.values if tuple(each({one.key: value}).values()) in had]


def _numbers(one: VariedKey, candidates: Sequence[TriedCombination]) -> list[float]:
    """Return the values of a range that candidates have."""
    return [float(candidate.point[one.key]) for candidate in candidates]


def _value(one: VariedKey, fit: Fit, agreeing: Sequence[TriedCombination]) -> AgreeingValues:
    """Return which values of a key agree with the data: an interval reaches to the next tried ones that do not."""
    name = _name(one, fit.plan.points[0])
    if one.low is None or one.high is None:
        values = tuple(_chosen(one, agreeing))
        return AgreeingValues(name, None, None, values, len(values) / len(one.values), len(one.values))
    own = sorted(_numbers(one, agreeing))
    every = sorted({float(one.low), *_numbers(one, fit.judged), float(one.high)})
    low = max((value for value in every if value < own[0]), default=own[0])
    high = min((value for value in every if value > own[-1]), default=own[-1])
    return AgreeingValues(name, low, high, (), (high - low) / (one.high - one.low), 0)


def _name(one: VariedKey, point: Mapping[str, str]) -> str:
    return ", ".join(short(key, point) for key in one.keys)


def _notes(fit: Fit, results: Results, lacking: Sequence[TriedCombination]) -> Iterator[str]:
    """Yield what is missing: losses, ends of runs, samples, cells, held-out seeds."""
    plan, whole = fit_of(fit.plan), fit.plan.seeds[1]
    for lack, why in LACKS.items():
        count = sum(one.lack == lack for one in lacking)
        if count:
            many = f"{counted(count, 'candidate has', 'candidates have')} no loss, and no part in what is found: {why}"
            yield many + (_first_failure(fit, results) if lack == "failed" else "")
    later = fit.plan.some_seeds(whole + plan.held_out)[whole:]
    if failed := sum(status != "measured" and seed in later for (_, seed), status in fit.done.items()):
        runs = counted(failed, "run with a held-out seed", "runs with held-out seeds")
        yield f"{runs} failed, so a held-out loss is not known{_first_failure(fit, results)}"
    if fit.ended_before:
        runs = f"{fit.ended_before:,} of {counted(len(fit.done), 'run')}"
        yield f"{runs} had ended before the last time of the data; the last values count for later times"
    if fit.thinned:
        yield f"{fit.thinned} At a time of the data, the last one before it counts."
    if same := sum(one.same_as is not None for one in fit.candidates):
        yield f"{counted(same, 'candidate is', 'candidates are')} equal to earlier ones, whose runs count for them"
    if empty := sum(target.empty for target in plan.targets):
        yield f"{counted(empty, 'cell of the data is', 'cells of the data are')} empty, and left out"
    if whole < 3:
        yield "with fewer than 3 seeds, how far chance goes is not known: there are no intervals of values"
    if plan.held_out and len(fit.best) > MOST_BEST:
        yield f"the first {MOST_BEST} of the {len(fit.best)} candidates of the Pareto front get held-out seeds"


def _first_failure(fit: Fit, results: Results) -> str:
    """Return how many runs failed, and the first of them."""
    problems = results.problems()
    number, seed, why = problems[0]
    return (
        f" ({len(problems):,} of {counted(len(fit.done), 'run')} failed, first candidate {number}, seed {seed}: {why})"
    )


def _not_reproduced(
    fit: Fit, best: Sequence[TriedCombination], limits: Sequence[Sequence[float | None]]
) -> Iterator[str]:
    """Yield which targets no candidate reproduces."""
    plan, hint = fit_of(fit.plan), "the model or the ranges may be wrong, or the candidates too few"
    pairs = [
        [(loss, limit) for loss, limit in zip(one.values or (), own, strict=True) if limit is not None]
        for one, own in zip(best, limits, strict=True)
    ]
    if not pairs or any(len(own) < len(plan.targets) for own in pairs):
        return
    missed = [place for place in range(len(plan.targets)) if all(own[place][0] > own[place][1] for own in pairs)]
    for place in missed:
        name = plan.targets[place].name
        if len(best) > 1:
            yield f"no candidate of the Pareto front reproduces {name}; {hint}"
            continue
        loss, limit = pairs[0][place]
        chance = f"{limit:.4g} is the 97.5 % bound for its own runs" if limit else "its own runs do not differ"
        yield f"the best candidate does not reproduce {name}: its loss is {loss:.4g}, and {chance}; {hint}"
    if not missed and not any(_within(one, own) for one, own in zip(best, limits, strict=True)):
        yield f"no candidate reproduces all targets at once; {hint}, or the targets contradict each other"


def _left_open(
    variables: Sequence[VariedKey], intervals: Sequence[AgreeingValues], agreeing: Sequence[TriedCombination]
) -> list[str]:
    """Return what the data does not determine: single values, and pairs that go together."""
    if 0 < len(agreeing) < FEWEST:
        count = counted(len(agreeing), "candidate agrees", "candidates agree")
        return [f"{count} with the data, so intervals are as wide as the gaps between candidates: try more candidates"]
    if not agreeing:
        return []
    notes = [f"this data says little about {one.key}: {_spread(one)}" for one in intervals if _is_wide(one)]
    numbers = [(one, value) for one, value in zip(variables, intervals, strict=True) if value.low is not None]
    for place, (one, value) in enumerate(numbers):
        for other, another in numbers[place + 1 :]:
            pairs = [_numbers(each_of, agreeing) for each_of in (one, other)]
            if min(value.width, another.width) < ALONG or any(min(own) == max(own) for own in pairs):
                continue
            ranks = correlation(*map(_ranks, pairs))
            if abs(ranks) >= TOGETHER:
                how = "together" if ranks > 0 else "while the other falls"
                notes.append(
                    f"{value.key} and {another.key} cannot be distinguished by this data: one can rise {how}, and the"
                    " candidates still agree with it"
                )
    return notes


def _is_wide(one: AgreeingValues) -> bool:
    """Return whether data says little about a value. One value of a list is a decision, however short the list is."""
    return one.width >= WIDE and (not one.of or len(one.values) > 1)


def _spread(one: AgreeingValues) -> str:
    if one.of:
        return f"{len(one.values)} of its {one.of} values agree with it"
    return f"the values that agree with it reach over {one.width:.0%} of its range"


def _ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value; equal ones have the mean of theirs."""
    return [sum(other < one for other in values) + (values.count(one) - 1) / 2 for one in values]


def best_table(results: Results, fitted: FitFindings) -> Table:
    """Return a line for each of the best candidates: its number, values, and losses with half of their intervals."""
    plan = fit_of(results.plan)
    point = results.plan.points[0]
    heads = ["candidate", *(short(key, point) for key in point)]
    held_out = any(loss is not None for one in fitted.best for loss in one.held_out)
    for target in plan.targets:
        name = target.name if len(plan.targets) > 1 else plan.loss
        heads += [name, "±", *([f"{name} held out", "±"] if held_out else [])]
    rows: list[list[Cell]] = []
    for one in fitted.best:
        row: list[Cell] = [one.number, *one.point.values()]
        for loss, later in zip(one.losses, one.held_out, strict=True):
            row += [*_two(loss), *(_two(later) if held_out else [])]
        rows.append(row)
    return heads, rows


def _two(one: Estimate | None) -> list[Cell]:
    return [None, None] if one is None else [rounded(one.mean), rounded(one.half)]


def intervals_table(fitted: FitFindings) -> Table:
    """Return a line for each varied key: which of its values agree with the data, or are nearest to it."""
    rows: list[list[Cell]] = [
        [one.key, rounded(one.low), rounded(one.high), ", ".join(one.values), f"{one.width:.0%}"]
        for one in fitted.intervals
    ]
    if any(one.values for one in fitted.intervals):
        return [fitted.heading, "from", "to", "values", "of the range"], rows
    return [fitted.heading, "from", "to", "of the range"], [[*row[:3], row[4]] for row in rows]


def candidates_rows(results: Results) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the columns and a row for each candidate, for a DataFrame or a file."""
    fit, plan = Fit.of(results), fit_of(results.plan)
    best = {one.number for one in fit.best}
    names = [target.name if len(plan.targets) > 1 else "loss" for target in plan.targets]
    columns = ["candidate", "batch", *results.plan.points[0], "seeds", "failed"]
    columns += [part for name in names for part in (name, f"{name}_half", f"{name}_held_out")]
    rows = []
    for one in fit.candidates:
        row: list[Any] = [
            one.number,
            one.number // plan.batch,
            *map(number_or_text, one.point.values()),
            one.seeds,
            one.failed,
        ]
        for loss, later in zip(one.losses, one.held_out, strict=True):
            row += [loss and loss.mean, loss and loss.half, later and later.mean]
        rows.append((*row, one.ended_early, one.same_as, one.number in best))
    return [*columns, "ended_early", "same_as", "best"], rows


def fit_to_json(results: Results) -> dict[str, Json]:
    """Return what a fit has found as JSON."""
    fitted, plan = found_by(results), fit_of(results.plan)
    return {
        "targets": [target.name for target in plan.targets],
        "loss": plan.loss,
        "best": [
            {
                "candidate": one.number,
                "values": dict(one.point),
                "seeds": one.seeds,
                "failed": one.failed,
                "losses": [None if loss is None else attrs.asdict(loss) for loss in one.losses],
                "held_out": [None if loss is None else attrs.asdict(loss) for loss in one.held_out],
            }
            for one in fitted.best
        ],
        "intervals": [attrs.asdict(one) for one in fitted.intervals],
        "reproduced": fitted.reproduced,
        "agreeing": [one.number for one in fitted.agreeing],
        "nearest": [one.number for one in fitted.nearest],
        "by_chance": list(fitted.by_chance),
        "candidates": len(results.plan.points),
        "planned": plan.candidates,
        "ended_early": fitted.ended_early,
        "without_loss": fitted.without_loss,
        "notes": list(fitted.notes),
    }
