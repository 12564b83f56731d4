"""Tables of the results of experiments, as headings and rows: for a terminal, and for notebooks."""

from collections.abc import Iterable, Mapping, Sequence

import attrs

from sim.experiments.arms import ArmReach, Difference
from sim.experiments.estimate import Estimate
from sim.experiments.experiment import PointEstimates
from sim.experiments.plan import Plan
from sim.experiments.points import short
from sim.experiments.scores import ScoreSummary
from sim.experiments.variance import Component
from sim.kernel.duration import seconds_text

Cell = str | int | float | bool | None
Table = tuple[list[str], list[list[Cell]]]
"""The headings, and the rows."""


@attrs.frozen
class Line:
    """One line of estimates: the cells before the outcomes, and the outcomes by name."""

    cells: Sequence[Cell]
    outcomes: Mapping[str, Estimate]


def lines_table(headings: Sequence[str], lines: Sequence[Line]) -> Table:
    """Return lines as a table. An outcome without an interval in all lines, as of a single seed, has one column."""
    names = list(dict.fromkeys(name for line in lines for name in line.outcomes))
    spread = {name for line in lines for name, one in line.outcomes.items() if one.half}
    heads = [*headings]
    for name in names:
        heads += [name, "±"] if name in spread else [name]
    rows = []
    for line in lines:
        row = [*line.cells]
        for name in names:
            found = line.outcomes.get(name)
            row.append(None if found is None else rounded(found.mean))
            if name in spread:
                row.append(None if found is None else rounded(found.half))
        rows.append(row)
    return heads, rows


def estimates_table(plan: Plan, estimates: Sequence[PointEstimates], most: int) -> Table:
    """Return a line for each combination or arm, for the first `most` of them, with its outcomes."""
    first = estimates[0]
    failed, precise = any(row.failed for row in estimates), first.precise is not None
    names = ["arm"] if plan.arms else [short(key, first.point) for key in first.point]
    headings = [*names, "seeds", *(["failed"] if failed else []), *(["precise"] if precise else [])]
    lines = []
    for row in estimates[:most]:
        cells: list[Cell] = [*([row.label] if plan.arms else row.point.values()), row.seeds]
        cells += [*([row.failed] if failed else []), *(["yes" if row.precise else "no"] if precise else [])]
        lines.append(Line(cells, row.outcomes))
    return lines_table(headings, lines)


def differences_table(found: Iterable[Difference]) -> Table:
    """Return a line for each arm and outcome."""
    rows: list[list[Cell]] = [
        [one.arm, one.outcome, rounded(one.difference.mean), rounded(one.difference.half), rounded(one.least_effect),
         one.changed]
        for one in found
    ]  # fmt: skip
    return ["arm", "outcome", "difference", "±", "least effect", "seeds that differ"], rows


def reach_table(found: Iterable[ArmReach]) -> Table:
    """Return a line for each arm: how many agents it reached, and the earliest of them."""
    rows: list[list[Cell]] = []
    for arm in found:
        earliest = min(arm.agents, key=lambda one: one.times[0], default=None)
        when = "" if earliest is None else f"{earliest.agent} at {seconds_text(earliest.times[0])}"
        rows.append([arm.arm, rounded(arm.count.mean), rounded(arm.count.half), when])
    return ["arm", "agents", "±", "the earliest"], rows


def scores_table(found: Iterable[ScoreSummary]) -> Table:
    """Return a line for each measure and judge."""
    rows: list[list[Cell]] = []
    for one in found:
        mean, half = (None, None) if one.mean is None else (rounded(one.mean.mean), rounded(one.mean.half))
        options = ", ".join(f"{option} {count}" for option, count in one.options.items())
        rows.append([one.measure, one.judge, one.runs, one.agents, mean, half, options])
    return ["measure", "judge", "runs", "agents", "mean", "±", "options"], rows


def variance_table(found: Mapping[str, Sequence[Component]]) -> Table:
    """Return a line for each measure and source of variance."""
    rows: list[list[Cell]] = [
        [name, part.source, part.levels or None, rounded(part.variance), f"{part.share:.0%}"]
        for name, own in found.items()
        for part in own
    ]
    return ["measure", "source", "levels", "variance", "share"], rows


def rounded(value: float | None) -> float | None:
    """Round to four significant digits, the precision of a mean over seeds."""
    return None if value is None else float(f"{value:.4g}")
