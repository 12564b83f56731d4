"""What a model is fitted to: data from CSV files, and how far a model is from it.

A file with a column `time` has a metric in each other column, at these simulated times. A file without it has one row,
with an outcome in each column. One file is one target; with several, a fit looks for trade-offs.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import pstdev
from typing import Final, Literal

import attrs

from sim.base.errors import UsageError
from sim.experiments.csv_files import Lines, read_csv, text_of
from sim.experiments.estimate import Estimate, mean_of, student
from sim.experiments.points import as_number
from sim.kernel.duration import seconds_text, to_ns, to_seconds

Loss = Literal["rmse", "mae", "rmsle", "max"]
Sampler = Literal["tpe", "cmaes"]

TIME: Final = "time"
"""The column that has the simulated times."""

MOST_CELLS: Final = 10_000
"""The most numbers of a target: they are a part of the plan."""

MOST_BEST: Final = 10
"""The most candidates of a Pareto front that get held-out seeds."""

Lack = Literal["failed", "no value", "negative", "too large"]
"""Why a candidate has no loss."""

LACKS: Final[Mapping[Lack, str]] = {
    "failed": "a run failed",
    "no value": "a number of the data has no value in a run",
    "negative": "the loss rmsle takes no number below 0, and a run has one",
    "too large": "the loss is too large for a number",
}
"""The reasons in words."""

_MOST_BYTES: Final = 5_000_000
_HINT: Final = "write a column `time` and one for each metric; or one row with a column for each outcome"


@attrs.frozen
class Cell:
    """One number of the data.

    Attributes:
        name: the metric or the outcome.
        value: the number.
        seconds: when, in simulated seconds; None: at the end of a run.
    """

    name: str
    value: float
    seconds: float | None = None


@attrs.frozen
class Target:
    """Data to which a model is fitted.

    Attributes:
        name: the name of its file, without its ending.
        cells: its numbers. Empty cells of the file are none.
        empty: how many cells of the file are empty.
    """

    name: str
    cells: tuple[Cell, ...]
    empty: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics or outcomes that it has."""
        return tuple(dict.fromkeys(cell.name for cell in self.cells))

    @property
    def scales(self) -> Mapping[str, float]:
        """By what differences are divided: 1 for a single column; of several, the spread of the data of each.

        The spread is the standard deviation, or the size of the number if there is one alone.
        """
        if len(self.names) == 1:
            return {self.names[0]: 1.0}
        values = {name: [cell.value for cell in self.cells if cell.name == name] for name in self.names}
        return {name: pstdev(own) or abs(own[0]) or 1.0 for name, own in values.items()}


@attrs.frozen
class FitPlan:
    """What a fit looks for, and how.

    Attributes:
        targets: the data.
        loss: how far a model is from it; see `distance`.
        sampler: how Optuna chooses candidates: `tpe` (Bergstra et al. 2011) or `cmaes` (Hansen 2016).
        candidates: how many combinations are tried.
        batch: how many are chosen at once, from what those before have shown.
        held_out: further seeds for the best candidates.
        version: the version of Optuna, whose other versions may choose otherwise.
    """

    targets: tuple[Target, ...]
    loss: Loss
    sampler: Sampler
    candidates: int
    batch: int
    held_out: int
    version: str

    @property
    def most_best(self) -> int:
        """How many candidates get held-out seeds, at most: the best one, or the first ones of a Pareto front."""
        return 1 if len(self.targets) == 1 else min(MOST_BEST, self.candidates)

    def most_trials(self, seeds: int) -> int:
        """Return how many trials there are at most, by the number of seeds in the search."""
        return self.candidates * seeds + self.most_best * self.held_out

    def check_loss(self) -> None:
        """Check that the loss can be taken of the data.

        Raises:
            UsageError: if it cannot.
        """
        if self.loss != "rmsle":
            return
        for target in self.targets:
            if low := next((cell for cell in target.cells if cell.value < 0), None):
                said = f"{target.name} has {low.value:g} for {low.name:.60}, and the loss rmsle takes no number below 0"
                raise UsageError(said, hint="take --loss rmse or --loss mae")


def read_target(path: Path) -> Target:
    """Return the data of a CSV file.

    Raises:
        UsageError: if it cannot be read, or is no such data.
    """
    heads, rows = read_csv(path, text_of(path, _MOST_BYTES), "column", _HINT)
    _check_table(path, heads, rows)
    cells: list[Cell] = []
    empty = 0
    lines: dict[float | None, int] = {}
    for line, row in rows:
        seconds = _seconds(path, line, row[heads.index(TIME)]) if TIME in heads else None
        if (before := lines.setdefault(seconds, line)) != line and seconds is not None:
            said = f"{path}, line {line}: the time {seconds_text(seconds)} is that of line {before}"
            raise UsageError(said, hint="give the mean of both")
        for head, text in zip(heads, row, strict=True):
            if head != TIME and text:
                cells.append(Cell(head, _number(path, line, head, text), seconds))
            empty += head != TIME and not text
    if not cells:
        raise UsageError(f"{path} has no numbers", hint=_HINT)
    if len(cells) > MOST_CELLS:
        raise UsageError(f"{path} has {len(cells):,} numbers; the limit is {MOST_CELLS:,}", hint="thin it out")
    return Target(path.stem, tuple(cells), empty)


def _check_table(path: Path, heads: Sequence[str], rows: Lines) -> None:
    if not rows or not [head for head in heads if head != TIME]:
        raise UsageError(f"{path} has no numbers", hint=_HINT)
    if "" in heads:
        raise UsageError(f"{path}: a column has no name", hint=_HINT)
    if TIME not in heads and len(rows) > 1:
        raise UsageError(f"{path} has {len(rows)} rows, and no column `time`", hint=_HINT)


