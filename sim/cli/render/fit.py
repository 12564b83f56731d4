"""What `sim fit` prints of what it has found."""

import click

from sim.cli.render.output import plain
from sim.cli.render.table import print_table
from sim.experiments.fit_tables import best_table, found_by, intervals_table
from sim.experiments.results import Results


def print_fit(results: Results) -> None:
    """Print the best candidates, the values that agree with the data, and what to know about them."""
    fitted = found_by(results)
    if not fitted.best:
        click.echo("no candidate has a loss yet")
        return
    many = len(fitted.best) > 1
    click.echo("Pareto front: no candidate is as good in each loss and better in one" if many else "best candidate")
    print_table(*best_table(results, fitted))
    if fitted.intervals:
        click.echo()
        print_table(*intervals_table(fitted), named=True)
    tried = len(results.plan.points)
    early = f", {fitted.ended_early} of which ended early" if fitted.ended_early else ""
    click.echo(f"\n{tried:,} candidates were tried{early}; {fitted.verdict}")
    for note in fitted.notes:
        click.echo(plain(f"note: {note}"))
