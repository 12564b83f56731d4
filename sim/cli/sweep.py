"""`sim sweep`: run a scenario with other values and seeds, and estimate its outcomes."""

import contextlib
from pathlib import Path
from typing import Any

import attrs
import click

from sim.base.errors import UsageError
from sim.cli.experiment_options import chosen, hosting_of, seed_options, worker_options
from sim.cli.model_options import ENDPOINT, MODEL, endpoint_options, models_in
from sim.cli.render.experiments import work_on
from sim.cli.render.output import PATH, common
from sim.cli.rights_options import rights_options
from sim.cli.run import allow_imports, found
from sim.experiments.arms import check_past
from sim.experiments.folder import begin, go_on
from sim.experiments.plan import Plan, check_allowed, check_models, check_scenario, make_sweep
from sim.experiments.workers import check_workers, workers_of
from sim.kernel.levels import LEVELS
from sim.tools.rights import Rights


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
@seed_options
@click.option("--mode", type=click.Choice(["autonomous", "tick"]), help="Default: that of the scenario.")
@click.option("--until", metavar="DURATION", help="The simulated time of each run.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a value in all runs.")
@click.option(
    "--recording",
    type=click.Choice(LEVELS),
    help="How much is recorded of each trial. Default: what the scenario says, otherwise samples.",
)
@click.option("--plan", "plan_file", type=PATH, metavar="FILE", help="Carry out a plan that a sweep has written.")
@click.option("--resume", type=PATH, metavar="FOLDER", help="Go on with a stopped sweep, or with arms.")
@click.option("--allow-change", is_flag=True, help="Arms: accept a changed scenario or code. The past is verified.")
@click.option("--again", is_flag=True, help="With --resume: try failed trials again.")
@rights_options
@MODEL
@endpoint_options
@worker_options
@click.option(
    "--to", "out", type=PATH, metavar="FOLDER", help="Folder for the results. Default: experiments/NAME-NUMBER."
)
@common
def command(
    scenario: Path | None, *, plan_file: Path | None, resume: Path | None, again: bool,
    allow_change: bool, jobs: int | None,
    on: str | None, out: Path | None, as_json: bool, rights: Rights, other_endpoint: bool,
    ceiling: float | None, ceiling_tokens: int | None, **options: Any,
) -> int:  # fmt: skip
    """Run SCENARIO with all combinations of values and several seeds, and estimate its outcomes with 95 % intervals.

    The folder gets plan.json (the plan, which can be cited and carried out again), results.db (each trial as soon as it
    is done), results.csv and results.html. The exit code is 1 if a trial failed. docs/experiments.md explains all.
    """
    if scenario is not None:
        scenario, allow = found(scenario, rights.allow)
        rights = attrs.evolve(rights, allow=allow)
    endpoint = {name: options.pop(name) for name in ENDPOINT}
    given = [name for name, value in options.items() if value not in (None, (), [])]
    if resume is None and plan_file is None:
        options["models"] = models_in(endpoint, options["models"])
    if resume is not None and (scenario is not None or plan_file is not None or out is not None or given):
        raise UsageError("--resume goes on with the plan of its folder", hint="leave out all other options")
    if again and resume is None:
        raise UsageError("--again tries the failed trials of an experiment again", hint="add --resume FOLDER")
    with contextlib.ExitStack() as opened:
        results = (
            None
            if resume is None
            else opened.enter_context(contextlib.closing(go_on(resume, allow_change=allow_change)))
        )
        plan = (
            _plan(scenario, plan_file, options, given, rights, allow_change=allow_change)
            if results is None
            else results.plan
        )
        check_allowed(plan, rights.allow)
        if plan.allow:
            allow_imports(Path(plan.file).parent)
        hosting = hosting_of(
            plan, endpoint, rights, other_endpoint=other_endpoint, allow_change=allow_change, ceiling=ceiling,
            ceiling_tokens=ceiling_tokens,
        )  # fmt: skip
        check_workers(plan, jobs, on)
        results = results or opened.enter_context(contextlib.closing(begin(plan, out)))
        workers = workers_of(plan, results.folder, jobs, on)
        return work_on(results, workers, hosting, again=again, as_json=as_json)


def _plan(
    scenario: Path | None, plan_file: Path | None, options: dict[str, Any], given: list[str], rights: Rights, *,
    allow_change: bool,
) -> Plan:  # fmt: skip
    """Return the plan of a file, or of the options.

    Raises:
        UsageError: if the options contradict each other.
    """
    if plan_file is not None:
        for name in given:
            if name != "models":
                raise UsageError(f"a plan says everything, so --{name} cannot be given", hint="leave it out")
        plan = _read(plan_file, scenario, allow_change=allow_change)
        check_models(plan, options["models"])
        return plan
    if scenario is None:
        raise UsageError("there is no scenario", hint="give a scenario, --plan FILE or --resume FOLDER")
    return make_sweep(scenario, allow=rights.allow, **chosen(options))


def _read(plan_file: Path, scenario: Path | None, *, allow_change: bool) -> Plan:
    try:
        plan = Plan.from_json(plan_file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{plan_file} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{plan_file} is no plan of an experiment: it is not UTF-8") from error
    plan = plan if scenario is None else attrs.evolve(plan, file=str(scenario))
    check_scenario(plan, Path(plan.file))
    check_past(plan, allow_change=allow_change)
    return plan
