"""`sim list`: the recorded runs."""

from pathlib import Path

import click

from sim.cli.render.output import OUT, common, plain, print_json
from sim.cli.render.table import print_table
from sim.events.coerce import whole
from sim.kernel import to_seconds
from sim.kernel.codec import Json
from sim.record import RunInfo, list_runs
from sim.record.run_table import run_table, with_tags

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
    epilog="""Examples:

    \b
      sim list --out runs
      sim list --tag pilot""",
)
@click.option("--tag", "tags", multiple=True, metavar="NAME", help="Only runs with this tag; with several, with each.")
@OUT
@common
def command(out: Path, tags: tuple[str, ...], as_json: bool) -> None:
    """List runs, the newest first. A running run without a process is shown as killed.

    A branch has the run and the time that it comes from. `set` has what --set changed, in the original run and in the
    branch, and the models that were given with --model.
    """
    runs = with_tags(list_runs(out)[::-1], tags)
    if as_json:
        print_json({"runs": [_fields(info) for info in runs]})
    elif runs:
        print_table(*run_table(runs))
        for info in runs:
            if problem := info.problem or info.lost or info.damaged:
                click.echo(f"{plain(info.id)}: {plain(problem)}")
    else:
        click.echo(f"no runs in {plain(out)}{' with this tag' if tags else ''}")


def _fields(info: RunInfo) -> dict[str, Json]:
    """Return a run as JSON."""
    options, origin = info.options, info.origin
    from_run = None
    if origin is not None:
        from_run = {
            "run": origin.get("run"),
            "time": to_seconds(whole(origin.get("at_ns"))),
            "set": origin.get("set", []),
            "seed": origin.get("seed"),
            "models": origin.get("model", []),
        }
    more = {
        "origin": from_run,
        "set": options.get("set", []),
        "models": options.get("model", []),
        "tags": options.get("tags", []),
    }
    return {**{name: getattr(info, name) for name in _KEPT}, **more}
