"""`sim replay`: make a run again and say whether it is the same."""

from pathlib import Path

import click

from sim.cli.render.output import OUT, common, plain, reading, say
from sim.cli.rerun import again_options, at_work, print_replay
from sim.runner import replay
from sim.runner.options import Backend


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
    backend: Backend,
    allow: tuple[str, ...],
    allow_change: bool,
    max_wall: str | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Replay RUN with its effects answered from the record, and compare every event.

    Nothing is done outside and nothing is written. The exit code is 1 if the run is not the same; then the first event
    that differs is named.
    """
    with reading(out, run, verify=False) as stored:
        folder = stored.path
    with at_work(allow, quiet=quiet) as options:
        result = replay(folder, backend=backend, allow_change=allow_change, max_wall=max_wall, **options)
    print_replay(result.to_json(), as_json=as_json)
    if result.code_changed:
        say(f"sim: note: the code has changed since: {plain(', '.join(result.code_changed))}")
    return 0 if result.same else 1
