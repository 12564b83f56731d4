"""`sim new`: write a small scenario to start from."""

import re
from pathlib import Path

import click

from sim.cli.render.output import PATH, common, plain, print_json
from sim.cli.schema import schema_text, write_new
from sim.errors import UsageError

SCHEMA = "scenario.schema.json"


@click.command(
    "new",
    epilog="""Example:

    \b
      sim new village
      sim run village.yaml""",
)
@click.argument("name")
@click.option("--dir", "folder", type=PATH, default=Path(), metavar="DIR", help="Default: the current folder.")
@common
def command(name: str, folder: Path, as_json: bool) -> None:
    """Write NAME.yaml, a scenario with comments, and a JSON Schema for editors."""
    if not re.fullmatch("[a-z][a-z0-9-]{0,63}", name):
        raise UsageError(f"{name!r} is not a valid scenario name", hint="use a-z, 0-9 and hyphens, a letter first")
    starter = Path(__file__).with_name("starter.yaml").read_text(encoding="utf-8")
    target, schema = folder / f"{name}.yaml", folder / SCHEMA
    write_new(target, starter.replace("NAME", name))
    files = [target]
    if not schema.exists():  # all scenarios in a folder share one schema
        write_new(schema, schema_text())
        files.append(schema)
    if as_json:
        print_json({"files": files})
    else:
        click.echo(f"wrote {' and '.join(plain(file) for file in files)}; run it: sim run {plain(target)}")
