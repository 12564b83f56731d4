"""The sections of the page about the outcomes of a scenario: by varied value, and in each mode."""

from sim.base.pages import Markup, tag
from sim.base.pages.markup import Child
from sim.experiments.bench.page_parts import bar, figure, how_drawn, section, table
from sim.experiments.bench.rows import Bench, BenchRow, OutcomeDifference
from sim.experiments.charts import Bar, bars, half
from sim.experiments.estimate import Estimate
from sim.experiments.modes import PARALLEL
from sim.experiments.points import label_of

_CHARTS, _POINTS, _ROWS = 8, 24, 60
_SWEPT = 16
"""The most charts of outcomes by varied value."""
_HEAT = (0.02, 0.1, 0.25, 0.5)
"""Lower bounds of the distances for each heat level of a cell."""


def varied_outcomes(bench: Bench) -> Markup | None:
    """Return the outcomes that the scenario itself defines, by varied value and mode; None if there are none."""
    own = {name for trial in bench.trials for name in trial.own}
    names = dict.fromkeys(name for row in bench.rows for name in row.outcomes if name in own)
    cards = [_by_value(bench, name) for name in [name for name in names if _tells_apart(bench, name)][:_SWEPT]]
    if not cards:
        return None
    note = f"{how_drawn(bench.rows)}; metrics are values at the end of a run"
    return section("Outcomes of the scenario", note, tag("div", cards, class_="cards wide"))


def _tells_apart(bench: Bench, name: str) -> bool:
    """Return whether an outcome is more than one number that is always the same."""
    return len({row.outcomes[name].value.mean for row in bench.rows if name in row.outcomes}) > 1


def _by_value(bench: Bench, name: str) -> Markup:
    chart_rows = []
    for row in bench.rows[:_POINTS]:
        if name in row.outcomes:
            outcome, label = row.outcomes[name], ", ".join(bench.points[row.point].values())
            named = ", ".join(part for part in (label, row.mode) if part)
            chart_rows.append(bar(named, row.mode, outcome.value, outcome.singles))
    return bars(f"{name} by varied value and mode", chart_rows).card(name)


def outcomes(bench: Bench) -> Markup | None:
    """Return the section; None if there is nothing to compare."""
    compared = [(index, *_compared(bench, index)) for index in range(min(_POINTS, len(bench.points)))]
    points = [(index, base, others) for index, base, others in compared if base is not None and others]
    if not points:
        return None
    charts = tag("div", [_chart(bench, index, others) for index, _, others in points[:_CHARTS]], class_="cards wide")
    tables = [_folded(bench, index, _table(base, others)) for index, base, others in points]
    note = "compared with tick-parallel, seed by seed; 0 %: equal, 33 %: a factor of two, 100 %: one value is 0"
    return section("Outcomes", note, charts, tables)


def _compared(bench: Bench, index: int) -> tuple[BenchRow | None, list[BenchRow]]:
    rows = bench.of_point(index)
    return next((row for row in rows if row.mode == PARALLEL), None), [
        row for row in rows if "outcome_distance" in row.figures
    ]


def _chart(bench: Bench, index: int, rows: list[BenchRow]) -> Markup:
    noise = bench.noise[index]
    chart = bars(
        "distance of the outcomes by mode",
        [_bar(row) for row in rows],
        mark=None if noise is None else noise * 100,
        marked="two seeds of tick-parallel",
    )
    label = label_of(bench.points[index]) or "Distance of the outcomes"
    return chart.card(label, "mean distance over all outcomes, %")


def _folded(bench: Bench, index: int, shown: Markup) -> Markup:
    label = label_of(bench.points[index])
    return tag("details", tag("summary", f"Outcome by outcome: {label}"), shown) if label else shown


def _bar(row: BenchRow) -> Bar:
    singles = row.singles.get("outcome_distance", ())
    return bar(row.mode, row.mode, row.figures["outcome_distance"], singles, "%")


def _table(base: BenchRow, compared: list[BenchRow]) -> Markup:
    """Return the table of outcomes. Modes with the same record as tick-parallel need no columns."""
    alike = [row.mode for row in compared if row.equal == row.compared]
    others = [row for row in compared if row.mode not in alike]
    headings = ["outcome", PARALLEL]
    for row in others:
        headings += [row.mode, "difference"]
    lines: list[list[Child]] = []
    heat: list[list[int]] = []
    differing = [name for name in base.outcomes if any(_tells(row, name) for row in (base, *others))]
    for name in differing[:_ROWS]:
        line, warm = [name, figure(base.outcomes[name].value)], [0]
        for row in others:
            outcome = row.outcomes.get(name)
            line += [None, None] if outcome is None else [figure(outcome.value), _difference(outcome)]
            warm += [0, 0 if outcome is None else _warmth(outcome)]
        lines.append(line)
        heat.append(warm)
    notes = [f"Every event is the same in {', '.join(alike)}."] if alike else []
    if len(differing) > _ROWS:
        notes.append(f"{len(differing) - _ROWS} more outcomes are in bench.json.")
    note = tag("p", " ".join(notes), class_="note") if notes else None
    return tag("div", table(headings, lines, heat=heat), note)


def _tells(row: BenchRow, name: str) -> bool:
    """Whether an outcome is not 0 for at least one seed."""
    outcome = row.outcomes.get(name)
    return outcome is not None and bool(outcome.value.mean or outcome.value.half)


def _difference(outcome: OutcomeDifference) -> Child:
    share, apart = outcome.relative, outcome.distance
    if share is None:
        return "from 0" if apart is not None and apart.mean else None
    if not share.mean and not share.half:
        return "0 %"
    percent = Estimate(share.n, share.mean * 100, None if share.half is None else share.half * 100)
    return [f"{percent.mean:+.3g} %", tag("span", f" {half(percent)}", class_="half")]


def _warmth(outcome: OutcomeDifference) -> int:
    return 0 if outcome.distance is None else sum(outcome.distance.mean >= step for step in _HEAT)
