"""The options that commands for experiments share."""

from collections.abc import Callable
from typing import Any, TypeVar

import attrs
import click

from sim.base.shown import Keywords
from sim.cli.declared import options_of
from sim.cli.model_options import access_of
from sim.cli.render.progress import say_stuck
from sim.experiments.options import MOST_SEEDS, Precision, StudyOptions, Work
from sim.experiments.plan import Plan, TrialHosting
from sim.resources import to_micro
from sim.tools.rights import Rights

Command = TypeVar("Command", bound=Callable[..., Any])

_PRECISION = (
    click.option(
        "--until-precision",
        "share",
        metavar="PERCENT",
        help="Add seeds until half of each 95 % interval is at most this share of the mean, for example 5%.",
    ),
    click.option(
        "--most-seeds", type=click.IntRange(2, 100_000), help=f"With --until-precision. Default: {MOST_SEEDS}."
    ),
)


def seed_options(count: str, *, fixed: bool = False) -> Callable[[Command], Command]:
    """Return what adds the options of seeds, precision and shared answers to a command.

    Args:
        count: the number of seeds by default.
        fixed: whether the command has a fixed number of seeds, and outcomes of its own, as a fit has.
    """
    number = click.option(
        "--seeds", "count", type=click.IntRange(1, 100_000), help=f"The number of seeds. Default: {count}."
    )

    def add(command: Command) -> Command:
        rest = options_of(StudyOptions, *(() if fixed else ("outcomes",)), "answers", "record")
        enough = () if fixed else _PRECISION
        for option in reversed((number, options_of(StudyOptions, "first_seed"), *enough, rest)):
            command = option(command)
        return command

    return add


def worker_options(command: Command) -> Command:
    """Add the options that say where trials are run, and what they may spend, to a command."""
    return options_of(Work)(command)


def was_given(value: Any) -> bool:
    """Return whether an option was given, by its value."""
    return value is not False and value not in (None, (), [])


def chosen(options: Keywords) -> Keywords:
    """Return the options of `seed_options` that were given, as arguments of the functions that make plans."""
    arguments = {name: value for name, value in options.items() if was_given(value)}
    precision = Precision.of(arguments.pop("share", None), arguments.pop("most_seeds", None))
    return arguments if precision is None else {**arguments, "precision": precision}


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
        **attrs.evolve(rights, allow=plan.allow).keywords,
        access=access,
        stuck=say_stuck,
        ceiling_micro=None if ceiling is None else to_micro(ceiling),
        **options,
    )
    hosting.reached(access)
    return hosting
