"""`sim list`: the recorded runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from sim.cli.render.output import OUT, common, plain, print_json
from sim.cli.render.summary import duration
from sim.cli.render.table import print_table
from sim.kernel import to_seconds
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

_LONGEST = 60  # characters of a value that was set


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
    runs = [info for info in list_runs(out)[::-1] if set(tags) <= {*info.options.get("tags", ())}]
    if as_json:
        print_json({"runs": [_fields(info) for info in runs]})
    elif runs:
        _print(runs)
    else:
        click.echo(f"no runs in {plain(out)}{' with this tag' if tags else ''}")


def _fields(info: RunInfo) -> dict[str, Any]:
    """Return a run as JSON."""
    options, origin = info.options, info.origin
    from_run = None
    if origin is not None:
        from_run = {
            "run": origin.get("run"), "time": to_seconds(origin.get("at_ns", 0)), "set": origin.get("set", []),
            "seed": origin.get("seed"), "models": origin.get("model", []),
        }  # fmt: skip
    more = {
        "origin": from_run, "set": options.get("set", []), "models": options.get("model", []),
        "tags": options.get("tags", []),
    }  # fmt: skip
    return {**{name: getattr(info, name) for name in _KEPT}, **more}


def _print(runs: list[RunInfo]) -> None:
    """Print a table; columns in which no run has anything are left out."""
    headings = ("run", "scenario", "mode", "seed", "status", "simulated", "events", "hash")
    more: Mapping[str, list[str]] = {
        "from": [_origin(info) for info in runs],
        "set": [_changes(info) for info in runs],
        "tags": [" ".join(info.options.get("tags", ())) for info in runs],
    }
    used = [heading for heading, cells in more.items() if any(cells)]
    rows = [(*_row(info), *(more[heading][place] for heading in used)) for place, info in enumerate(runs)]
    print_table((*headings, *used), rows)
    for info in runs:
        if info.problem or info.lost:
            click.echo(f"{plain(info.id)}: {plain(info.problem or info.lost or '')}")


def _row(info: RunInfo) -> tuple[str | int | None, ...]:
    simulated = "" if info.sim_seconds is None else duration(info.sim_seconds)
    seed = None if info.problem else str(info.seed)
    return info.id, info.name, info.mode, seed, info.status, simulated, info.events, (info.hash or "")[:16]


def _origin(info: RunInfo) -> str:
    """Return where a branch comes from: the run and the time."""
    origin = info.origin
    return "" if origin is None else f"{origin.get('run')} at {duration(to_seconds(origin.get('at_ns', 0)))}"


def _changes(info: RunInfo) -> str:
    """Return what was set: values, the seed of a branch, and models."""
    origin = info.origin or {}
    values = [*info.options.get("set", ()), *origin.get("set", ())]
    values += [] if origin.get("seed") is None else [f"seed={origin['seed']}"]
    models = origin.get("model") or info.options.get("model", ())
    return " ".join(_short(str(value)) for value in (*values, *(f"model={model}" for model in models)))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
