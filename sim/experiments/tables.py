"""Tables of the results of experiments, as headings and rows: for a terminal, and for notebooks."""

from collections.abc import Iterable, Mapping, Sequence

import attrs

from sim.experiments.arms import ArmReach, Difference
from sim.experiments.estimate import Estimate
from sim.experiments.experiment import PointEstimates
from sim.experiments.plan import Plan
from sim.experiments.points import short
from sim.experiments.score_tables import Cell, Table, rounded
from sim.kernel.duration import seconds_text


@attrs.frozen
class EstimateRow:
    """One line of estimates: the cells before the outcomes, the outcomes by name, and the seeds; None: not known."""

    cells: Sequence[Cell]
    outcomes: Mapping[str, Estimate]
    seeds: int | None = None


def lines_table(headings: Sequence[str], lines: Sequence[EstimateRow]) -> Table:
    """Return lines as a table.

    An outcome without an interval in all lines, as of a single seed, has one column. One that has no value for some
    seeds has a column more, with the number of those that have.
    """
    names = list(dict.fromkeys(name for line in lines for name in line.outcomes))
    spread = {name for line in lines for name, one in line.outcomes.items() if one.half}
    partial = {name for name in names for line in lines if line.seeds is not None and _is_partial(line, name)}
    heads = [*headings]
    for name in names:
        heads += [name, *(["±"] if name in spread else []), *(["n"] if name in partial else [])]
    rows = []
    for line in lines:
        row = [*line.cells]
        for name in names:
            estimate = line.outcomes.get(name)
            row.append(None if estimate is None else rounded(estimate.mean))
            if name in spread:
                row.append(None if estimate is None else rounded(estimate.half))
            if name in partial:
                row.append(0 if estimate is None else estimate.n)
        rows.append(row)
    return heads, rows


def _is_partial(line: EstimateRow, name: str) -> bool:
    """Return whether an outcome has no value for some seeds of a line."""
    return name not in line.outcomes or line.outcomes[name].n != line.seeds


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
        lines.append(EstimateRow(cells, row.outcomes, row.seeds))
    return lines_table(headings, lines)


def differences_table(differences: Iterable[Difference], what: str = "arm") -> Table:
    """Return a line for each arm or combination (`what`) and outcome, with the seeds if their number differs."""
    differences = list(differences)
    most = max((max(one.difference.n, one.baseline.n) for one in differences), default=0)
    partial = any(one.difference.n < most for one in differences)  # some have no value for some seeds
    rows: list[list[Cell]] = [
        [
            one.arm,
            one.outcome,
            *([one.difference.n] if partial else []),
            rounded(one.difference.mean),
            rounded(one.difference.half),
            rounded(one.least_effect),
            one.changed,
        ]
        for one in differences
    ]
    seeds = ["n"] if partial else []
    return [what, "outcome", *seeds, "difference", "±", "least effect", "seeds that differ"], rows


def reach_table(arms: Iterable[ArmReach]) -> Table:
    """Return a line for each arm: how many agents it reached, and the earliest of them."""
    rows: list[list[Cell]] = []
    for arm in arms:
        earliest = min(arm.agents, key=lambda one: one.times[0], default=None)
        when = "" if earliest is None else f"{earliest.agent} at {seconds_text(earliest.times[0])}"
        rows.append([arm.arm, rounded(arm.count.mean), rounded(arm.count.half), when])
    return ["arm", "agents", "±", "the earliest"], rows
