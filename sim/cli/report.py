"""`sim report`: a report of a run as one HTML file."""

from pathlib import Path

import click

import sim.llm.views  # noqa: F401  # registers the views of model calls
from sim.cli.render.output import OUT, PATH, common, plain, print_json, reading
from sim.inspect.report import REPORT, write_report


@click.command(
    "report",
    epilog="""Examples:

    \b
      sim report ecology
      sim report ecology-1-3f --to ecology.html""",
)
@click.argument("run")
@click.option(
    "--to", "target", type=PATH, metavar="FILE", help=f"The file to write. Default: {REPORT} in the run folder."
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@OUT
@common
def command(run: str, target: Path | None, force: bool, out: Path, as_json: bool) -> None:
    """Write a report of RUN as one HTML file that needs no network and can be shared. RUN is a folder, or the beginning
    of a name in `sim list`. The run can still be running.
    """
    with reading(out, run) as stored:
        file = write_report(stored, target, force=force)
    if as_json:
        print_json({"file": file, "bytes": file.stat().st_size})
    else:
        click.echo(plain(file))
