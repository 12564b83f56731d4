"""What the commands for experiments share: progress, stopping, tables."""

import contextlib
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

import click

from sim.cli.render.bench import print_bench
from sim.cli.render.fit import print_fit
from sim.cli.render.output import plain, print_json, say
from sim.cli.render.progress import PLAIN_SECONDS, StatusLine
from sim.cli.render.table import print_table
from sim.experiments.bench.files import to_json as bench_json
from sim.experiments.bench.rows import read
from sim.experiments.experiment import (
    PointEstimates,
    Progress,
    Workers,
    carry_out,
    differences,
    evaluate,
    left,
    missing,
    reach,
    to_json,
    without_effect,
)
from sim.experiments.fit_tables import fit_to_json
from sim.experiments.folder import write
from sim.experiments.plan import TrialHosting
from sim.experiments.pool import Deadline
from sim.experiments.results import Results
from sim.experiments.tables import differences_table, estimates_table, reach_table

_SHOWN = 40
_RELIABLE = 10  # trials after which the time left is shown: the first ones wait for processes to start


def work_on(
    results: Results, workers: AbstractContextManager[Workers], hosting: TrialHosting, *, again: bool, as_json: bool
) -> int:
    """Carry out an experiment, write and print its results, and return the exit code."""
    whole = _carry_out(results, workers, hosting, again=again)
    estimates = evaluate(results)
    page = write(results, estimates)
    bench = None if results.plan.bench is None else read(results, len(missing(results)))
    if as_json:
        document = to_json(results, estimates) if bench is None else bench_json(bench)
        document |= {} if results.plan.fit is None else {"fit": fit_to_json(results)}
        print_json({"folder": results.folder, "hash": results.hash(), **document, "complete": whole})
    else:
        if results.plan.fit is not None:
            print_fit(results)
        else:
            _print(results, estimates) if bench is None else print_bench(bench)
        click.echo(f"\n{plain(page)}")
    if not whole:
        _say_interrupted(results, hosting, again=again)
    _say_missing(results)
    if bench is None:
        _say_notes(results)
        failed = bool(results.problems())
    else:
        failed = bool(bench.failures)
    if failed and bench is not None:
        first = bench.failures[0]
        count = f"{len(bench.failures)} of {len(bench.trials)}"
        say(f"sim: error: {count} runs failed: {first.mode}: {plain(first.problem)}")
    return 0 if whole and not failed else 1


def _say_interrupted(results: Results, hosting: TrialHosting, *, again: bool) -> None:
    """Say what is not done, and how to continue."""
    money, tokens = results.spent()
    if hosting.is_used_up(money, tokens):
        say(f"sim: the ceiling of the experiment is reached: {money / 1e6:g} and {tokens:,} tokens are spent")
    plan = results.plan
    allow = "".join(f" --allow {name}" for name in plan.allow)
    options = f"{plain(results.folder)}{' --again' if again else ''}{plain(allow)}"
    say(f"sim: interrupted; continue with: sim {plan.verb} --resume {options}")


def _say_missing(results: Results) -> None:
    """Say which outcomes have no value in how many trials."""
    for name, count, of in results.without_value():
        say(f"sim: note: {plain(name)} has no value in {count} of {of} trials, which its estimates leave out")


def _say_notes(results: Results) -> None:
    """Say what to know about the results of a sweep or of arms."""
    if results.names() and not results.own() and not results.plan.outcomes:
        say("sim: warning: the scenario defines no outcome, so nothing is estimated")
        say(f"hint: add `metrics` to it, or choose a count, for example --outcome {plain(results.names()[0])}")
    for one in without_effect(results):
        say(f"sim: warning: {plain(one)} has no effect: the runs are the same without it")
    if failing := results.failing():
        say(f"sim: warning: agents failed in {_first(results, failing)}")
    if blocked := results.blocked():
        say(f"sim: warning: agents were blocked in {_first(results, blocked)}")
    if problems := results.problems():
        say(f"sim: error: no result of {_first(results, problems)}")


def _first(results: Results, problems: Sequence[tuple[int, int, str]]) -> str:
    """Return in how many trials there was a problem, and the first of them."""
    point, seed, why = problems[0]
    where = ", ".join(part for part in (results.plan.label(point), f"seed {seed}") if part)
    return f"{len(problems)} of {len(results.done())} trials, first {plain(where)}: {plain(why)}"


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """End the block at SIGINT and SIGTERM, and continue with the results so far."""
    endings = (signal.SIGINT, signal.SIGTERM)  # SIGINT can be ignored, as in a background job of a script
    before = {which: signal.signal(which, signal.default_int_handler) for which in endings}
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


def _carry_out(
    results: Results, workers: AbstractContextManager[Workers], hosting: TrialHosting, *, again: bool
) -> bool:
    """Run what is missing, with `again` also what failed; return whether nothing of that is left to do."""
    line, following, began = StatusLine(live=sys.stderr.isatty()), 0.0, time.monotonic()
    first: int | None = None
    ended, deadline = False, Deadline.after(hosting.max_wall)
    with stoppable(), contextlib.closing(carry_out(results, workers, hosting, again=again)) as trials:
        for progress in trials:
            first = progress.done - 1 if first is None else first
            if not line.live and time.monotonic() < following and progress.done < progress.planned:
                continue
            following = time.monotonic() + PLAIN_SECONDS
            line.show(plain(_progress_of(results, progress, progress.done - first, time.monotonic() - began)))
        ended = not deadline.is_over and not hosting.is_used_up(*results.spent())
    line.clear()
    return ended or not (missing(results, again=again) or left(results))


def _progress_of(results: Results, progress: Progress, done: int, seconds: float) -> str:
    """Return how far an experiment is, with the time left."""
    left = ""
    if done >= _RELIABLE or progress.done == progress.planned:
        left = f", about {seconds / done * (progress.planned - progress.done):.0f} s left"
    where = results.plan.label(progress.last.point)
    what = ", ".join(part for part in (where, f"seed {progress.last.seed}") if part)
    return f"{progress.done} of {progress.planned} trials{left}: {what}: {progress.last.status}"


def _print(results: Results, estimates: Sequence[PointEstimates]) -> None:
    """Print one line for each combination or arm; of arms, their differences from the baseline and whom they reach."""
    print_table(*estimates_table(results.plan, estimates, _SHOWN))
    if len(estimates) > _SHOWN:
        click.echo(f"{len(estimates) - _SHOWN:,} more combinations are in results.csv")
    plan = results.plan
    if plan.compared_with is not None:
        named = "" if plan.arms else f", {plain(plan.label(plan.compared_with))}"
        click.echo(f"\ndifferences from the baseline{named}, seed by seed")
        print_table(*differences_table(differences(results), "arm" if plan.arms else "combination"))
    if plan.arms:
        click.echo("\nagents reached: with other events than in the baseline")
        print_table(*reach_table(reach(results)))
    calls, reused = results.calls()
    if reused:
        click.echo(
            f"\n{calls - reused:,} of {calls:,} model calls were made; the others had the answers of other trials"
        )
