"""`sim bench`: run a scenario with the same seeds in several modes, and compare the measurements."""

import contextlib
import sys
import time
from pathlib import Path
from typing import Any

import click

from sim.base.text import number
from sim.cli.render.experiments import stoppable
from sim.cli.render.output import ALLOW, PATH, common, plain, print_json, say
from sim.cli.render.progress import PLAIN_SECONDS, StatusLine
from sim.cli.render.table import Cell as Entry
from sim.cli.render.table import print_table
from sim.cli.run import MAX_SEED, found
from sim.experiments.bench import (
    BASES,
    FIGURES,
    MODES,
    PAGE,
    Bench,
    Row,
    Trial,
    TrialPlan,
    append,
    evaluate,
    machine,
    make_folder,
    make_plan,
    measure,
    problems_of,
    to_json,
    write,
)
from sim.experiments.points import overrides_of, short
from sim.experiments.pool import cores
from sim.experiments.tables import Line, lines_table
from sim.record.files import versions, wall_label

_COLUMNS = (
    "makespan", "speed_up", "of_oracle", "in_flight", "waiting", "outcome_distance", "cpu_call", "cpu_iteration",
)  # fmt: skip
"""Figures of the table in the terminal. The page has all figures."""

_WITH_INTERVAL = ("makespan", "speed_up", "outcome_distance")


@click.command(
    "bench",
    epilog="""Examples:

    \b
      sim bench scenarios/ecology.yaml
      sim bench scenarios/queue.yaml --mode tick-parallel --mode autonomous --seeds 10
      sim bench scenarios/contagion.yaml --vary agents.person.state.beta=0.1,0.2,0.4 --to beta""",
)
@click.argument("scenario", type=PATH)
@click.option(
    "--mode", "modes", multiple=True, type=click.Choice(list(MODES)),
    help="A mode to compare; repeatable. Default: the two tick modes, autonomous and causal.",
)  # fmt: skip
@click.option(
    "--seeds", "count", type=click.IntRange(1, 10_000), help="Number of seeds, from the scenario's seed on. Default: 5."
)
@click.option(
    "--seed", "seeds", multiple=True, type=click.IntRange(0, MAX_SEED), help="A seed; replaces --seeds. Repeatable."
)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a value of the scenario.")
@click.option(
    "--vary", multiple=True, metavar="KEY=VALUES",
    help="Values of a key: a,b,c or low..high:n. With several keys, all combinations are run.",
)  # fmt: skip
@ALLOW
@click.option("--jobs", type=click.IntRange(1, 1024), help="Number of parallel processes. Default: one per core.")
@click.option("--to", "out", type=PATH, metavar="FOLDER", help="Folder for the results. Default: bench/NAME-NUMBER.")
@common
def command(scenario: Path, *, jobs: int | None, out: Path | None, as_json: bool, **options: Any) -> int:
    """Run SCENARIO in several modes with the same seeds, and compare durations and outcomes.

    The folder gets a page with charts (bench.html) and all measurements (bench.json, bench.csv). The exit code is 1 if
    a run failed. docs/bench.md explains the table.
    """
    scenario, options["allow"] = found(scenario, options["allow"])
    plan = make_plan(scenario, **options)
    folder = make_folder(plan.scenario.name, out)
    bench = _carry_out(plan, min(jobs or cores(), len(plan.points) * len(plan.seeds)), folder)
    if not bench.trials:
        with contextlib.suppress(OSError):  # the folder is not empty
            folder.rmdir()
        raise click.Abort
    write(bench, folder)
    if as_json:
        print_json({"folder": folder, **to_json(bench)})
    else:
        _print(bench)
        click.echo(f"\n{plain(folder / PAGE)}")
    return _verdict(bench, folder)


def _carry_out(plan: TrialPlan, processes: int, folder: Path) -> Bench:
    """Execute the plan, until the end or Ctrl-C. Each run is written to the folder when it is done."""
    began, label = time.monotonic(), wall_label()
    trials: list[Trial] = []
    progress = Progress(plan)
    with stoppable(), contextlib.closing(measure(plan, processes)) as runs:
        for trial in runs:
            trials.append(trial)
            append(trial, plan, folder)
            progress.told(trial)
    progress.clear()
    seconds = round(time.monotonic() - began, 3)
    about = {"began": label, "seconds": seconds, "jobs": processes, "machine": machine(), "versions": versions()}
    return evaluate(plan, trials, about)


