"""Tables of scores, as headings and rows: for a terminal, and for notebooks."""

from collections.abc import Iterable, Mapping, Sequence

from sim.experiments.scores import ScoreSummary
from sim.experiments.variance import Component

Cell = str | int | float | bool | None
Table = tuple[list[str], list[list[Cell]]]
"""The headings, and the rows."""


def scores_table(summaries: Iterable[ScoreSummary]) -> Table:
    """Return a line for each measure and judge."""
    rows: list[list[Cell]] = []
    for one in summaries:
        mean, half = (None, None) if one.mean is None else (rounded(one.mean.mean), rounded(one.mean.half))
        options = ", ".join(f"{option} {count}" for option, count in one.options.items())
        rows.append([one.measure, one.judge, one.runs, one.agents, mean, half, options])
    return ["measure", "judge", "runs", "agents", "mean", "±", "options"], rows


def variance_table(components: Mapping[str, Sequence[Component]], what: str = "measure") -> Table:
    """Return a line for each measure (or `what` else has a variance) and source of variance."""
    rows: list[list[Cell]] = [
        [name, part.source, part.levels or None, rounded(part.variance), f"{part.share:.0%}"]
        for name, own in components.items()
        for part in own
    ]
    return [what, "source", "levels", "variance", "share"], rows


def rounded(value: float | None) -> float | None:
    """Round to four significant digits, the precision of a mean over seeds."""
    return None if value is None else float(f"{value:.4g}")
