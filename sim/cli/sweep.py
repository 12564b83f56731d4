"""`sim sweep`: run a scenario with other values and seeds, and estimate its outcomes."""

import contextlib
import csv
import io
import signal
import sys
import time
from collections.abc import Iterator
from itertools import count as numbers
from pathlib import Path
from typing import Any

import click

from sim.cli.render.estimates import Line, print_estimates
from sim.cli.render.output import ALLOW, PATH, common, plain, print_json, say
from sim.cli.render.progress import PLAIN_SECONDS, StatusLine
from sim.cli.render.table import Cell
from sim.cli.run import MAX_SEED, allow_imports
from sim.errors import UsageError
from sim.experiments.points import label_of, short
from sim.experiments.pool import cores
from sim.experiments.results import Results
from sim.experiments.sweep import Progress, SweepRow, carry_out, evaluate, missing, to_json
from sim.experiments.sweep_page import render
from sim.experiments.sweep_plan import Precision, SweepPlan, check_scenario, make_sweep
from sim.kernel.codec import encode
from sim.store.export import csv_cell
from sim.store.files import failure, private_file

_FOLDER = Path("sweeps")
_SHOWN = 40


@click.command(
    "sweep",
    epilog="""Examples:

    \b
      sim sweep scenarios/contagion.yaml --vary agents.person.state.beta=0.02,0.05,0.1 --seeds 30
      sim sweep scenarios/contagion.yaml --vary agents.person.state.beta=0.02..0.2:10 --until-precision 5%
      sim sweep scenarios/contagion.yaml --vary agents.person.state.beta=0.02..0.2 --design sobol --samples 16
      sim sweep --resume sweeps/contagion-1""",
)
@click.argument("scenario", type=PATH, required=False)
@click.option(
    "--vary", multiple=True, metavar="KEY=VALUES",
    help="Values of a key: a,b,c or low..high:n; low..high for designs that sample. Repeatable: all combinations.",
)  # fmt: skip
@click.option("--design", type=click.Choice(["factorial", "latin", "sobol"]), help="Default: factorial.")
@click.option("--samples", type=click.IntRange(1, 100_000), help="Combinations of a latin or sobol design.")
@click.option("--seeds", "count", type=click.IntRange(1, 100_000), help="Seeds of each combination. Default: 10.")
@click.option("--first-seed", type=click.IntRange(0, MAX_SEED), help="Default: the seed of the scenario.")
@click.option(
    "--until-precision", "share", metavar="PERCENT",
    help="Add seeds until half of each 95 % interval is at most this share of its mean, for example 5%.",
)  # fmt: skip
@click.option("--most-seeds", type=click.IntRange(2, 100_000), help="With --until-precision. Default: 1000.")
@click.option("--outcome", "outcomes", multiple=True, metavar="NAME", help="An outcome that matters; repeatable.")
@click.option("--mode", type=click.Choice(["autonomous", "tick"]), help="Default: that of the scenario.")
@click.option("--until", metavar="DURATION", help="The simulated time of each run.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a value in all runs.")
@click.option("--plan", "plan_file", type=PATH, metavar="FILE", help="Carry out a plan that a sweep has written.")
@click.option("--resume", type=PATH, metavar="FOLDER", help="Go on with a sweep that was stopped or killed.")
@click.option("--again", is_flag=True, help="With --resume: try failed trials again.")
@ALLOW
@click.option("--jobs", type=click.IntRange(1, 1024), help="Number of parallel processes. Default: one per core.")
@click.option("--out", type=PATH, metavar="FOLDER", help="Folder for the results. Default: sweeps/NAME-NUMBER.")
@common
def command(
    scenario: Path | None, *, plan_file: Path | None, resume: Path | None, again: bool, jobs: int | None,
    out: Path | None, as_json: bool, **options: Any,
) -> int:  # fmt: skip
    """Run SCENARIO with all combinations of values and several seeds, and estimate its outcomes with 95 % intervals.

    The folder gets plan.json (the plan, which can be cited and carried out again), sweep.db (each trial as soon as it
    is done), sweep.csv and sweep.html. The exit code is 1 if a trial failed. docs/experiments.md explains all.
    """
    allow = options["allow"]
    if allow:
        allow_imports((scenario or Path()).resolve().parent)
    with contextlib.closing(_opened(scenario, plan_file, resume, out, options)) as results:
        whole = _carry_out(results, jobs or cores(), again=again)
        rows = evaluate(results)
        _write(results, rows)
        problems = results.problems()
        if as_json:
            print_json({**to_json(results, rows, results.folder), "complete": whole})
        else:
            _print(rows)
            click.echo(f"\n{plain(results.folder / 'sweep.html')}")
    if not whole:
        say(f"sim: interrupted; go on with: sim sweep --resume {plain(results.folder)}")
    if problems:
        point, seed, why = problems[0]
        where = ", ".join(part for part in (label_of(results.plan.points[point]), f"seed {seed}") if part)
        say(f"sim: error: {len(problems)} trials failed: {plain(where)}: {plain(why)}")
    return 0 if whole and not problems else 1


