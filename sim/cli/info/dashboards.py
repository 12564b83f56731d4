"""`sim info dashboards`: the dashboards of Grafana, and the configuration and the rules of Prometheus."""

import importlib.resources
import json
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import click

from sim.base.errors import UsageError
from sim.cli.render.output import PATH, common, plain, print_json
from sim.cli.render.table import print_table
from sim.record.drafts import draft_folder

_FILES = importlib.resources.files


@click.command(
    "dashboards",
    epilog="""Examples:

    \b
      sim info dashboards
      sim info dashboards --to dashboards
      prometheus --config.file=dashboards/prometheus.yml""",
)
@click.option("--to", "target", type=PATH, metavar="DIR", help="Write the files to this new folder.")
@common
def command(target: Path | None, *, as_json: bool) -> None:
    """List the dashboards of Grafana that come with sim, or write them to a folder.

    The folder also has the configuration, the rules and the alerts of Prometheus; its `compose.yaml` starts both.
    """
    files = dict(_files(_FILES("sim.dashboards")))
    if target is not None:
        _write(target, files)
        if as_json:
            print_json({"folder": str(target), "files": sorted(files)})
        else:
            click.echo(f"wrote {len(files)} files to {plain(target)}")
            click.echo(f"start both: docker compose -f {plain(target)}/compose.yaml up")
        return
    boards = [_described(name, json.loads(text)) for name, text in sorted(files.items()) if name.endswith(".json")]
    if as_json:
        print_json({"dashboards": boards})
        return
    print_table(("file", "panels", "what it shows"), [tuple(one.values()) for one in boards], named=True)
    click.echo("\nwrite them, and what Prometheus needs: sim info dashboards --to dashboards")


def _files(folder: Traversable, before: str = "") -> Iterator[tuple[str, bytes]]:
    """Yield the path and the content of each file of the folder that is no code."""
    for one in folder.iterdir():
        if one.is_dir() and one.name != "__pycache__":
            yield from _files(one, f"{before}{one.name}/")
        elif one.is_file() and not one.name.endswith(".py"):
            yield f"{before}{one.name}", one.read_bytes()


def _described(name: str, board: dict[str, Any]) -> dict[str, Any]:
    panels = sum(panel["type"] != "row" for panel in board["panels"])
    return {"file": name, "panels": panels, "about": board["description"]}


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """Write files to a new folder, all or none.

    Raises:
        UsageError: if the folder exists, or cannot be written.
    """
    if folder.exists():
        raise UsageError(f"{folder} exists", hint="choose another name, or remove it first")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with draft_folder(folder.parent, ".sim-dashboards") as draft:
            complete = draft / "complete"
            for name, content in files.items():
                path = complete / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            complete.rename(folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}", hint="choose another folder") from error
