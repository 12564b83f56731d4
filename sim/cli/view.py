"""`sim view`: what a run looked like in time and space, and what its agents said."""

import threading
from pathlib import Path

import click

import sim.llm.views  # noqa: F401  # registers the views of model calls
from sim.base.errors import UsageError
from sim.cli.render.moment import chosen_options
from sim.cli.render.output import OUT, PATH, common, plain, print_json, reading
from sim.cli.render.prompts import repeated
from sim.cli.render.serving import until_interrupted
from sim.cli.rights_options import replay_rights_options
from sim.inspect.viewer import VIEW, ViewServer, write_view
from sim.runner.prompts import calls_in_core
from sim.tools.rights import NO_RIGHTS, Rights


@click.command(
    "view",
    epilog="""Examples:

    \b
      sim view contagion
      sim view contagion --to contagion.html
      sim view debate --repeat
      sim view ecology --serve""",
)
@click.argument("run")
@click.option(
    "--to", "target", type=PATH, metavar="FILE", help=f"The file to write. Default: {VIEW} in the run folder."
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@click.option(
    "--serve",
    type=click.IntRange(0, 65535),
    is_flag=False,
    flag_value=0,
    metavar="[PORT]",
    help="Serve the page on this machine instead, until Ctrl-C. Without PORT, at a free port. Write it after RUN.",
)
@click.option(
    "--repeat",
    "again",
    is_flag=True,
    help="Replay the run, and add the requests and answers of scripted and simulated models.",
)
@replay_rights_options
@OUT
@common
def command(
    run: str,
    target: Path | None,
    *,
    force: bool,
    serve: int | None,
    again: bool,
    out: Path,
    as_json: bool,
    rights: Rights,
) -> None:
    """Write a page that plays RUN: a map, states, charts and messages, moved by one bar of time. RUN is a folder, or
    the beginning of a name in `sim list`. The page is one HTML file that needs no network and can be shared.

    A run under way is served on this machine instead, and the page follows it, until Ctrl-C. The address has a random
    secret, without which nothing can be read. With --to, the file has what is on record now.

    A page that is served also shows what replays find: the state at any moment of a run that has ended, and what led to
    an event. It says first what that costs.
    """
    if serve is not None and (target is not None or force or again):
        raise UsageError("--serve writes no file, so it cannot be combined with --to, --force or --repeat")
    with reading(out, run) as stored:
        if serve is not None or (target is None and stored.info.status == "running"):
            if again or force:
                raise UsageError(f"{run} is under way, and its page is served", hint="give --to FILE to write a page")
            replay = chosen_options({"allow_change": True, **rights.keywords})
            with ViewServer(stored, serve or 0, replay=replay) as server:
                until_interrupted(
                    server.url, "whoever has it can read the run", threading.Event().wait, as_json=as_json
                )
            return
        if (options := _written(rights)) and not again:
            raise UsageError(
                f"{', '.join(options)} is for a replay, and a page without a server makes none",
                hint="give it with --repeat or --serve",
            )
        replayed = repeated(stored, rights) if again and calls_in_core(stored) else None
        written = write_view(stored, target, force=force, repeated=replayed)
    if as_json:
        print_json({"file": written.file, "events": written.events, "chunks": written.chunks})
    else:
        click.echo(plain(written.file))


def _written(rights: Rights) -> list[str]:
    """Return the options of the rights that were given."""
    nothing = NO_RIGHTS.keywords
    return [f"--{name.replace('_', '-')}" for name, value in rights.keywords.items() if value != nothing[name]]
