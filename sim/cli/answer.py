"""`sim answer`: answer as an agent of a running run, instead of its model."""

import sys
from pathlib import Path
from typing import Any

import click

from sim.base.errors import UsageError
from sim.cli.person import ask_run, wait_options
from sim.cli.render.output import OUT, common
from sim.kernel.codec import decode
from sim.kernel.duration import NS, to_ns
from sim.record import find_run
from sim.record.inbox import Verb


@click.command(
    "answer",
    epilog="""Examples:

    \b
      sim answer village mayor --within 10m --otherwise "no comment"
      sim show village questions
      sim answer village question-1 "We build the bridge."
      sim answer village question-2 --tool vote --args '{"choice": "aye"}'
      sim answer village question-3 --model
      sim answer village mayor --within 0s""",
)
@click.argument("run")
@click.argument("name")
@click.argument("text", required=False)
@click.option(
    "--within",
    metavar="DURATION",
    help="From now on, each call of the agent NAME waits so long for a person. With 0s, its model answers again.",
)
@click.option("--otherwise", metavar="TEXT", help="With --within: the answer after it. Default: the model answers.")
@click.option("--tool", help="Call this tool instead of saying TEXT.")
@click.option("--args", metavar="JSON", help="With --tool: its arguments, as a JSON object.")
@click.option("--model", is_flag=True, help="The model answers this call.")
@wait_options
@OUT
@common
def command(
    run: str, name: str, text: str | None, out: Path, *, wait: float, no_wait: bool, as_json: bool, **options: Any
) -> int:
    """Answer as an agent of RUN instead of its model.

    With --within, NAME is an agent, and its calls wait for you from then on, in simulated time. Otherwise NAME is one
    of the calls that wait, for example question-1, and TEXT is what the model of the agent would say; - reads it from
    stdin. `sim show RUN questions` lists what is asked. An agent that never calls a model is never asked.

    The run must be under way.
    """
    verb, done, arguments = _asked(name, text, **options)
    if text == "-":  # after the check of usage, which must not wait for stdin
        verb, done, arguments = _asked(name, sys.stdin.read(), **options)
    return ask_run(
        find_run(out, run, running=True), verb, done, wait=wait, no_wait=no_wait, as_json=as_json, **arguments
    )


def _asked(
    name: str,
    text: str | None,
    *,
    within: str | None,
    otherwise: str | None,
    tool: str | None,
    args: str | None,
    model: bool,
) -> tuple[Verb, str, dict[str, Any]]:
    """Return what is asked of the run, what happens then, and the arguments.

    Raises:
        UsageError: if not exactly one thing is asked, or a value cannot be read.
    """
    if sum((text is not None, within is not None, tool is not None, model)) != 1:
        raise UsageError("give one of TEXT, --tool, --within and --model", hint="see: sim answer --help")
    if otherwise is not None and (within is None or not to_ns(within)):
        raise UsageError("--otherwise is the answer after the time of --within", hint="give --within as well, above 0s")
    if otherwise is not None and not otherwise.strip():
        raise UsageError("--otherwise needs a text", hint="leave it out: then the model answers")
    if args is not None and tool is None:
        raise UsageError("--args are the arguments of the tool of --tool", hint="give --tool as well")
    if within is not None:
        seconds = to_ns(within) / NS
        done = f"calls of {name} wait for a person" if seconds else f"the model of {name} answers again"
        return "answer_for", done, {"agent_id": name, "seconds": seconds, "otherwise": otherwise}
    if model:
        return "answer", f"the model answers {name}", {"question": name, "text": ""}
    if text is not None and not text.strip():
        raise UsageError("an answer needs a text", hint="the model answers with: --model")
    call = None if tool is None else {"tool": tool, "args": _arguments(args)}
    return "answer", f"{name} is answered", {"question": name, "text": text or "", "call": call}


def _arguments(text: str | None) -> dict[str, Any]:
    """Return the arguments that a text gives.

    Raises:
        UsageError: if it is not an object of JSON.
    """
    try:
        arguments = {} if text is None else decode(text.encode())
    except ValueError as error:
        raise UsageError(f"--args is not JSON: {error}", hint='for example: \'{"choice": "aye"}\'') from None
    if not isinstance(arguments, dict):
        raise UsageError("--args is not an object of JSON", hint='for example: \'{"choice": "aye"}\'')
    return arguments
