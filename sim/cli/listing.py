"""`sim list`: the recorded runs."""

from pathlib import Path

import click

from sim.cli.render.output import OUT, common, plain, print_json
from sim.cli.render.table import print_table
from sim.store import list_runs
from sim.store.reader import LISTED, listed

_KEPT = (
    "id",
    "path",
    "status",
    "problem",
    "lost",
    "name",
    "mode",
    "seed",
    "backend",
    "started_at",
    "sim_seconds",
    "events",
    "hash",
)


@click.command(
    "list",
    epilog="""Example:

    \b
      sim list --out runs""",
)
@OUT
@common
def command(out: Path, as_json: bool) -> None:
    """List runs, the newest first. A running run without a process is shown as killed."""
    runs = list_runs(out)[::-1]
    if as_json:
        print_json({"runs": [{name: getattr(info, name) for name in _KEPT} for info in runs]})
    elif runs:
        print_table(LISTED, map(listed, runs))
        for info in runs:
            if info.problem or info.lost:
                click.echo(f"{plain(info.id)}: {plain(info.problem or info.lost or '')}")
    else:
        click.echo(f"no runs in {plain(out)}")
