"""`sim info`: what there is, here and in what `sim` brings.

Read first: this file, which says what is installed; each other module is a command of its own.
"""

import platform
import sys
from importlib.metadata import packages_distributions, version
from typing import Final, TypedDict

import click

from sim import __version__
from sim.base import extras
from sim.cli.late_group import LateGroup
from sim.cli.render.output import common, print_json
from sim.cli.render.table import print_table

PARTS: Final = {
    "packages": "List what installed packages offer: kinds of agents, scenarios, graphs.",
    "tools": "Print the tools of MCP servers, as a part of a scenario.",
    "schema": "Print the JSON Schema of scenario files, for editors.",
    "dashboards": "Write the dashboards of Grafana and the rules of Prometheus to a folder.",
}
"""The commands of this one, and what each does."""


@click.group(
    "info",
    cls=LateGroup,
    groups={"More": PARTS},
    package=__name__,
    subcommand_metavar="[COMMAND ...]",
    invoke_without_command=True,
    epilog="""Examples:

    \b
      sim info
      sim info schema --to scenario.schema.json""",
)
@common
@click.pass_context
def command(context: click.Context, *, as_json: bool) -> None:
    """Show what is installed here: versions, the compiled part, the optional packages. A report of a fault needs it.

    A command after it shows something else.
    """
    if context.invoked_subcommand is not None:
        return
    installed = installation()
    if as_json:
        print_json(installed)
        return
    for name, value in [*installed.items()][:4]:
        click.echo(f"{name:10}{value}")
    click.echo()
    rows = [
        (name, "yes" if one["installed"] else "no", ", ".join(" ".join(pair) for pair in one["packages"].items()))
        for name, one in installed["extras"].items()
    ]
    print_table(("extra", "installed", "packages"), rows, named=True)
    if missing := [name for name, one in installed["extras"].items() if not one["installed"]]:
        click.echo(f"\ninstall an extra: pip install 'actor-sim[{missing[0]}]'")


class _Extra(TypedDict):
    """Whether all packages of an extra are there, and the versions of those that are."""

    installed: bool
    packages: dict[str, str]


class Installation(TypedDict):
    """What is installed here, as it is printed as JSON."""

    version: str
    python: str
    platform: str
    kernel: str
    extras: dict[str, _Extra]


def installation() -> Installation:
    """Return what is installed: the versions of `sim` and Python, the platform, the kernel, and the extras.

    An extra has the versions of those packages that `sim` imports and that are there, and whether these are all.
    """
    from sim.kernel import COMPILED  # the import is slow, and no other command of the group needs it

    return {
        "version": __version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{sys.platform} {platform.machine()}",
        "kernel": "compiled" if COMPILED else "plain Python",
        "extras": {
            name: {"installed": extras.installed(name), "packages": _versions(name)} for name in extras.PACKAGES
        },
    }


def _versions(extra: str) -> dict[str, str]:
    """Return the versions of what `sim` imports of an extra, by package, without what is not there."""
    there = packages_distributions()
    names = {name for module in extras.PACKAGES[extra] for name in there.get(module, ())}
    return {name: version(name) for name in sorted(names, key=str.lower)}
