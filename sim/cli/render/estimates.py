"""Tables of estimates: one line for each combination of values, each outcome with its 95 % interval."""

from collections.abc import Mapping, Sequence

import attrs

from sim.cli.render.table import Cell, print_table
from sim.experiments.estimate import Estimate


@attrs.frozen
class Line:
    """One line: the cells before the outcomes, and the outcomes by name."""

    cells: Sequence[Cell]
    outcomes: Mapping[str, Estimate]


def print_estimates(headings: Sequence[str], lines: Sequence[Line]) -> None:
    """Print lines. An outcome without an interval in all lines, such as one of a single seed, has one column."""
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
    print_table(heads, rows)


def rounded(value: float | None) -> float | None:
    """Round to four significant digits, the precision of a mean over seeds."""
    return None if value is None else float(f"{value:.4g}")
