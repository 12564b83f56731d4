"""`sim export`: write a view of a run to a file, or the files of its workspaces to a folder."""

from pathlib import Path
from typing import Any

import click

import sim.llm.views  # noqa: F401  # registers the views of model calls
from sim.base.errors import UsageError
from sim.cli.render.output import OUT, PATH, common, plain, print_json, reading
from sim.cli.render.prompts import REPEAT, repeated_rows
from sim.cli.render.story import export_files
from sim.cli.render.views import CommandWithTables
from sim.cli.rights_options import replay_rights_options
from sim.record import export
from sim.tools.rights import Rights

_FORMATS = {f".{name}": name for name in ("csv", "parquet", "json")}


@click.command(
    "export",
    cls=CommandWithTables,
    epilog="""Examples:

    \b
      sim export queue-1 observations --to waits.csv
      sim export software_team-1 workspace --to team""",
)
@click.argument("run")
@click.argument("view")
@click.option("--format", "form", type=click.Choice([*_FORMATS.values()]), help="Of a view. Default: as PATH ends.")
@click.option("--to", "target", type=PATH, required=True, metavar="PATH", help="The file or folder to write.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@REPEAT
@replay_rights_options
@OUT
@common
def command(
    run: str, view: str, form: Any, target: Path, *, force: bool, again: bool, out: Path, as_json: bool,
    rights: Rights,
) -> None:  # fmt: skip
    """Write VIEW of RUN to a file; or, if VIEW is `workspace`, the files of its projects to a new folder. RUN is a
    folder, or the beginning of a name in `sim list`.

    With --format json, columns that hold JSON come as objects and lists.
    """
    form = form or _FORMATS.get(target.suffix.lower())
    if view != "workspace" and form is None:
        hint = "give --format csv, parquet or json, or a file with such an ending"
        raise UsageError("a view needs a format", hint=hint)
    with reading(out, run) as stored:
        if view == "workspace":
            count = export_files(stored, target)
        else:
            found = repeated_rows(stored, view, rights) if again else None
            rows = export(stored, view, target, form, force=force, rows=found)
    if view == "workspace":
        print_json({"folder": target, "files": count}) if as_json else click.echo(f"{count:,} files in {plain(target)}")
        return
    if as_json:
        print_json({"file": target, "rows": rows})
    else:
        click.echo(f"{rows:,} rows in {plain(target)}")
