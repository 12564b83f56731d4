"""The results of a bench as text: a table for each combination of varied values, problems, outcomes."""

import click

from sim.base.text import number
from sim.cli.render.output import plain
from sim.cli.render.table import Cell as Entry
from sim.cli.render.table import print_table
from sim.experiments.bench.rows import FIGURES, Bench, BenchRow, problems_of
from sim.experiments.points import overrides_of, short
from sim.experiments.tables import EstimateRow, lines_table
from sim.experiments.trial import BASES

_COLUMNS = (
    "makespan", "speed_up", "of_oracle", "in_flight", "waiting", "outcome_distance", "cpu_call", "cpu_iteration",
)  # fmt: skip
"""Figures of the table in the terminal. The page has all figures."""

_WITH_INTERVAL = ("makespan", "speed_up", "outcome_distance")


def print_bench(bench: Bench) -> None:
    """Print a table for each combination of varied values, with noise and problems, then the outcomes."""
    if len(bench.modes) == 1:  # there is nothing to compare
        _print_outcomes(bench)
        for problem, modes in problems_of(bench.rows).items():
            click.echo(f"{', '.join(modes)}: {plain(problem)}")
        return
    for index, point in enumerate(bench.points):
        rows = bench.of_point(index)
        if index:
            click.echo()
        if point:
            click.echo(plain(", ".join(overrides_of(point))))
        _print_rows(rows, len(bench.seeds))
        noise = bench.noise[index]
        if noise is not None and len(rows) > 1:
            click.echo(f"outcome distance of two seeds: {number(noise * 100)} % (in tick-parallel)")
        for problem, modes in problems_of(rows).items():
            click.echo(f"{', '.join(modes)}: {plain(problem)}")
    if len(bench.points) > 1:
        _print_speed_ups(bench)
    _print_outcomes(bench)


def _print_outcomes(bench: Bench) -> None:
    """Print the outcomes that the scenario itself defines, with their intervals, by combination and mode."""
    own = {name for trial in bench.trials for name in trial.own}
    several = len(bench.modes) > 1
    first = bench.points[0]
    lines = []
    for row in bench.rows:
        cells: list[Entry] = [*bench.points[row.point].values(), *([row.mode] if several else []), row.measured]
        means = {name: row.outcomes[name].value for name in sorted(own) if name in row.outcomes}
        lines.append(EstimateRow(cells, means, row.measured))
    if several and own:
        click.echo(f"\noutcomes, mean over {len(bench.seeds)} seeds")
    if own or not several:
        headings = [*(short(key, first) for key in first), *(["mode"] if several else []), "seeds"]
        print_table(*lines_table(headings, lines))


def _print_speed_ups(bench: Bench) -> None:
    """Print the speed-ups of all combinations in one table."""
    modes = [
        mode.name for mode in bench.modes if any("speed_up" in r.figures for r in bench.rows if r.mode == mode.name)
    ]
    lines: list[list[Entry]] = []
    for index, point in enumerate(bench.points):
        by_mode = {row.mode: row.figures.get("speed_up") for row in bench.of_point(index)}
        lines.append([*point.values(), *(None if one is None else _short(one.mean) for one in map(by_mode.get, modes))])
    if modes:
        click.echo("\nspeed-up over tick-parallel")
        print_table([*bench.points[0], *modes], lines)


def _print_rows(rows: list[BenchRow], seeds: int) -> None:
    bases = {BASES[row.basis] for row in rows if row.basis is not None}
    headings = ["mode", *(["counted in"] if len(bases) > 1 else [])]
    lines: list[list[Entry]] = [[row.mode, *([BASES[row.basis]] if len(bases) > 1 else [])] for row in rows]
    for name, about in FIGURES.items():
        if name not in _COLUMNS or not any(name in row.figures for row in rows):
            continue
        figures = [row.figures.get(name) for row in rows]
        interval = name in _WITH_INTERVAL and any(one is not None and one.half for one in figures)
        headings += [f"{about.heading} {about.unit}".strip(), *(["±"] if interval else [])]
        for line, one in zip(lines, figures, strict=True):
            line.append(None if one is None else _short(one.mean))
            if interval:
                line.append(None if one is None or one.half is None else _short(one.half))
    if any(row.measured < seeds for row in rows):
        headings.append("seeds")
        lines = [[*line, row.measured] for line, row in zip(lines, rows, strict=True)]
    headings.append("same hash")
    lines = [
        [*line, f"{row.equal} of {row.compared}" if row.compared else None]
        for line, row in zip(lines, rows, strict=True)
    ]
    print_table(headings, lines, named=True)
    if bases:
        click.echo(f"makespan in {' and '.join(sorted(bases))}, mean over {seeds} seed{'s' * (seeds > 1)}")
    if BASES["service"] in bases and len(bases) > 1:
        click.echo("different times are not compared: --set execution.sync=barrier measures all modes in service time")


def _short(value: float) -> float:
    """Round to three significant digits, the precision of a mean over seeds."""
    return float(round(value)) if abs(value) >= 1000 else float(f"{value:.3g}")
