"""`sim tell`: send a message to an agent of a running run."""

import sys
from pathlib import Path

import click

from sim.cli.person import ask_run, wait_options
from sim.cli.render.output import OUT, common
from sim.record import find_run


@click.command(
    "tell",
    epilog="""Examples:

    \b
      sim tell support helper "please answer the oldest ticket first"
      sim tell support helper --topic order "two more boxes"
      cat notes.txt | sim tell support helper -""",
)
@click.argument("run")
@click.argument("agent")
@click.argument("text")
@click.option("--topic", default="", help="The topic of the message.")
@wait_options
@OUT
@common
def command(
    run: str, agent: str, text: str, topic: str, out: Path, *, wait: float, no_wait: bool, as_json: bool
) -> int:
    """Send TEXT to AGENT of RUN, as a message from `person` whose data is the text. With TEXT - it is read from stdin.

    The run must be under way. The text is data for the agent and never an order to the run.
    """
    if text == "-":
        text = sys.stdin.read()
    return ask_run(
        find_run(out, run, running=True),
        "tell",
        f"{agent} got the message",
        wait=wait,
        no_wait=no_wait,
        as_json=as_json,
        agent_id=agent,
        text=text,
        topic=topic,
    )
