"""`sim fit`: find the values of a scenario with which its runs agree with data."""

from pathlib import Path
from typing import Any

import click

from sim.cli.declared import options_of
from sim.cli.render.output import PATH
from sim.cli.study import carry_out, study_options
from sim.experiments.fit_plan import make_fit
from sim.experiments.options import SearchOptions
from sim.runner.options import RunOptions

_VARY = click.option(
    "--vary",
    multiple=True,
    metavar="KEY=VALUES",
    help="Where to look for a value: low..high, or a,b,c; KEY,KEY=[a,1],[b,2] for keys that change together. "
    "Repeatable.",
)


@click.command(
    "fit",
    epilog="""Examples:

    \b
      sim fit scenarios/contagion.yaml --vary agents.person.state.beta=0.01..0.3 --target ill.csv
      sim fit epidemic.yaml --vary agents.person.state.beta=0.01..0.3 --target ill.csv --loss mae --candidates 40
      sim fit --resume experiments/contagion-1""",
)
@click.argument("scenario", type=PATH, required=False)
@options_of(RunOptions, "mode", mode="Default: that of the scenario.")
@study_options("5", "samples", "experiments/NAME-NUMBER", planned=(_VARY, options_of(SearchOptions)), fixed=True)
def command(scenario: Path | None, **options: Any) -> int:
    """Find the values of SCENARIO with which its runs agree with data: a CSV file with a column `time` and one for each
    metric, or with one row of outcomes.

    Optuna chooses candidates in batches. Each candidate is run with the same seeds; one that is clearly worse than the
    best so far ends early. The best get further seeds. The sampler gets what a batch shows in the order of its
    candidates, so the fit is the same with any --jobs, on Ray, and after an interruption. docs/fit.md explains all.
    """
    return carry_out(make_fit, scenario, options)
