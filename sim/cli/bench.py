"""`sim bench`: run a scenario with the same seeds in several modes, and compare the measurements."""

from pathlib import Path
from typing import Any

import click

from sim.cli.render.output import PATH
from sim.cli.run import MAX_SEED
from sim.cli.study import carry_out, study_options
from sim.experiments.bench.plan import make_bench
from sim.experiments.modes import MODES


@click.command(
    "bench",
    epilog="""Examples:

    \b
      sim bench scenarios/ecology.yaml
      sim bench scenarios/queue.yaml --mode tick-parallel --mode autonomous --seeds 10
      sim bench scenarios/contagion.yaml --vary agents.person.state.beta=0.1,0.2,0.4 --to beta
      sim bench --resume bench/ecology-1""",
)
@click.argument("scenario", type=PATH, required=False)
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(list(MODES)),
    help="A mode to compare; repeatable. Default: the two tick modes, autonomous and causal.",
)
@click.option(
    "--seed", "seeds", multiple=True, type=click.IntRange(0, MAX_SEED), help="A seed; replaces --seeds. Repeatable."
)
@study_options("5", "all", "bench/NAME-NUMBER")
def command(scenario: Path | None, **options: Any) -> int:
    """Run SCENARIO in several modes with the same seeds, and compare durations and outcomes.

    The folder gets plan.json (the plan), results.db (each run as soon as it is done), and at the end a page with charts
    (bench.html) and all measurements (bench.json, bench.csv). The exit code is 1 if a run failed. docs/bench.md
    explains the table.
    """
    return carry_out(make_bench, scenario, options)
