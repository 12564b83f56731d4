"""What `sim fit` prints of what it has found."""

import click

from sim.cli.render.output import plain
from sim.cli.render.table import print_table
from sim.experiments.fit_tables import best_table, found_by, intervals_table
from sim.experiments.results import Results


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
