"""`sim play`: play a scenario on a page in the browser, while it is computed."""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click

import sim.llm.views  # noqa: F401  # registers the views of model calls
from sim.cli.declared import options_of
from sim.cli.render.output import OUT, PATH, common, plain, say
from sim.cli.render.serving import until_interrupted
from sim.cli.rights_options import rights_options
from sim.cli.run import find_and_allow
from sim.inspect.play import PlayOptions, play
from sim.tools.rights import Rights


@click.command(
    "play",
    epilog="""Examples:

    \b
      sim play scenarios/contagion.yaml
      sim play scenarios/contagion.yaml --seed 7 --no-browser""",
)
@click.argument("scenario", type=PATH)
@options_of(PlayOptions, "seed", "until", "overrides", "speed")
@options_of(PlayOptions, "clock", "tags", "port")
@click.option("--browser/--no-browser", default=True, help="Open the page in the browser, or print its address only.")
@rights_options
@OUT
@common
def command(scenario: Path, out: Path, *, as_json: bool, rights: Rights, **options: Any) -> None:
    """Play SCENARIO on a page in the browser: set it up, let it go, pause it, step through it, choose its speed, and
    change it while map, charts and messages follow. SCENARIO is a file, or PACKAGE:NAME of one of an installed package.

    Each run is an ordinary run folder. The page is served on this machine, until Ctrl-C; its address has a random
    secret. When its last window is closed, the run is paused.
    """
    scenario, allow = find_and_allow(scenario, rights.allow)
    with redirect_stdout(sys.stderr):  # output of agents is no result
        server = play(scenario, out=out, **{**options, **rights.keywords, "allow": allow})
    with server:
        until_interrupted(server.url, "whoever has it can play the run", server.wait, as_json=as_json)
    for folder in server.player.kept:
        say(f"sim: kept {plain(folder)}")
    for name in server.player.removed:
        say(f"sim: removed {plain(name)}: it was set up and never started")
