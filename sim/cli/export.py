"""`sim export`: write a view of a run to a file."""

from pathlib import Path
from typing import Any

import click

import sim.llm.views  # noqa: F401  # registers the views of model calls
from sim.cli.render.output import OUT, PATH, common, plain, print_json, reading
from sim.store import export


@click.command(
    "export",
    epilog="""Example:

    \b
      sim export queue-1 observations --format csv --to waits.csv""",
)
@click.argument("run")
@click.argument("view")
@click.option("--format", "form", type=click.Choice(["csv", "parquet", "json"]), required=True)
@click.option("--to", "target", type=PATH, required=True, metavar="FILE", help="The file to write.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@OUT
@common
def command(run: str, view: str, form: Any, target: Path, force: bool, out: Path, as_json: bool) -> None:
    """Write VIEW of RUN to a file. RUN is a folder, or the beginning of a name in `sim list`.

    Views: events, transitions, actions, messages, samples, observations.
    """
    with reading(out, run) as stored:
        rows = export(stored, view, target, form, force=force)
    if as_json:
        print_json({"file": target, "rows": rows})
    else:
        click.echo(f"{rows:,} rows in {plain(target)}")
