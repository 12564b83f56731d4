"""`sim report`: the page of a run, opened at its overview; or the sensitivity of a sweep."""

import contextlib
from pathlib import Path

import click

import sim.llm.views  # noqa: F401  # registers the views of model calls
from sim.base.errors import UsageError
from sim.cli.render.output import OUT, PATH, common, plain, print_json, reading, say
from sim.cli.render.table import print_table
from sim.inspect.viewer import REPORT, write_view

_WHAT = ("sensitivity", "variance")


@click.command(
    "report",
    epilog="""Examples:

    \b
      sim report ecology
      sim report ecology-1-3f --to ecology.html
      sim report experiments/contagion-1 sensitivity
      sim report experiments/panel-1 variance --across persona=yes_nurse,yes_trader""",
)
@click.argument("run")
@click.argument("what", required=False, type=click.Choice(_WHAT))
@click.option(
    "--to",
    "target",
    type=PATH,
    metavar="FILE",
    help=f"The file to write. Default: {REPORT} or sensitivity.html in the folder.",
)
@click.option("--outcome", "outcomes", multiple=True, metavar="NAME", help="This outcome alone. Repeatable.")
@click.option(
    "--across",
    multiple=True,
    metavar="NAME=OUTCOME,...",
    help="Of variance: outcomes that are the levels of one more source. Repeatable.",
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@OUT
@common
def command(
    run: str,
    what: str | None,
    target: Path | None,
    *,
    outcomes: tuple[str, ...],
    across: tuple[str, ...],
    force: bool,
    out: Path,
    as_json: bool,
) -> None:
    """Write the page of `sim view` so that it opens at its overview: settings, totals, charts, limits, costs, errors,
    agents. It is one HTML file that needs no network and can be shared. RUN is a folder, or the beginning of a name in
    `sim list`. The run can still be running; then the page has what is on record now.

    With `sensitivity`, RUN is the folder of a sweep with a design for sensitivity (saltelli, morris, fast): which
    inputs matter for its outcomes, with intervals, and how much of the variance is chance.

    With `variance`, RUN is the folder of a sweep of all combinations: how much of the variance of its outcomes comes
    from each key that is varied, and from the seeds. It prints a table, and writes no page.
    """
    if across and what != "variance":
        raise UsageError("--across is about variance", hint="sim report FOLDER variance --across NAME=ONE,OTHER")
    if what == "variance":
        if target is not None or force:
            raise UsageError("variance is printed, and writes no file", hint="leave --to and --force out")
        _report_variance(Path(run), outcomes, across, as_json=as_json)
        return
    if what == "sensitivity":
        _report_sensitivity(Path(run), target, outcomes, force=force, as_json=as_json)
        return
    if outcomes:
        raise UsageError("a report of a run has no outcomes to choose", hint="leave --outcome out")
    with reading(out, run) as stored:
        written = write_view(stored, target, force=force, opens="overview")
    if not written.whole:
        say("sim: the page has the overview alone, because browsers cannot open one with all events of this run;")
        say("     sim view RUN --serve shows them")
    if as_json:
        print_json({"file": written.file, "bytes": written.file.stat().st_size, "whole": written.whole})
    else:
        click.echo(plain(written.file))


def _report_variance(folder: Path, outcomes: tuple[str, ...], across: tuple[str, ...], *, as_json: bool) -> None:
    """Print how the variance of the outcomes of a sweep is split."""
    from sim.experiments.integrity import check_experiment  # the imports are slow
    from sim.experiments.results import Results
    from sim.experiments.score_tables import variance_table
    from sim.experiments.shares import shares_json, shares_of, shares_text
    from sim.record.zip_archives import is_archive, unpacked_experiment

    levels = {}
    for text in across:
        name, _, named = text.partition("=")
        if not name.strip() or not named.strip():
            raise UsageError(f"{text!r:.80} names no outcomes", hint="write NAME=OUTCOME,OUTCOME")
        if name.strip() in levels:
            raise UsageError(
                f"--across names {name.strip()!r:.60} twice", hint="write all its outcomes in one: NAME=ONE,TWO"
            )
        levels[name.strip()] = [one.strip() for one in named.split(",")]
    place = unpacked_experiment(folder) if is_archive(folder) else folder
    check_experiment(place).integrity.warn()
    with contextlib.closing(Results(place, read_only=True)) as results:
        shares = shares_of(results, outcomes, levels)
        if as_json:
            print_json(shares_json(results, shares))
            return
    print_table(*variance_table({one.outcome: one.parts for one in shares}, "outcome"), named=True)
    for text in filter(None, map(shares_text, shares)):
        click.echo(plain(text))


def _report_sensitivity(
    folder: Path, target: Path | None, outcomes: tuple[str, ...], *, force: bool, as_json: bool
) -> None:
    """Print the sensitivity of the outcomes of a sweep, and write its page."""
    from sim.experiments.integrity import check_experiment  # the imports are slow
    from sim.experiments.results import Results
    from sim.experiments.sensitivity import chance_text, influences_table, pairs_table, sensitivity_of, to_json
    from sim.experiments.sensitivity_page import PAGE, render_sensitivity
    from sim.record.page_file import page_file
    from sim.record.zip_archives import is_archive, unpacked_experiment

    place = unpacked_experiment(folder) if is_archive(folder) else folder
    integrity = check_experiment(place).integrity
    integrity.warn()
    with contextlib.closing(Results(place, read_only=True)) as results:
        sensitivities = sensitivity_of(results, outcomes)
        text = render_sensitivity(results, sensitivities, integrity.told_in(place))
        with page_file(place, PAGE, target, suffix=".sensitivity.html", force=force) as (file, draft):
            draft.write(text)
        if as_json:
            print_json({**to_json(results, sensitivities), "file": file})
            return
    for one in sensitivities:
        click.secho(plain(one.outcome), bold=True)
        if one.inputs:
            print_table(*influences_table(one), named=True)
        if one.pairs:
            print_table(*pairs_table(one), named=True)
        for note in filter(None, (one.note, chance_text(one))):
            click.echo(plain(note))
        click.echo()
    click.echo(plain(file))
