"""`sim new`: write a scenario to start from: a small one, or a copy of one of the gallery."""

import re
from pathlib import Path

import click

from sim.cli.gallery import scenario_copy, scenario_names, scenario_text, scenario_title
from sim.cli.render.output import PATH, common, plain, print_json
from sim.cli.schema import schema_text, write_new
from sim.errors import UsageError

SCHEMA = "scenario.schema.json"
FOR_EDITORS = f"# yaml-language-server: $schema={SCHEMA}\n"


@click.command(
    "new",
    epilog="""Examples:

    \b
      sim new village
      sim run village.yaml
      sim new --list
      sim new --from contagion
      sim new outbreak --from contagion --dir studies""",
)
@click.argument("name", required=False)
@click.option("--from", "source", metavar="SCENARIO", help="Copy this scenario of the gallery; NAME may be left out.")
@click.option("--list", "listed", is_flag=True, help="List the scenarios of the gallery, and write nothing.")
@click.option("--dir", "folder", type=PATH, default=Path(), metavar="DIR", help="Default: the current folder.")
@common
def command(name: str | None, source: str | None, listed: bool, folder: Path, as_json: bool) -> None:
    """Write NAME.yaml, a scenario with comments, and a JSON Schema for editors.

    It is a small village to start from, or with --from a copy of a scenario that comes with sim.
    """
    if listed:
        if name or source:
            raise UsageError("--list writes nothing, so it takes neither NAME nor --from")
        _list(as_json)
        return
    name = name or source
    if name is None:
        raise UsageError("the name of the scenario is missing", hint="sim new village, or sim new --from contagion")
    if source is not None:
        scenario_text(source)  # a wrong --from is said first
    if not re.fullmatch("[a-z][a-z0-9-]{0,63}", name := name.replace("_", "-") if name == source else name):
        raise UsageError(f"{name!r} is not a valid scenario name", hint="use a-z, 0-9 and hyphens, a letter first")
    text = _starter(name) if source is None else FOR_EDITORS + scenario_copy(source, name)
    target, schema = folder / f"{name}.yaml", folder / SCHEMA
    write_new(target, text)
    files = [target]
    if not schema.exists():  # all scenarios in a folder share one schema
        write_new(schema, schema_text())
        files.append(schema)
    if as_json:
        print_json({"files": files})
    else:
        click.echo(f"wrote {' and '.join(plain(file) for file in files)}; run it: sim run {plain(target)}")


def _starter(name: str) -> str:
    return Path(__file__).with_name("starter.yaml").read_text(encoding="utf-8").replace("NAME", name)


def _list(as_json: bool) -> None:
    """Print the scenarios of the gallery, each with what it shows."""
    titles = {name: scenario_title(name) for name in scenario_names()}
    if as_json:
        print_json({"scenarios": [{"name": name, "description": title} for name, title in titles.items()]})
        return
    width = max(map(len, titles))
    for name, title in titles.items():
        click.echo(f"{name:<{width}}  {title}")
    click.echo("\ncopy one: sim new --from NAME")
