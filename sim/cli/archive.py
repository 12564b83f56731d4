"""`sim archive`: write a run or an experiment as one file that can be cited, read and checked elsewhere."""

from pathlib import Path

import click

from sim.base.errors import UsageError
from sim.cli.render.output import OUT, PATH, common, plain, print_json, say
from sim.cli.run import import_from_here


@click.command(
    "archive",
    epilog="""Examples:

    \b
      sim archive contagion --to contagion.zip --author "Doe, Jane" --licence CC-BY-4.0
      sim archive experiments/contagion-1 --to study.zip --title "How fast it spreads"
      sim verify contagion.zip --replay""",
)
@click.argument("run")
@click.option("--to", "target", type=PATH, required=True, metavar="FILE.zip", help="The file to write.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@click.option("--title", help="Default: made from the name of the scenario.")
@click.option(
    "--author",
    "authors",
    multiple=True,
    metavar="NAME",
    help='"Family, Given", or with an ORCID: "Family, Given, 0000-0002-1825-0097". Without a comma: an organization.',
)
@click.option("--licence", metavar="ID", help="The licence of the data, as an SPDX identifier such as CC-BY-4.0.")
@click.option("--date", metavar="YYYY-MM-DD", help="The date of publication. Default: when the run began.")
@OUT
@common
def command(
    run: str,
    target: Path,
    *,
    force: bool,
    title: str | None,
    authors: tuple[str, ...],
    licence: str | None,
    date: str | None,
    out: Path,
    as_json: bool,
) -> None:
    """Write the archive of RUN: of a run (a folder, or the beginning of a name in `sim list`), or of an experiment (its
    folder).

    It holds the scenario, the record or the results, the code of the agents and a wheel of sim, the versions of all
    packages, metadata (RO-Crate), a citation file, and a description after the ODD protocol.
    """
    from sim.archives import Author, Details, archive_experiment, archive_run
    from sim.experiments.results import FILE

    details = Details([Author.of(text) for text in authors], licence, date, title)
    import_from_here()
    if (Path(run) / FILE).is_file():
        written = archive_experiment(Path(run), target, details, force=force)
    else:
        written = archive_run(_folder_of(run, out), target, details, force=force)
    if as_json:
        print_json(
            {
                "file": target,
                "files": written.files,
                "bytes": written.size,
                "sha256": written.sha256,
                "notes": written.notes,
            }
        )
    else:
        click.echo(f"{plain(target)}: {written.files} files, {written.size:,} bytes, sha256 {written.sha256}")
    for note in written.notes:
        say(f"sim: note: {plain(note)}")


def _folder_of(run: str, out: Path) -> Path:
    """Return the folder of a run.

    Raises:
        UsageError: if there is none; the hint names an experiment of this name, if there is one.
    """
    from sim.experiments.folder import FOLDER
    from sim.experiments.results import FILE
    from sim.record import find_run

    try:
        return find_run(out, run)
    except UsageError as error:
        near = FOLDER / run
        if (near / FILE).is_file():
            raise UsageError(str(error), hint=f"did you mean {near}?") from None
        raise
