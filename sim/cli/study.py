"""Shared code of the commands that carry out a study of a scenario: a sweep, a bench or a fit."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import attrs
import click

from sim.base.errors import UsageError
from sim.base.shown import Keywords
from sim.cli.declared import options_of
from sim.cli.experiment_options import chosen, hosting_of, seed_options, was_given, worker_options
from sim.cli.model_options import ENDPOINT, MODEL, endpoint_options, models_in
from sim.cli.render.experiments import work_on
from sim.cli.render.output import PATH, common, say
from sim.cli.rights_options import rights_options
from sim.cli.run import find_and_allow, host_options, import_from_here
from sim.experiments.arms import check_past
from sim.experiments.designs import Design, untried, variable
from sim.experiments.fit_estimate import size_of_fit
from sim.experiments.folder import begin, continue_experiment
from sim.experiments.indices import is_method, size_text
from sim.experiments.listed import listed
from sim.experiments.plan import Plan, check_allowed, check_models, check_scenario
from sim.experiments.workers import check_workers, workers_of
from sim.runner.options import ReplayOptions, RunOptions
from sim.tools.rights import Rights

Command = TypeVar("Command", bound=Callable[..., Any])

VARY = click.option(
    "--vary",
    multiple=True,
    metavar="KEY=VALUES",
    help="Values of a key: a,b,c or low..high:n; low..high for designs that sample; KEY,KEY=[a,1],[b,2] for keys "
    "that change together. Repeatable: all combinations.",
)
_PLANNED = (
    VARY,
    click.option(
        "--points",
        type=PATH,
        metavar="FILE",
        help="Combinations in a CSV file (keys in the first line) or a JSON Lines file, as they are.",
    ),
    click.option(
        "--design",
        type=click.Choice([one for one in get_args(Design) if one not in ("list", "fit")]),
        help="Default: factorial. For sensitivity indices: saltelli, morris or fast.",
    ),
    click.option(
        "--samples",
        type=click.IntRange(1, 100_000),
        help="Combinations of a latin or sobol design; N of a design for sensitivity, which has several for each.",
    ),
)
_RUNS = options_of(
    RunOptions, "until", "overrides", until="The simulated time of each run.", overrides="Change a value in all runs."
)
_CARRIED_OUT = (
    click.option("--plan", "plan_file", type=PATH, metavar="FILE", help="Carry out a plan.json that was written."),
    click.option("--resume", type=PATH, metavar="FOLDER", help="Continue a stopped sweep or bench, or arms."),
    options_of(
        ReplayOptions, "allow_change", allow_change="Arms: accept a changed scenario or code. The past is verified."
    ),
    click.option("--again", is_flag=True, help="With --resume: try failed trials again."),
)


@attrs.frozen(kw_only=True)
class StudyStart:
    """Where an experiment begins or continues, and who carries it out: options that are no part of a plan."""

    plan_file: Path | None
    resume: Path | None
    again: bool
    out: Path | None
    jobs: int | None
    on: str | None
    as_json: bool


def study_options(
    seeds: str, level: str, folder: str, *, planned: Sequence[Callable[[Any], Any]] = _PLANNED, fixed: bool = False
) -> Callable[[Command], Command]:
    """Return what adds the options that `sweep`, `bench` and `fit` share to a command.

    Args:
        seeds: the number of seeds by default.
        level: how much is recorded of each trial by default.
        folder: the folder of the results by default.
        planned: the options that say what is varied.
        fixed: whether the number of seeds is fixed; see `seed_options`.
    """
    recording = options_of(
        RunOptions,
        "recording",
        recording=f"How much is recorded of each trial. Default: what the scenario says, otherwise {level}.",
    )
    to = click.option("--to", "out", type=PATH, metavar="FOLDER", help=f"Folder for the results. Default: {folder}.")
    groups = (
        *planned,
        seed_options(seeds, fixed=fixed),
        _RUNS,
        recording,
        *_CARRIED_OUT,
        rights_options,
        MODEL,
        endpoint_options,
        worker_options,
        host_options,
        to,
        common,
    )

    def add(command: Command) -> Command:
        for option in reversed(groups):
            command = option(command)
        return command

    return add


def carry_out(make: Callable[..., Plan], scenario: Path | None, options: Keywords) -> int:
    """Carry out the plan that a command makes or names, print its results, and return the exit code.

    Args:
        make: makes a plan from a scenario file and the options that a plan says.
        scenario: the scenario; None: `--plan` or `--resume` says it.
        options: the options of the command; see `study_options`.
    """
    start = StudyStart(**{field.name: options.pop(field.name) for field in attrs.fields(StudyStart)})
    rights: Rights = options.pop("rights")
    hosted = {name: options.pop(name) for name in _HOSTED} | options.pop("host")
    change = hosted["allow_change"]
    if scenario is not None:
        scenario, allow = find_and_allow(scenario, rights.allow)
        rights = attrs.evolve(rights, allow=allow)
    endpoint = {name: options.pop(name) for name in ENDPOINT}
    option_names = [name for name, value in options.items() if was_given(value)]
    if start.resume is None and start.plan_file is None:
        options["models"] = models_in(endpoint, options["models"])
    outside = scenario is not None or start.plan_file is not None or start.out is not None
    if start.resume is not None and (outside or option_names):
        raise UsageError("--resume continues the plan of its folder", hint="leave out all other options")
    if start.again and start.resume is None:
        raise UsageError("--again tries the failed trials of an experiment again", hint="add --resume FOLDER")
    with contextlib.ExitStack() as opened:
        results = None
        if start.resume is not None:
            results = opened.enter_context(contextlib.closing(continue_experiment(start.resume, allow_change=change)))
            plan = results.plan
        elif start.plan_file is not None:
            plan = _of_file(start.plan_file, scenario, options, option_names, allow_change=change)
        elif scenario is not None:
            if (points := options.pop("points", None)) is not None:
                options["listed"] = listed(points)
            plan = make(scenario, allow=rights.allow, **chosen(options))
        else:
            raise UsageError("there is no scenario", hint="give a scenario, --plan FILE or --resume FOLDER")
        check_allowed(plan, rights.allow)
        if plan.allow:
            import_from_here(Path(plan.file).parent)
        hosting = hosting_of(plan, endpoint, rights, **hosted)
        check_workers(plan, start.jobs, start.on, hosting.ray)
        if is_method(plan.design):
            say(_size(plan))
        results = results or opened.enter_context(contextlib.closing(begin(plan, start.out)))
        if plan.fit is not None:
            say(f"sim: {size_of_fit(results, hosting, start.jobs, timed=start.on is None)}")
        workers = workers_of(plan, results.folder, start.jobs, start.on)
        return work_on(results, workers, hosting, again=start.again, as_json=start.as_json)


def _size(plan: Plan) -> str:
    """Return how many runs a design for sensitivity analysis takes, and a line for each key with values not tried."""
    assert is_method(plan.design), "only these have such sizes"
    size = size_text(plan.design, len(plan.vary), plan.samples or 0, second_order=plan.second_order)
    count = plan.seeds[1]
    seeds = f"{count:,} seed{'' if count == 1 else 's'}"
    lines = [f"design {plan.design}: {size} × {seeds}: {len(plan.points) * count:,} runs"]
    lines += untried([variable(text) for text in plan.vary], plan.points, plan.design)
    return "\n".join(f"sim: {line}" for line in lines)


_HOSTED = ("other_endpoint", "allow_change", "ceiling", "ceiling_tokens")


def _of_file(
    plan_file: Path, scenario: Path | None, options: Keywords, option_names: list[str], *, allow_change: bool
) -> Plan:
    """Return the plan of a file.

    Raises:
        UsageError: if it is none, options say something else, or its scenario or run has changed.
    """
    for name in option_names:
        if name != "models":
            raise UsageError(f"a plan says everything, so --{name} cannot be given", hint="leave it out")
    try:
        plan = Plan.from_json(plan_file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{plan_file} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{plan_file} is no plan of an experiment: it is not UTF-8") from error
    plan = plan if scenario is None else attrs.evolve(plan, file=str(scenario))
    check_scenario(plan, Path(plan.file))
    check_past(plan, allow_change=allow_change)
    check_models(plan, options["models"])
    return plan
