"""`sim watch`: follow a running run from another terminal."""

import sys
import time
from pathlib import Path

import attrs
import click

from sim.cli.render.follower import Follower
from sim.cli.render.live import DRAW_SECONDS, Screen
from sim.cli.render.output import OUT, common, print_json
from sim.cli.render.progress import PLAIN_SECONDS
from sim.cli.show import print_run, timed_fields_of
from sim.record import find_run, open_run


@click.command(
    "watch",
    epilog="""Examples:

    \b
      sim watch ecology
      sim watch ecology --json""",
)
@click.argument("run")
@click.option(
    "--every",
    type=click.FloatRange(0.05),
    metavar="SECONDS",
    help=f"Seconds between two updates. Default: {DRAW_SECONDS:g}, or {PLAIN_SECONDS:g} without a terminal.",
)
@OUT
@common
def command(run: str, every: float | None, out: Path, as_json: bool) -> int:
    """Follow RUN until it ends, and print its summary. RUN is a folder, or the beginning of a name in `sim list`; the
    name of a scenario stands for its latest run that is under way. The run is only read and not affected. Ctrl-C ends
    this command, not the run.

    With --json, print one snapshot and end.
    """
    with open_run(find_run(out, run, running=True)) as stored:
        folder = stored.path
    follower = Follower(folder)
    if as_json:
        look, _ = follower.look()
        print_json(attrs.asdict(look))
        return 0
    screen = Screen(sys.stdout, terminal=sys.stdout.isatty())
    pause = every or (DRAW_SECONDS if screen.terminal else PLAIN_SECONDS)
    try:
        while True:
            look, info = follower.look()
            if info.status != "running":
                break
            screen.draw(look)
            time.sleep(pause)
    finally:
        screen.clear()
    with open_run(folder, verify=False) as stored:
        print_run(stored, timed_fields_of(info))
    return 0 if info.status == "finished" else 1
