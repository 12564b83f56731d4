"""`sim verify`: verify the record of a run against its hashes."""

from pathlib import Path

import click

from sim.cli.render.output import OUT, common, plain, print_json, say
from sim.errors import RunError
from sim.store import find_run, open_run


@click.command(
    "verify",
    epilog="""Examples:

    \b
      sim verify queue
      sim verify queue-1-3f --json""",
)
@click.argument("run")
@OUT
@common
def command(run: str, out: Path, *, as_json: bool) -> int:
    """Verify that the record of RUN is complete and unchanged: all events, effects, inputs and figures.

    The exit code is 1 if a record was changed, removed, added or lost; the first such record is printed.
    """
    folder = find_run(out, run)
    problems: list[str] = []
    fields: dict[str, object] = {"run": str(folder), "status": None, "events": None, "effects": None, "commits": None}
    try:
        with open_run(folder, verify=False) as stored:
            fields["status"] = stored.info.status
            problems += stored.problems()
            stored.verify()
            fields |= stored.counts()
    except RunError as error:
        problems.append(str(error))
    if as_json:
        print_json({**fields, "intact": not problems, "problems": problems})
    elif not problems:
        click.echo(
            f"intact: {fields['events']:,} events, {fields['effects']:,} effects, {fields['commits']:,} commits;"
            f" status {fields['status']}"
        )
    for problem in problems:
        say(f"sim: {plain(problem)}")
    return 1 if problems else 0
