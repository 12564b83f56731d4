"""`sim approve`: approve or deny what an agent waits for."""

from pathlib import Path

import click

from sim.cli.person import ask_run, wait_options
from sim.cli.render.output import OUT, common
from sim.record import find_run


@click.command(
    "approve",
    epilog="""Examples:

    \b
      sim show shop gates
      sim approve shop gate-1
      sim approve shop gate-2 --deny --note "too expensive\"""",
)
@click.argument("run")
@click.argument("gate")
@click.option("--deny", is_flag=True, help="Deny it instead.")
@click.option("--note", default="", metavar="TEXT", help="What you say about it; it is recorded.")
@wait_options
@OUT
@common
def command(run: str, gate: str, note: str, out: Path, *, deny: bool, wait: float, no_wait: bool, as_json: bool) -> int:
    """Approve GATE of RUN: the one call of a tool that it stands for can then be made, once.

    The run must be under way.
    """
    return ask_run(
        find_run(out, run, running=True),
        "approve",
        f"{gate} is {'denied' if deny else 'approved'}",
        wait=wait,
        no_wait=no_wait,
        as_json=as_json,
        gate=gate,
        deny=deny,
        note=note,
    )
