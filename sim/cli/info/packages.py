"""`sim info packages`: what installed packages offer."""

from collections.abc import Iterable
from typing import Final

import click

from sim.agents.packages import AGENTS, GRAPHS, SCENARIOS, Group, Offer, offers
from sim.cli.render.output import common, print_json
from sim.cli.render.table import print_table

_HEADINGS: Final[dict[str, Group]] = {"agents": AGENTS, "scenarios": SCENARIOS, "graphs": GRAPHS}


@click.command(
    "packages",
    epilog="""Example:

    \b
      sim info packages
      sim run walkers:walk
      sim run my.yaml --allow walkers""",
)
@common
def command(as_json: bool) -> None:
    """List the installed packages that offer kinds of agents, scenarios or graphs. Nothing of them is imported."""
    offered: dict[tuple[str, str], dict[str, list[str]]] = {}
    for heading, group in _HEADINGS.items():
        for offer in offers(group):
            _names(offered, offer)[heading].append(offer.name)
    packages = [{"package": name, "version": version, **own} for (name, version), own in sorted(offered.items())]
    if as_json:
        print_json({"packages": packages})
    elif packages:
        rows = [(name, version, *map(_text, own.values())) for (name, version), own in sorted(offered.items())]
        print_table(("package", "version", *_HEADINGS), rows, named=True)
    else:
        click.echo("no installed package offers agents, scenarios or graphs; make one: sim new NAME --package")


def _names(offered: dict[tuple[str, str], dict[str, list[str]]], offer: Offer) -> dict[str, list[str]]:
    return offered.setdefault((offer.package, offer.version), {heading: [] for heading in _HEADINGS})


def _text(names: Iterable[str]) -> str:
    return ", ".join(names)
