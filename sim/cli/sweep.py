"""`sim sweep`: run a scenario with other values and seeds, and estimate its outcomes."""

from pathlib import Path
from typing import Any

import click

from sim.cli.declared import options_of
from sim.cli.render.output import PATH
from sim.cli.study import carry_out, study_options
from sim.experiments.plan import make_sweep
from sim.runner.options import RunOptions


@click.command(
    "sweep",
    epilog="""Examples:

    \b
      sim sweep scenarios/contagion.yaml --vary agents.person.state.beta=0.02,0.05,0.1 --seeds 30
      sim sweep scenarios/contagion.yaml --vary agents.person.state.beta=0.02..0.2:10 --until-precision 5%
      sim sweep scenarios/contagion.yaml --vary agents.person.state.beta=0.02..0.2 --design sobol --samples 16
      sim sweep scenarios/contagion.yaml --points design.csv --seeds 20 --baseline agents.person.state.beta=0.05
      sim sweep scenarios/contagion.yaml --vary agents.person.state.beta=0.02..0.2 --design morris --samples 10
      sim sweep --resume experiments/contagion-1""",
)
@click.argument("scenario", type=PATH, required=False)
@click.option(
    "--baseline",
    multiple=True,
    metavar="KEY=VALUE",
    help="The combination with which all others are compared, seed by seed. Repeatable.",
)
@click.option("--second-order", is_flag=True, default=None, help="Of saltelli: also what pairs of inputs do together.")
@options_of(RunOptions, "mode", mode="Default: that of the scenario.")
@study_options("10", "samples", "experiments/NAME-NUMBER")
def command(scenario: Path | None, **options: Any) -> int:
    """Run SCENARIO with all combinations of values and several seeds, and estimate its outcomes with 95 % intervals.

    The folder gets plan.json (the plan, which can be cited and carried out again), results.db (each trial as soon as it
    is done), results.csv and results.html. The exit code is 1 if a trial failed. docs/experiments.md explains all.
    """
    return carry_out(make_sweep, scenario, options)
