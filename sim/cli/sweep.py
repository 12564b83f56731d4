"""`sim sweep`: run a scenario with other values and seeds, and estimate its outcomes."""

from pathlib import Path
from typing import Any

import attrs
import click

from sim.cli.render.experiments import precision_of, work_on
from sim.cli.render.output import ALLOW, PATH, common
from sim.cli.run import MAX_SEED, allow_imports
from sim.errors import UsageError
from sim.experiments.arms import check_past
from sim.experiments.folder import begin, go_on
from sim.experiments.plan import Plan, check_scenario, make_sweep
from sim.experiments.pool import cores
from sim.experiments.results import Results


@click.command(
    "sweep",
    epilog="""Examples:

    \b
      sim sweep scenarios/contagion.yaml --vary agents.person.state.beta=0.02,0.05,0.1 --seeds 30
      sim sweep scenarios/contagion.yaml --vary agents.person.state.beta=0.02..0.2:10 --until-precision 5%
      sim sweep scenarios/contagion.yaml --vary agents.person.state.beta=0.02..0.2 --design sobol --samples 16
      sim sweep --resume experiments/contagion-1""",
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
@click.option("--resume", type=PATH, metavar="FOLDER", help="Go on with a stopped sweep, or with arms.")
@click.option("--again", is_flag=True, help="With --resume: try failed trials again.")
@ALLOW
@click.option("--jobs", type=click.IntRange(1, 1024), help="Number of parallel processes. Default: one per core.")
@click.option("--out", type=PATH, metavar="FOLDER", help="Folder for the results. Default: experiments/NAME-NUMBER.")
@common
def command(
    scenario: Path | None, *, plan_file: Path | None, resume: Path | None, again: bool, jobs: int | None,
    out: Path | None, as_json: bool, **options: Any,
) -> int:  # fmt: skip
    """Run SCENARIO with all combinations of values and several seeds, and estimate its outcomes with 95 % intervals.

    The folder gets plan.json (the plan, which can be cited and carried out again), results.db (each trial as soon as it
    is done), results.csv and results.html. The exit code is 1 if a trial failed. docs/experiments.md explains all.
    """
    if options["allow"]:
        allow_imports((scenario or Path()).resolve().parent)
    results = _opened(scenario, plan_file, resume, out, options)
    return work_on(results, jobs or cores(), again=again, as_json=as_json)


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
        return go_on(resume)
    if plan_file is not None:
        if given:
            raise UsageError(f"a plan says everything, so --{given[0]} cannot be given", hint="leave it out")
        return begin(_read(plan_file, scenario), out)
    if scenario is None:
        raise UsageError("there is no scenario", hint="give a scenario, --plan FILE or --resume FOLDER")
    precision = precision_of(options.pop("share"), options.pop("most_seeds"))
    chosen = {name: value for name, value in options.items() if value is not None}
    return begin(make_sweep(scenario, precision=precision, **chosen), out)


def _read(plan_file: Path, scenario: Path | None) -> Plan:
    try:
        plan = Plan.from_json(plan_file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{plan_file} cannot be read: {error}") from error
    plan = plan if scenario is None else attrs.evolve(plan, file=str(scenario))
    check_scenario(plan, Path(plan.file))
    check_past(plan)
    return plan