def _seconds(path: Path, line: int, text: str) -> float:
    try:
        number = as_number(text)
        return to_seconds(to_ns(text if number is None else number))
    except (UsageError, ValueError, OverflowError) as error:
        hint = "write seconds, or a duration such as 12h or 3d"
        raise UsageError(f"{path}, line {line}: {text!r:.40} is no simulated time", hint=hint) from error


def _number(path: Path, line: int, head: str, text: str) -> float:
    value = as_number(text)
    if value is None:
        said = f"{path}, line {line}: {head} is {text!r:.40}, which is no number"
        raise UsageError(said, hint="write a number, or leave the cell empty")
    return value


Curve = Sequence[float | None]
"""What a run shows: one number for each cell of a target; None: it has none."""


def distance(target: Target, curve: Curve, loss: Loss, data: Curve | None = None) -> float | None:
    """Return how far a model is from the data.

    `rmse` is the root of the mean squared difference, `mae` the mean difference without signs, `max` the largest one,
    and `rmsle` the rmse of log(1 + x), for what grows by factors.

    Args:
        target: the data.
        curve: what the model shows.
        loss: the loss.
        data: other numbers than those of the target.

    Returns:
        None if the model has no number for some cell, one that the loss cannot take, or the loss is not finite.
    """
    wanted: Curve = [cell.value for cell in target.cells] if data is None else data
    scales, differences = target.scales, []
    for cell, shown, value in zip(target.cells, curve, wanted, strict=True):
        if shown is None or value is None:
            return None
        if loss != "rmsle":
            differences.append(abs(shown - value) / scales[cell.name])
        elif min(shown, value) < 0:
            return None
        else:
            differences.append(abs(math.log1p(shown) - math.log1p(value)))
    if loss == "max":
        whole = max(differences)
    else:
        whole = mean_of(differences) if loss == "mae" else math.sqrt(mean_of([one * one for one in differences]))
    return whole if math.isfinite(whole) else None


def mean_curve(curves: Sequence[Curve]) -> Curve:
    """Return the means of several runs; None for a cell for which one of them has no number.

    A mean over the others would be that of those runs that went well.
    """
    columns = ([value for value in cells if value is not None] for cells in zip(*curves, strict=True))
    return [mean_of(values) if len(values) == len(curves) else None for values in columns]


def lack_of(target: Target, curves: Mapping[int, Curve], loss: Loss) -> Lack | None:
    """Return why runs that have not failed have no loss; None: they have one."""
    values = [value for curve in curves.values() for value in curve]
    if None in values:
        return "no value"
    if loss == "rmsle" and any(value is not None and value < 0 for value in values):
        return "negative"
    return "too large" if distance(target, mean_curve([*curves.values()]), loss) is None else None


def pseudo_values(target: Target, curves: Mapping[int, Curve], loss: Loss) -> dict[int, float]:
    """Return what each seed contributes to the loss of the mean over seeds: the pseudo-values of the jackknife.

    Their spread over seeds is that of the loss, and differences of two candidates can be taken seed by seed (Tukey,
    Annals of Mathematical Statistics 29, 1958).

    Args:
        target: the data.
        curves: the runs by seed.
        loss: the loss.

    Returns:
        Nothing if there are fewer than two seeds, a loss is not known, or a value is too large for a float.
    """
    whole = distance(target, mean_curve([*curves.values()]), loss) if len(curves) > 1 else None
    if whole is None:
        return {}
    count, contributions = len(curves), {}
    for seed in curves:
        rest = distance(target, mean_curve([one for other, one in curves.items() if other != seed]), loss)
        if rest is None:
            return {}
        contributions[seed] = count * whole - (count - 1) * rest
    return contributions if all(map(math.isfinite, contributions.values())) else {}


def loss_of(target: Target, curves: Mapping[int, Curve], loss: Loss) -> Estimate | None:
    """Return the loss of the mean over seeds, with half of its 95 % interval by the jackknife; None: it has none."""
    whole = distance(target, mean_curve([*curves.values()]), loss) if curves else None
    if whole is None:
        return None
    spread = Estimate.of([*pseudo_values(target, curves, loss).values()])
    return Estimate(len(curves), whole, None if spread is None else spread.half)


def most_by_chance(target: Target, curves: Mapping[int, Curve], loss: Loss) -> float | None:
    """Return the 97.5 % bound of the loss by chance: if one more of these runs were the data, its loss would be below.

    Each run is compared with the mean of the others. The bound is the upper end of a prediction interval for one more
    such loss, from the 97.5 % quantile of Student's t (Hahn and Meeker, Statistical Intervals, 1991, chapter 4). That
    is for normal losses, as those of many numbers are; of few numbers, a little less than 97.5 % are below it.

    Returns:
        None if there are fewer than three seeds, or a loss is not known.
    """
    if len(curves) < 3:
        return None
    losses = []
    for seed, own in curves.items():
        others = mean_curve([one for other, one in curves.items() if other != seed])
        one = distance(target, others, loss, own)
        if one is None:
            return None
        losses.append(one)
    count, mean = len(losses), mean_of(losses)
    spread = math.sqrt(math.fsum((one - mean) * (one - mean) for one in losses) / (count - 1))
    most = mean + student(count - 1) * spread * math.sqrt(1 + 1 / count)
    return most if math.isfinite(most) else None
