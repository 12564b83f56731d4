"""`sim stop`: end a running run, or stop one of its agents."""

from pathlib import Path

import click

from sim.cli.person import ask_run, wait_options
from sim.cli.render.output import OUT, common
from sim.record import find_run


@click.command(
    "stop",
    epilog="""Examples:

    \b
      sim stop support
      sim stop support helper""",
)
@click.argument("run")
@click.argument("agent", required=False)
@wait_options
@OUT
@common
def command(run: str, agent: str | None, out: Path, *, wait: float, no_wait: bool, as_json: bool) -> int:
    """Stop all agents of RUN, each after its present iteration, which ends the run; or stop only AGENT.

    A run that ended like this has finished: it has a result, and cannot be resumed. To interrupt it so that it can be
    resumed, press Ctrl-C where it runs, or pause it.
    """
    folder = find_run(out, run, running=True)
    if agent is None:
        return ask_run(folder, "stop_all", "all agents stop", wait=wait, no_wait=no_wait, as_json=as_json)
    return ask_run(folder, "stop", f"{agent} stops", wait=wait, no_wait=no_wait, as_json=as_json, agent_id=agent)
