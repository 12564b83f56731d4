"""`sim pause`: pause a running run, or one of its agents."""

from pathlib import Path

import click

from sim.cli.person import ask_run, wait_options
from sim.cli.render.output import OUT, common
from sim.record import find_run


@click.command(
    "pause",
    epilog="""Examples:

    \b
      sim pause support
      sim pause support helper""",
)
@click.argument("run")
@click.argument("agent", required=False)
@wait_options
@OUT
@common
def command(run: str, agent: str | None, out: Path, *, wait: float, no_wait: bool, as_json: bool) -> int:
    """Pause RUN, or only AGENT, until `sim resume RUN [AGENT]`.

    While the run is paused, simulated time stands still. While one agent is paused, time passes and the others act.
    An agent that sleeps is paused when it wakes, and one that is at work after its present iteration.
    """
    folder = find_run(out, run, running=True)
    if agent is None:
        return ask_run(folder, "pause_all", "the run pauses", wait=wait, no_wait=no_wait, as_json=as_json)
    return ask_run(folder, "pause", f"{agent} pauses", wait=wait, no_wait=no_wait, as_json=as_json, agent_id=agent)