def _opened(
    scenario: Path | None, plan_file: Path | None, resume: Path | None, out: Path | None, options: dict[str, Any]
) -> Results:
    """Return the results to go on with: those of a folder, or new ones for a plan.

    Raises:
        UsageError: if the options contradict each other.
    """
    given = [name for name, value in options.items() if value not in (None, (), [])]
    if resume is not None:
        if scenario is not None or plan_file is not None or out is not None or given:
            raise UsageError("--resume goes on with the plan of its folder", hint="leave out all other options")
        with contextlib.ExitStack() as opened:
            results = Results(resume)
            opened.callback(results.close)
            check_scenario(results.plan, Path(results.plan.file))
            opened.pop_all()
        return results
    if plan_file is not None:
        if given:
            raise UsageError(f"a plan says everything, so --{given[0]} cannot be given", hint="leave it out")
        plan = _read(plan_file, scenario)
    elif scenario is None:
        raise UsageError("there is no scenario", hint="give a scenario, --plan FILE or --resume FOLDER")
    else:
        plan = _made(scenario, options)
    folder = _folder(plan, out)
    results = Results(folder, plan)
    private_file(folder / "plan.json", encode(plan.to_json()) + b"\n")
    return results


def _made(scenario: Path, options: dict[str, Any]) -> SweepPlan:
    """Return the plan that the options describe."""
    share, most = options.pop("share"), options.pop("most_seeds")
    if most is not None and share is None:
        raise UsageError("--most-seeds is for --until-precision")
    precision = None if share is None else Precision(_share(share), most or 1000)
    given = {name: value for name, value in options.items() if value is not None}
    return make_sweep(scenario, precision=precision, **given)


def _share(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise UsageError(f"--until-precision {text!r} is no share", hint="for example 5%")
    return share


def _read(plan_file: Path, scenario: Path | None) -> SweepPlan:
    import attrs

    try:
        plan = SweepPlan.from_json(plan_file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{plan_file} cannot be read: {error}") from error
    plan = plan if scenario is None else attrs.evolve(plan, file=str(scenario))
    check_scenario(plan, Path(plan.file))
    return plan


def _folder(plan: SweepPlan, out: Path | None) -> Path:
    """Return a new folder for a sweep.

    Raises:
        RunError: if it cannot be created.
    """
    try:
        if out is not None:
            out.mkdir(mode=0o700, parents=True, exist_ok=True)
            return out
        _FOLDER.mkdir(exist_ok=True)
        for number in numbers(1):
            folder = _FOLDER / f"{plan.name}-{number}"
            if not folder.exists():
                folder.mkdir(mode=0o700)
                return folder
    except OSError as error:
        raise failure(out or _FOLDER, error) from error
    raise AssertionError("numbers do not end")


def _carry_out(results: Results, processes: int, *, again: bool) -> bool:
    """Run what is missing; return whether nothing is missing then."""
    line, following, began = StatusLine(live=sys.stderr.isatty()), 0.0, time.monotonic()
    first: int | None = None
    with _stoppable(), contextlib.closing(carry_out(results, processes, again=again)) as trials:
        for progress in trials:
            first = progress.done - 1 if first is None else first
            if not line.live and time.monotonic() < following and progress.done < progress.planned:
                continue
            following = time.monotonic() + PLAIN_SECONDS
            line.show(plain(_told(results, progress, progress.done - first, time.monotonic() - began)))
    line.clear()
    return not missing(results)


def _told(results: Results, progress: Progress, done: int, seconds: float) -> str:
    """Return how far a sweep is, with the time left."""
    left = seconds / done * (progress.planned - progress.done)
    where = label_of(results.plan.points[progress.last.point])
    what = ", ".join(part for part in (where, f"seed {progress.last.seed}") if part)
    return f"{progress.done} of {progress.planned} trials, about {left:.0f} s left: {what}: {progress.last.status}"


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """End the block at SIGINT and SIGTERM, and continue with the results so far."""
    endings = (signal.SIGINT, signal.SIGTERM)
    before = {which: signal.signal(which, signal.default_int_handler) for which in endings}
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


def _write(results: Results, rows: list[SweepRow]) -> None:
    """Write the table and the page."""
    results.finish()
    columns, lines = results.rows()
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(map(csv_cell, columns))
    writer.writerows([list(map(csv_cell, line)) for line in lines])
    for name, content in (("sweep.csv", text.getvalue()), ("sweep.html", render(results, rows))):
        path = results.folder / name
        try:
            path.unlink(missing_ok=True)  # of an earlier part of the sweep
            private_file(path, content.encode())
        except OSError as error:
            raise failure(path, error) from error


def _print(rows: list[SweepRow]) -> None:
    """Print one line for each combination: the values, the seeds, and each outcome with its interval."""
    first = rows[0]
    failed, precise = any(row.failed for row in rows), first.precise is not None
    headings = [*(short(key, first.point) for key in first.point), "seeds"]
    headings += [*(["failed"] if failed else []), *(["precise"] if precise else [])]
    lines = []
    for row in rows[:_SHOWN]:
        cells: list[Cell] = [*row.point.values(), row.seeds]
        cells += [*([row.failed] if failed else []), *(["yes" if row.precise else "no"] if precise else [])]
        lines.append(Line(cells, row.outcomes))
    print_estimates(headings, lines)
    if len(rows) > _SHOWN:
        click.echo(f"{len(rows) - _SHOWN:,} more combinations are in sweep.csv")
