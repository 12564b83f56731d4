"""`sim export`: write a view of a run to a file, the files of its workspaces, or a figure or table of an experiment."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

import sim.llm.views  # noqa: F401  # registers the views of model calls
from sim.base.errors import UsageError
from sim.base.shown import Keywords
from sim.cli.render.output import OUT, PATH, common, plain, print_json, reading
from sim.cli.render.prompts import REPEAT, repeated_rows
from sim.cli.render.story import export_files
from sim.cli.render.views import CommandWithTables
from sim.cli.rights_options import replay_rights_options
from sim.record import export
from sim.record.export import write_rows
from sim.record.files import failure
from sim.tools.rights import Rights

_FORMATS = {f".{name}": name for name in ("csv", "parquet", "json")}
_TABLES = {".tex": "latex", ".csv": "csv", ".md": "md"}
_OF_EXPERIMENTS = ("figure", "table", "results", "candidates")


@click.command(
    "export",
    cls=CommandWithTables,
    epilog="""Examples:

    \b
      sim export queue-1 observations --to waits.csv
      sim export software_team-1 workspace --to team
      sim export experiments/contagion-1 figure R --to R.pdf
      sim export experiments/contagion-1 table --to results.tex
      sim export experiments/contagion-1 results --to results.parquet""",
)
@click.argument("run")
@click.argument("view")
@click.argument("name", required=False)
@click.option(
    "--format",
    "form",
    type=click.Choice(list(dict.fromkeys((*_FORMATS.values(), *_TABLES.values())))),
    help="Of a view, or of a table of an experiment (latex, csv, md). Default: as PATH ends.",
)
@click.option("--over", metavar="KEY", help="The horizontal axis of a figure: a varied key, or `time`.")
@click.option("--columns", type=click.IntRange(1, 2), help="A figure: one column wide (85 mm, default) or two.")
@click.option("--log", type=click.Choice(["x", "y", "xy"]), help="The logarithmic axes of a figure.")
@click.option("--differences", is_flag=True, help="A figure or table of the differences from the baseline.")
@click.option("--to", "target", type=PATH, required=True, metavar="PATH", help="The file or folder to write.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@REPEAT
@replay_rights_options
@OUT
@common
def command(
    run: str, view: str, name: str | None, *, form: Any, target: Path, force: bool, again: bool, out: Path,
    as_json: bool, rights: Rights, over: str | None, columns: int | None, log: str | None, differences: bool,
) -> None:  # fmt: skip
    """Write VIEW of RUN to a file; or, if VIEW is `workspace`, the files of its projects to a new folder. RUN is a
    folder, or the beginning of a name in `sim list`.

    With --format json, columns that hold JSON come as objects and lists.

    If RUN is the folder of an experiment, VIEW is `figure`, with the NAME of an outcome, or of a metric with `--over
    time`, for a PDF, SVG or PNG file; `table`, of all outcomes or those NAMEd (R,peak), for a LaTeX, CSV or Markdown
    file; `results` (a row for each trial), or
    `candidates` (of a fit), for a CSV, JSON or Parquet file.
    """
    drawing = {"over": over, "columns": columns, "log": log}
    if view in _OF_EXPERIMENTS:
        if view != "figure":
            _refuse(drawing, "is for a figure")
        if view not in ("figure", "table"):
            _refuse({"NAME": name}, "is for a figure or a table")
        _refuse({"repeat": again or None}, "is for a view of a run")
        _check_free(target, force=force)
        if view == "figure":
            _refuse({"format": form}, "is for a table: a figure is written as its file ends")
            _write_figure(run, name, target, {key: value for key, value in drawing.items() if value}, differences)
        elif view != "table":
            _refuse({"differences": differences or None}, "is for a figure or a table")
            _write_trials(run, view, target, form or _FORMATS.get(target.suffix.lower()), force=force)
        else:
            names = [] if name is None else name.split(",")
            _write_table(run, names, target, form or _TABLES.get(target.suffix.lower()), differences=differences)
        print_json({"file": target}) if as_json else click.echo(plain(target))
        return
    _refuse({**drawing, "NAME": name, "differences": differences or None}, "is for a figure of an experiment")
    if form in ("latex", "md"):
        raise UsageError(f"a view of a run is not written as {form}", hint="give --format csv, parquet or json")
    form = form or _FORMATS.get(target.suffix.lower())
    if view != "workspace" and form is None:
        hint = "give --format csv, parquet or json, or a file with such an ending"
        raise UsageError("a view needs a format", hint=hint)
    with reading(out, run) as stored:
        if view == "workspace":
            count = export_files(stored, target)
        else:
            repeated = repeated_rows(stored, view, rights) if again else None
            rows = export(stored, view, target, form, force=force, rows=repeated)
    if view == "workspace":
        print_json({"folder": target, "files": count}) if as_json else click.echo(f"{count:,} files in {plain(target)}")
        return
    if as_json:
        print_json({"file": target, "rows": rows})
    else:
        click.echo(f"{rows:,} rows in {plain(target)}")


def _refuse(options: Keywords, what: str) -> None:
    for name, value in options.items():
        if value is not None:
            raise UsageError(f"{name if name.isupper() else f'--{name}'} {what}", hint="leave it out")


def _check_free(target: Path, *, force: bool) -> None:
    """Check that a file can be written: there is none, unless it may be replaced."""
    if target.exists() and not force:
        raise UsageError(f"{target} exists already", hint="add --force to replace it")


def _write_figure(folder: str, outcome: str | None, target: Path, drawing: Keywords, differences: bool) -> None:
    """Write a figure of an experiment."""
    from sim.experiments.paper import check_ending, save_figure  # the imports are slow
    from sim.inspect.analysis import Experiment

    check_ending(target)
    save_figure(Experiment.open(folder).figure(outcome, differences=differences, **drawing), target)


def _write_trials(folder: str, view: str, target: Path, form: Any, *, force: bool) -> None:
    """Write the trials of an experiment, or the candidates of a fit."""
    from sim.experiments.fit_tables import candidates_rows  # the imports are slow
    from sim.experiments.results import Results
    from sim.inspect.analysis import Experiment

    if form not in _FORMATS.values():
        hint = "give --format csv, json or parquet, or a file with such an ending"
        raise UsageError("results need a format", hint=hint)
    experiment = Experiment.open(folder)
    if view == "candidates" and experiment.fit is None:
        raise UsageError("only a fit has candidates", hint="results has a row for each trial")
    with contextlib.closing(Results(experiment.folder, read_only=True)) as results:
        columns, rows = results.rows() if view == "results" else candidates_rows(results)
    write_rows(target, columns, iter(rows), form, force=force)


def _write_table(folder: str, names: Sequence[str], target: Path, form: Any, *, differences: bool) -> None:
    """Write a table of an experiment."""
    from sim.inspect.analysis import Experiment  # the import is slow

    if form not in _TABLES.values():
        raise UsageError("a table needs a format", hint="give --format latex, csv or md, or a file .tex, .csv or .md")
    text = Experiment.open(folder).table("differences" if differences else "estimates", form, outcomes=names)
    try:
        target.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise failure(target, error) from error
