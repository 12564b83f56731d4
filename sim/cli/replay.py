"""`sim replay`: run a recorded run again and verify that it is the same."""

from pathlib import Path

import click

from sim.base.shown import Keywords
from sim.cli.render.output import OUT, common, plain, print_json, reading, say
from sim.cli.rerun import again_options, at_work
from sim.runner import replay
from sim.tools.rights import Rights


@click.command(
    "replay",
    epilog="""Examples:

    \b
      sim replay queue
      sim replay queue-1-3f --backend trio --json""",
)
@click.argument("run")
@again_options
@OUT
@common
def command(
    run: str,
    out: Path,
    *,
    rights: Rights,
    allow_change: bool,
    host: Keywords,
    quiet: bool,
    as_json: bool,
) -> int:
    """Replay RUN with its effects answered from the record, and compare every event.

    No effect is executed and no file is written. If the run is not the same, the exit code is 1 and the first event
    that differs is printed.
    """
    with reading(out, run, verify=False) as stored:
        folder = stored.path
    with at_work(rights, quiet=quiet) as options:
        result = replay(folder, allow_change=allow_change, **host, **options)
    print_json(result.to_json()) if as_json else click.echo(result.sentence(timed=True))
    if result.code_changed:
        say(f"sim: note: code that changed since the run: {plain(', '.join(result.code_changed))}")
    elif result.cause:
        say(f"hint: {plain(result.cause)}")
    return 0 if result.same else 1
