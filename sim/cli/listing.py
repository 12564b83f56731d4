"""`sim list`: the recorded runs."""

from pathlib import Path

import click

from sim.cli.render.output import OUT, common, plain, print_json
from sim.cli.render.summary import duration
from sim.cli.render.table import print_table
from sim.store import RunInfo, list_runs

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
        headings = ("run", "scenario", "mode", "seed", "status", "simulated", "events", "hash")
        print_table(headings, map(_row, runs))
        for info in runs:
            if info.problem or info.lost:
                click.echo(f"{plain(info.id)}: {plain(info.problem or info.lost or '')}")
    else:
        click.echo(f"no runs in {plain(out)}")


def _row(info: RunInfo) -> tuple[str | int | None, ...]:
    simulated = "" if info.sim_seconds is None else duration(info.sim_seconds)
    seed = None if info.problem else str(info.seed)
    return info.id, info.name, info.mode, seed, info.status, simulated, info.events, (info.hash or "")[:16]
