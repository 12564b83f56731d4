"""`sim set`: set live parameters of a running run."""

from pathlib import Path

import click

from sim.cli.person import ask_run, wait_options
from sim.cli.render.output import OUT, common
from sim.record import find_run
from sim.scenario.fields import plain
from sim.scenario.overrides import parse_all


@click.command(
    "set",
    epilog="""Examples:

    \b
      sim set contagion agents.person.state.beta=0.02
      sim set support limits.llm_calls.global='20 per 10m' agents.helper.loop.min_loop_delay=5m""",
)
@click.argument("run")
@click.argument("values", metavar="KEY=VALUE...", nargs=-1, required=True)
@wait_options
@OUT
@common
def command(run: str, values: tuple[str, ...], out: Path, *, wait: float, no_wait: bool, as_json: bool) -> int:
    """Set live parameters of RUN: all of them, or none.

    The run must be under way. Keys and values are those of `--set`. Live are limits, costs, events, interventions,
    stop, and of agents their state, rules, limits, permission and the delays of their loops.
    """
    values_by_key = {override.key: plain(override.value) for override in parse_all(values)}
    return ask_run(
        find_run(out, run, running=True),
        "set",
        f"{', '.join(values_by_key)} set",
        wait=wait,
        no_wait=no_wait,
        as_json=as_json,
        values=values_by_key,
    )