class Progress:
    """Shows finished runs on stderr: on one line that is overwritten, or on a new line every few seconds."""

    def __init__(self, plan: TrialPlan) -> None:
        self._plan = plan
        self._line = StatusLine(live=sys.stderr.isatty())
        self._done = 0
        self._next = 0.0

    def told(self, trial: Trial) -> None:
        """Count a finished run and show it."""
        self._done += 1
        last = self._done == self._plan.trials
        if not self._line.live and time.monotonic() < self._next and not last:
            return
        self._next = time.monotonic() + PLAIN_SECONDS
        where = "".join(f", {change}" for change in overrides_of(self._plan.points[trial.point]))
        took = trial.status if trial.wall_seconds is None else f"{trial.wall_seconds:.1f} s"
        self._line.show(
            plain(f"{self._done} of {self._plan.trials} runs: {trial.mode}, seed {trial.seed}{where}: {took}")
        )

    def clear(self) -> None:
        """Remove the line."""
        self._line.clear()


def _print(bench: Bench) -> None:
    """Print a table for each combination of varied values, with noise and problems, then the outcomes."""
    if len(bench.plan.modes) == 1:  # there is nothing to compare
        _print_outcomes(bench)
        for problem, modes in problems_of(bench.rows).items():
            click.echo(f"{', '.join(modes)}: {plain(problem)}")
        return
    for index, point in enumerate(bench.plan.points):
        rows = bench.of_point(index)
        if index:
            click.echo()
        if point:
            click.echo(plain(", ".join(overrides_of(point))))
        _print_rows(rows, len(bench.plan.seeds))
        noise = bench.noise[index]
        if noise is not None and len(rows) > 1:
            click.echo(f"outcome distance of two seeds: {number(noise * 100)} % (in tick-parallel)")
        for problem, modes in problems_of(rows).items():
            click.echo(f"{', '.join(modes)}: {plain(problem)}")
    if len(bench.plan.points) > 1:
        _print_speed_ups(bench)
    _print_outcomes(bench)


def _print_outcomes(bench: Bench) -> None:
    """Print the outcomes that the scenario itself defines, with their intervals, by combination and mode."""
    own = {name for trial in bench.trials for name in trial.own}
    several = len(bench.plan.modes) > 1
    first = bench.plan.points[0]
    lines = []
    for row in bench.rows:
        cells: list[Entry] = [*bench.plan.points[row.point].values(), *([row.mode] if several else []), row.measured]
        told = {name: row.outcomes[name].value for name in sorted(own) if name in row.outcomes}
        lines.append(Line(cells, told))
    if several and own:
        click.echo(f"\noutcomes, mean over {len(bench.plan.seeds)} seeds")
    if own or not several:
        headings = [*(short(key, first) for key in first), *(["mode"] if several else []), "seeds"]
        print_table(*lines_table(headings, lines))


def _print_speed_ups(bench: Bench) -> None:
    """Print the speed-ups of all combinations in one table."""
    modes = [
        mode.name
        for mode in bench.plan.modes
        if any("speed_up" in r.figures for r in bench.rows if r.mode == mode.name)
    ]
    lines: list[list[Entry]] = []
    for index, point in enumerate(bench.plan.points):
        found = {row.mode: row.figures.get("speed_up") for row in bench.of_point(index)}
        lines.append([*point.values(), *(None if one is None else _short(one.mean) for one in map(found.get, modes))])
    if modes:
        click.echo("\nspeed-up over tick-parallel")
        print_table([*bench.plan.points[0], *modes], lines)


def _print_rows(rows: list[Row], seeds: int) -> None:
    bases = {BASES[row.basis] for row in rows if row.basis is not None}
    headings = ["mode", *(["counted in"] if len(bases) > 1 else [])]
    lines: list[list[Entry]] = [[row.mode, *([BASES[row.basis]] if len(bases) > 1 else [])] for row in rows]
    for name, about in FIGURES.items():
        if name not in _COLUMNS or not any(name in row.figures for row in rows):
            continue
        found = [row.figures.get(name) for row in rows]
        interval = name in _WITH_INTERVAL and any(one is not None and one.half for one in found)
        headings += [f"{about.heading} {about.unit}".strip(), *(["±"] if interval else [])]
        for line, one in zip(lines, found, strict=True):
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


def _verdict(bench: Bench, folder: Path) -> int:
    """Print errors and return the exit code."""
    if not bench.complete:
        done = f"{len(bench.trials)} of {bench.plan.trials} runs were done"
        say(f"sim: interrupted: {done}; their measurements are in {plain(folder)}")
        return 1
    if failures := bench.failures:
        first = failures[0]
        say(f"sim: error: {len(failures)} of {len(bench.trials)} runs failed: {first.mode}: {plain(first.problem)}")
    return 1 if failures else 0
