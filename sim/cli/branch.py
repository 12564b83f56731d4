"""`sim branch`: new runs that share the past of a recorded run up to one moment, and then continue live."""

import contextlib
import json
from pathlib import Path
from typing import Any

import click

from sim.base.errors import UsageError
from sim.base.shown import Keywords
from sim.cli.declared import options_of
from sim.cli.experiment_options import chosen, hosting_of, seed_options, was_given, worker_options
from sim.cli.model_options import access_of, endpoint_options
from sim.cli.render.attribution import attribution_options, check_picture, confirm, print_explained
from sim.cli.render.experiments import work_on
from sim.cli.render.output import OUT, PATH, common, reading, say
from sim.cli.rerun import again_options, at_work, by_id, decided, print_live
from sim.cli.run import NO_RECORD, import_from_here
from sim.experiments.arms import arms_of, make_arms
from sim.experiments.attribution.turning import turning_point as explain_turning
from sim.experiments.folder import begin
from sim.experiments.workers import check_workers, workers_of
from sim.runner import branch
from sim.runner.options import BranchOptions
from sim.runner.plain import needs_outside
from sim.runner.rebuild import models_asked
from sim.tools.rights import Rights

_ARM = click.option(
    "--arm",
    "arms",
    multiple=True,
    metavar="NAME:KEY=VALUE",
    help="Compare arms instead: what an arm changes at that time. The same NAME again changes more. Repeatable.",
)
_TURNING = click.option(
    "--turning-point",
    metavar="CONDITION",
    help="Estimate instead how likely this outcome was at each moment, and which steps changed that.",
)
_TO = click.option(
    "--to",
    type=PATH,
    metavar="PATH",
    help="With --arm: the folder of the results. Default: experiments/NAME-NUMBER. With --turning-point: an SVG file.",
)
_ANSWERS = (
    "sim: before the time of the branch, answers of models, tools and people are those on record;"
    " after it, models and tools are called again, which can cost money"
)
_TO_ARMS = "give each change to an arm: --arm NAME:KEY=VALUE"
_COMPARISON = (
    "count", "first_seed", "share", "most_seeds", "outcomes", "answers", "record", "jobs", "on", "to",
    "ceiling", "ceiling_tokens",
)  # fmt: skip
"""The options that compare arms."""


@click.command(
    "branch",
    epilog="""Examples:

    \b
      sim branch ecology --at 12h --seed 7
      sim branch ecology --at 12h --set limits.llm_calls.global='20 per 10m' --tag strict
      sim branch contagion --at 24h --set agents.person.state.beta=0.02
      sim branch contagion --without 1234
      sim branch contagion --replace '1234:{"ill": false}'
      sim diff ecology~1 ecology
      sim branch contagion --turning-point "last('R') > 20" --to curve.svg
      sim branch contagion --at 24h --arm low:agents.person.state.beta=0.02 --seeds 20
      sim sweep --resume experiments/contagion-1""",
)
@click.argument("run")
@click.option(
    "--at",
    metavar="DURATION",
    help="The simulated time at which the branch begins. Default: that of the first event it leaves out or replaces.",
)
@options_of(BranchOptions, "at_event", "without", "replace")
@options_of(
    BranchOptions,
    "overrides",
    "tags",
    "seed",
    "until",
    seed="The seed of random draws after that time.",
    until="The simulated time at which the branch ends.",
)
@options_of(BranchOptions, "models")
@_TURNING
@attribution_options
@_ARM
@seed_options("10")
@worker_options
@_TO
@options_of(BranchOptions, "effects")
@endpoint_options
@again_options
@NO_RECORD
@OUT
@common
def command(
    run: str, out: Path, *, at: str | None, at_event: int | None, without: tuple[int, ...], replace: tuple[str, ...],
    overrides: tuple[str, ...], seed: int | None, until: str | None,
    tags: tuple[str, ...], models: tuple[str, ...], effects: tuple[str, ...], host: Keywords,
    rights: Rights, allow_change: bool, quiet: bool, as_json: bool, other_endpoint: bool,
    no_record: bool, arms: tuple[str, ...], turning_point: str | None, budget: int | None, yes: bool, **options: Any,
) -> int:  # fmt: skip
    """Start a new run: replay RUN up to a time, then continue live with the given changes.

    With --arm, compare several futures with a baseline that changes nothing, with common random numbers, over several
    seeds. The results are in a folder like those of `sim sweep`, which resumes them.

    With --turning-point, estimate by futures with other draws how likely an outcome was at moments of RUN. The cost is
    said first; --budget is the most futures, and after --max-wall no more of them begin.

    At a time above 0, only live values can change: limits, costs, events, interventions, stop; the state, rules,
    limits, permission and loop delays of agents; the language models, and models.latency.
    """
    with reading(out, run, verify=False) as stored:
        folder, asked, outside = stored.path, models_asked(stored.info.options), needs_outside(stored)
    comparison = {name: options.pop(name) for name in _COMPARISON}
    single = {
        "--set": overrides, "--seed": seed, "--at-event": at_event, "--without": without, "--replace": replace,
        "--model": models, "--effect": effects, "--tag": tags, "--no-record": no_record,
    }  # fmt: skip
    if turning_point is not None:
        settings = {name: comparison.pop(name) for name in ("jobs", "answers", "to")}
        others = {**single, "--at": at, "--until": until, "--arm": arms, **_named(comparison)}
        _refuse(others, "is not for --turning-point", "leave it out: futures differ by their draws alone")
        settings |= {"budget": budget, "allow_change": allow_change, "access": access_of(options, asked)}
        settings["max_wall"] = host["max_wall"]
        return _explain(folder, turning_point, rights, yes=yes, as_json=as_json, **settings)
    _refuse({"--budget": budget, "--yes": yes}, "is for futures", "add --turning-point CONDITION")
    if outside and not quiet:
        say(_ANSWERS)
    host |= {"until": until, "allow_change": allow_change, "other_endpoint": other_endpoint}
    if arms:
        _refuse({**single, "--quiet": quiet}, "is for a single branch", _TO_ARMS)
        return _arms(folder, at, arms, rights, comparison, options, as_json=as_json, **host)
    _refuse(_named(comparison), "compares arms", "add --arm NAME:KEY=VALUE")
    access = access_of(options, models or asked)
    with at_work(rights, quiet=quiet) as working:
        result = branch(
            folder,
            at=at,
            at_event=at_event,
            without=without,
            replace=_replaced(replace),
            overrides=overrides,
            seed=seed,
            out=out,
            effects=decided(effects),
            models=models,
            tags=tags,
            record=not no_record,
            access=access,
            **host,
            **working,
        )
    return print_live(result, as_json=as_json, quiet=quiet)


