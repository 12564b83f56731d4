"""What the commands of attribution, which explain an outcome, print, and the cost that is shown first."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click

from sim.base.errors import UsageError
from sim.base.pages import Chart, Table
from sim.cli.declared import options_of
from sim.cli.render.asking import confirmed
from sim.cli.render.output import plain, print_json, say
from sim.experiments.attribution.analysis import AttributionOptions
from sim.kernel.codec import Json

Command = TypeVar("Command", bound=Callable[..., Any])


class Explained(Protocol):
    """What an analysis returns."""

    def sentences(self) -> list[str]:
        """Return what was found."""

    def table(self) -> Table:
        """Return the estimates."""

    def to_json(self) -> dict[str, Json]:
        """Return it as a JSON-like mapping."""

    def plot(self) -> Chart:
        """Return a chart."""


def attribution_options(command: Command) -> Command:
    """Add the options of the budget and the cost to a command."""
    yes = click.option("--yes", is_flag=True, help="Do not ask whether the cost of models is accepted.")
    return options_of(AttributionOptions, "budget")(yes(command))


def check_picture(to: Path | None) -> None:
    """Check that a picture can be written, before anything is done.

    Raises:
        UsageError: if its format is not known, or its folder does not exist.
    """
    if to is not None and (to.suffix != ".svg" or not to.parent.is_dir()):
        raise UsageError(f"{to} is no picture that can be written", hint="its name ends with .svg, in a folder")


def confirm(*, yes: bool) -> Callable[[str, bool], bool]:
    """Return what shows the cost on stderr, and asks whether models may be paid."""
    return lambda text, money: confirmed(text, outside=money, yes=yes, only_estimate=False)


def print_explained(explained: Explained | None, *, to: Path | None, as_json: bool) -> int:
    """Print what an analysis found, and write its picture; return the exit code."""
    if explained is None:
        say("sim: nothing was done")
        return 0
    if to is not None:
        explained.plot().save(to)
    if as_json:
        print_json(explained.to_json())
        return 0
    for one in explained.sentences():
        click.echo(plain(one))
    click.echo()
    click.echo(explained.table().text())
    return 0
