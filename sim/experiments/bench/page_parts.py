"""Building blocks of the sections of the page."""

from collections.abc import Sequence

import attrs

from sim.base.pages import Markup, tag
from sim.base.pages.markup import Child
from sim.experiments.bench.rows import BenchRow
from sim.experiments.charts import Bar, ChartLine, half, number
from sim.experiments.estimate import FEW, Estimate
from sim.experiments.modes import MODES

_COLOURS = dict(zip(MODES, ("--c12", "--c0", "--c1", "--c2", "--c5", "--c3"), strict=True))


def colour(mode: str) -> str:
    """Return the colour of a mode on the page."""
    return f"var({_COLOURS[mode]})"


def section(heading: str, note: str, *body: Child) -> Markup:
    """Return a section of the page."""
    head = tag("div", tag("h2", heading), tag("p", note, class_="note"), class_="head")
    return tag("section", head, body)


def table(headings: Sequence[str], rows: Sequence[Sequence[Child]], *, heat: Sequence[Sequence[int]] = ()) -> Markup:
    """Return a table; all columns but the first hold numbers.

    Args:
        headings: the headings of the columns.
        rows: the cells of each row.
        heat: the heat level of each cell (0 to 4), without the first cell of a row.
    """
    head = tag("tr", [tag("th", name, class_="n" if index else None) for index, name in enumerate(headings)])
    body = []
    for number_, row in enumerate(rows):
        warm = heat[number_] if heat else [0] * len(row)
        cells = [tag("td", row[0], class_="first")]
        cells += [
            tag("td", cell, class_=f"n heat{warm[place]}" if warm[place] else "n") for place, cell in enumerate(row[1:])
        ]
        body.append(tag("tr", cells))
    return tag("div", tag("table", tag("thead", head), tag("tbody", body)), class_="scroll")


def figure(value: Estimate | None, unit: str = "") -> Child:
    """Return an estimate as text; None if there is none."""
    if value is None:
        return None
    return [number(value.mean) + unit, tag("span", f" {half(value)}", class_="half") if value.half else None]


def spread(rows: Sequence[BenchRow], figure: str) -> str:
    """Return the range of a figure over several rows as text; empty if it is unknown."""
    means = [row.figures[figure].mean for row in rows if figure in row.figures]
    if not means:
        return ""
    low, high = number(min(means)), number(max(means))
    return low if low == high else f"{low} to {high}"


def bar(name: str, mode: str, value: Estimate, singles: Sequence[float], unit: str = "") -> Bar:
    """Return the bar of a mode; with single values, these are drawn in place of the bar and its interval."""
    count = f"{len(singles)} seed{'s' * (len(singles) > 1)}" if singles else ""
    said = f"{number(value.mean)} {unit}".rstrip()
    return Bar(name, colour(mode), value, f"{said}, {count}" if count else f"{said} {half(value)}", singles)


def how_drawn(rows: Sequence[BenchRow]) -> str:
    """Return what the charts of some rows draw."""
    few = any(0 < row.measured < FEW for row in rows)
    return "each seed as a point, and their mean" if few else "mean over seeds, with its 95 % interval"


def series(
    mode: str, values: Sequence[tuple[float, Estimate]], singles: Sequence[Sequence[tuple[float, float]]]
) -> ChartLine:
    """Return the line of a mode; where there are single values, they are drawn in place of the interval."""
    drawn = [
        (at, attrs.evolve(value, half=None) if own else value) for (at, value), own in zip(values, singles, strict=True)
    ]
    return ChartLine(mode, colour(mode), drawn, [own for own in singles if own])