def _arms(
    folder: Path,
    at: str | None,
    arms: tuple[str, ...],
    rights: Rights,
    comparison: Keywords,
    options: Keywords,
    *,
    until: str | None,
    allow_change: bool,
    as_json: bool,
    **host: Any,
) -> int:
    """Compare several futures with a baseline, and print the results."""
    if at is None:
        raise UsageError("the time at which the arms begin is missing", hint="give it: --at DURATION")
    if rights.allow:
        import_from_here()
    jobs, on, to = (comparison.pop(name) for name in ("jobs", "on", "to"))
    ceilings = {name: comparison.pop(name) for name in ("ceiling", "ceiling_tokens")}
    plan = make_arms(
        folder,
        at=at,
        arms=arms_of(arms),
        until=until,
        allow=rights.allow,
        allow_change=allow_change,
        **chosen(comparison),
    )
    hosting = hosting_of(plan, options, rights, allow_change=allow_change, **host, **ceilings)
    check_workers(plan, jobs, on, hosting.ray)
    with contextlib.closing(begin(plan, to)) as results:
        workers = workers_of(plan, results.folder, jobs, on)
        return work_on(results, workers, hosting, again=False, as_json=as_json)


def _explain(
    folder: Path, condition: str, rights: Rights, *, to: Path | None, yes: bool, as_json: bool, **settings: Any
) -> int:
    """Estimate how likely a condition was at each moment of a run, and print that."""
    check_picture(to)
    if rights.allow:
        import_from_here()
    arguments = {name: value for name, value in settings.items() if value is not None}
    explained = explain_turning(folder, condition, confirm=confirm(yes=yes), **arguments, **rights.keywords)
    return print_explained(explained, to=to, as_json=as_json)


def _replaced(texts: tuple[str, ...]) -> dict[int, Any]:
    """Return the new data by the number of the event.

    Raises:
        UsageError: if a text does not have the form ID:JSON, or a number is given twice.
    """
    replacements: dict[int, Any] = {}
    for number, data in by_id(texts, "--replace", "ID:JSON", "17:'[1, 2]'").items():
        try:
            replacements[number] = json.loads(data)
        except ValueError as error:
            raise UsageError(f"--replace {number}: the data is not JSON: {error}") from error
    return replacements


def _named(options: Keywords) -> Keywords:
    """Return options by their names on the command line."""
    names = {str(option.name): option.opts[0] for option in command.params}
    return {names[name]: value for name, value in options.items()}


def _refuse(options: Keywords, what: str, hint: str) -> None:
    for name, value in options.items():
        if was_given(value):
            raise UsageError(f"{name} {what}", hint=hint)
