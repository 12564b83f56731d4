"""`sim info schema`: the JSON Schema of scenario files."""

import json
from pathlib import Path

import click

from sim.agents import allow_families
from sim.base.errors import UsageError
from sim.cli.render.output import PATH, common, plain, print_json
from sim.scenario import json_schema


@click.command(
    "schema",
    epilog="""Examples:

    \b
      sim info schema --to scenario.schema.json
      sim info schema --allow walkers --to scenario.schema.json""",
)
@click.option(
    "--allow", multiple=True, metavar="PACKAGE", help="Include the kinds of agents of this installed package."
)
@click.option("--to", "target", type=PATH, metavar="FILE", help="Write the schema to a new file.")
@common
def command(target: Path | None, allow: tuple[str, ...], as_json: bool) -> None:
    """Print the JSON Schema of scenario files. Editors use it to complete and check scenarios."""
    allow_families(allow)
    if target is None:
        print_json(json_schema()) if as_json else click.echo(schema_text(), nl=False)
        return
    write_new(target, schema_text())
    print_json({"file": target}) if as_json else click.echo(f"wrote {plain(target)}")


def schema_text() -> str:
    """Return the schema as the text of a file."""
    return json.dumps(json_schema(), indent=2) + "\n"


def write_new(path: Path, text: str) -> None:
    """Write a new file.

    Raises:
        UsageError: if the file exists, or cannot be written.
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} exists", hint="choose another name, or remove the file first") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
