"""What `sim fit` prints: its size before it begins, and what it has found."""

import time

import click

from sim.base.text import counted
from sim.cli.render.output import plain
from sim.cli.render.table import print_table
from sim.experiments.experiment import left
from sim.experiments.fit_tables import best_table, found_by, intervals_table
from sim.experiments.measure import run_job
from sim.experiments.plan import TrialHosting, TrialJob
from sim.experiments.pool import cores
from sim.experiments.results import Results


def size_of_fit(results: Results, hosting: TrialHosting, jobs: int | None, *, timed: bool) -> str:
    """Return how many runs a fit takes at most, and how long.

    One run is carried out for that, and not kept, unless its models are at an endpoint, where it would cost money.

    Args:
        results: the results so far.
        hosting: what the operator gives to the trials.
        jobs: the number of processes; None: one for each core.
        timed: whether the runs are carried out on this machine.
    """
    plan, count = results.plan, left(results)
    fit = plan.fit
    assert fit is not None, "it is a fit"
    size = f"{fit.candidates:,} candidates in batches of {fit.batch} × {plan.seeds[1]} seeds"
    best = "the best" if fit.most_best == 1 else f"each of the best, {fit.most_best} at most"
    size += f", and {counted(fit.held_out, 'held-out seed')} for {best}" if fit.held_out else ""
    done = len(results.done())
    said = f"fit: {size}: at most {count:,} runs{' are left' if done else ''}"
    outside = hosting.access is not None and hosting.access.outside
    if not timed or outside or not count:
        return said
    began = time.monotonic()
    run_job(TrialJob(plan, plan.seeds[0], {0: plan.points[0]}, hosting))
    seconds, processes = time.monotonic() - began, jobs or cores()
    whole = seconds * count / processes
    return f"{said}; one takes {seconds:.2g} s here, so about {whole:.0f} s with --jobs {processes}"


def print_fit(results: Results) -> None:
    """Print the best candidates, the values that agree with the data, and what to know about them."""
    found = found_by(results)
    if not found.best:
        click.echo("no candidate has a loss yet")
        return
    many = len(found.best) > 1
    click.echo("Pareto front: no candidate is as good in each loss and better in one" if many else "best candidate")
    print_table(*best_table(results, found))
    if found.intervals:
        click.echo()
        print_table(*intervals_table(found), named=True)
    tried = len(results.plan.points)
    early = f", {found.ended_early} of which ended early" if found.ended_early else ""
    click.echo(f"\n{tried:,} candidates were tried{early}; {found.verdict}")
    for note in found.notes:
        click.echo(plain(f"note: {note}"))
