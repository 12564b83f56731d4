"""The options that commands for experiments share."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import attrs
import click

from sim.cli.model_options import access_of
from sim.cli.render.progress import say_stuck
from sim.cli.run import MAX_SEED
from sim.experiments.options import MOST_SEEDS, Precision
from sim.experiments.plan import Plan, TrialHosting
from sim.resources import to_micro
from sim.tools.rights import Rights

Command = TypeVar("Command", bound=Callable[..., Any])

_SEEDS = (
    click.option("--first-seed", type=click.IntRange(0, MAX_SEED), help="Default: that of the scenario or run."),
    click.option(
        "--until-precision", "share", metavar="PERCENT",
        help="Add seeds until half of each 95 % interval is at most this share of the mean, for example 5%.",
    ),
    click.option(
        "--most-seeds", type=click.IntRange(2, 100_000), help=f"With --until-precision. Default: {MOST_SEEDS}."
    ),
    click.option(
        "--outcome", "outcomes", multiple=True, metavar="OUTCOME",
        help="What matters: a name, or an expression such as 'mean(gini, from=200s)'. Repeatable. Default: `outcomes`.",
    ),
    click.option(
        "--answers", type=click.Choice(["seed", "all", "fresh"]),
        help="Trials that share answers of models at an endpoint: of one seed (default), all, or none (of a bench).",
    ),
    click.option("--record", is_flag=True, default=None, help="Record each trial, in `runs` of the results."),
)  # fmt: skip
_CEILINGS = (
    click.option("--ceiling", type=click.FloatRange(0), metavar="MONEY",
                 help="What the models of all trials may cost; no trial begins after that."),
    click.option("--ceiling-tokens", type=click.IntRange(0), metavar="N", help="The same for their tokens."),
)  # fmt: skip
_WORKERS = (
    click.option("--jobs", type=click.IntRange(1, 1024), help="Parallel processes. Default: one per core."),
    click.option(
        "--on", metavar="ray[:ADDRESS]", help="Run the trials as tasks of a Ray cluster. Without ADDRESS: a local one."
    ),
)


def seed_options(count: str) -> Callable[[Command], Command]:
    """Return what adds the options of seeds, precision and shared answers to a command.

    Args:
        count: the number of seeds by default.
    """
    number = click.option(
        "--seeds", "count", type=click.IntRange(1, 100_000), help=f"The number of seeds. Default: {count}."
    )

    def add(command: Command) -> Command:
        for option in reversed((number, *_SEEDS)):
            command = option(command)
        return command

    return add


def worker_options(command: Command) -> Command:
    """Add the options that say where trials are run, and what they may spend, to a command."""
    for option in reversed((*_WORKERS, *_CEILINGS)):
        command = option(command)
    return command


def chosen(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `seed_options` that were given, as arguments of the functions that make plans."""
    given = {name: value for name, value in options.items() if value not in (None, ())}
    precision = Precision.of(given.pop("share", None), given.pop("most_seeds", None))
    return given if precision is None else {**given, "precision": precision}


def hosting_of(
    plan: Plan, endpoint: dict[str, Any], rights: Rights, *, ceiling: float | None, **options: Any
) -> TrialHosting:
    """Return what the operator gives to the trials of a plan.

    Args:
        plan: the plan.
        endpoint: the options of endpoints.
        rights: what the operator lets the scenario do.
        ceiling: what the models of all trials may cost.
        options: further fields of `TrialHosting`.

    Raises:
        UsageError: if an option is not valid, or a key is missing.
    """
    access = access_of(endpoint, plan.models)
    if access is not None:
        access.check_key()
    hosting = TrialHosting(
        **attrs.evolve(rights, allow=plan.allow).keywords, access=access, stuck=say_stuck,
        ceiling_micro=None if ceiling is None else to_micro(ceiling), **options,
    )  # fmt: skip
    hosting.reached(access)
    return hosting
