"""`sim publish`: publish an event in a running run."""

import sys
from pathlib import Path
from typing import Any

import click

from sim.base.errors import UsageError
from sim.cli.person import ask_run, wait_options
from sim.cli.render.output import OUT, common
from sim.kernel.codec import decode
from sim.record import find_run


@click.command(
    "publish",
    epilog="""Examples:

    \b
      sim publish market rumour.heard
      sim publish market price.changed '{"good": "wheat", "price": 3.5}'
      cat order.json | sim publish market order.placed -""",
)
@click.argument("run")
@click.argument("topic")
@click.argument("data", required=False, metavar="[JSON]")
@wait_options
@OUT
@common
def command(run: str, topic: str, data: str | None, out: Path, *, wait: float, no_wait: bool, as_json: bool) -> int:
    """Publish an event with TOPIC and data in RUN, for all agents that listen to it. With JSON - it is read from stdin.

    The run must be under way. The source of the event is `host`.
    """
    return ask_run(
        find_run(out, run, running=True),
        "publish",
        f"{topic} is published",
        wait=wait,
        no_wait=no_wait,
        as_json=as_json,
        topic=topic,
        data=_data(data),
    )


def _data(text: str | None) -> Any:
    """Return the data that a text gives.

    Raises:
        UsageError: if it is not JSON.
    """
    if text is None:
        return None
    json_text = sys.stdin.read() if text == "-" else text
    try:
        return decode(json_text.encode())
    except ValueError as error:
        raise UsageError(
            f"the data is not JSON: {error}", hint="put text in double quotes: '\"three boxes\"'"
        ) from None
