"""The program `sim`: a module for each command, and in `render` what several of them print.

A command is imported at its use, so that `sim --help` is fast. May import: `inspect`, `archives` and below. Read
first: `run.py` (a command), then `render/output.py` (text, JSON and errors).
"""

import logging
import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import NoReturn

import click

from sim import __version__
from sim.base.errors import RunError
from sim.cli.late_group import LateGroup
from sim.cli.render.output import complain, still, telling_of_records, tidy_at_sigterm, tolerate_all_text

GROUPS = {
    "Run and repeat": {
        "new": "Write a small scenario to start from.",
        "run": "Run a scenario.",
        "play": "Play a scenario on a page in the browser, while it is computed.",
        "resume": "Continue a run that was killed, interrupted, failed or paused.",
        "replay": "Run a recorded run again and verify that it is the same.",
        "branch": "Start a new run from the record of another run.",
    },
    "Look": {
        "list": "List the recorded runs.",
        "show": "Show what happened in a run.",
        "watch": "Follow a running run from another terminal.",
        "view": "Play a run: a map, states, charts and messages over time.",
        "report": "Write a report of a run as one HTML file.",
        "diff": "Show where two runs differ first, and compare their results.",
        "export": "Write a view of a run as CSV, JSON or Parquet.",
    },
    "Experiments": {
        "sweep": "Run a scenario with other values and seeds, and estimate its outcomes.",
        "fit": "Find the values with which a scenario agrees with data.",
        "bench": "Run a scenario in several modes and compare them.",
        "ask": "Ask the agents of a run questions, as they were at some time.",
        "why": "Find what decided the outcome of a run.",
        "score": "Score the agents of recorded runs, by queries and by language models as judges.",
    },
    "Take part in a run under way": {
        "tell": "Send a message to an agent of a running run.",
        "publish": "Publish an event in a running run.",
        "set": "Set live parameters of a running run.",
        "approve": "Approve or deny what an agent waits for.",
        "answer": "Answer as an agent of a running run, instead of its model.",
        "pause": "Pause a running run, or one of its agents.",
        "stop": "End a running run, or stop one of its agents.",
    },
    "Share": {
        "archive": "Write a run or an experiment as one file to cite, share and check.",
    },
    "Check, and what there is": {
        "check": "Check scenario files, and list all problems.",
        "test": "Run scenarios with many seeds and orders, and check their properties.",
        "shrink": "Find the smallest scenario that still violates a property.",
        "verify": "Verify the record of a run against its hashes.",
        "info": "Show what there is: this installation, packages, dashboards, the schema of files.",
    },
}
"""The commands, in the groups in which `sim --help` shows them."""

VERBS = {name: text for group in GROUPS.values() for name, text in group.items()}


_MODULES = {"list": "listing", "set": "override"}
"""Modules of commands whose name would hide a built-in function in this package."""


@click.group(
    cls=LateGroup,
    groups=GROUPS,
    package=__name__,
    modules=_MODULES,
    subcommand_metavar="COMMAND ...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""Example:

    \b
      sim new village
      sim run village.yaml

    Each command has its own help: sim run --help.

    Exit codes: 0 success, 1 a run or a check failed or a record is damaged, 2 wrong usage or input.""",
)
@click.version_option(__version__, message="sim %(version)s")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
def verbs() -> None:
    """Run simulations of autonomous agents in a shared world, and inspect the results."""


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command and end the process with its exit code.

    Args:
        args: the arguments after the program name; None: those of the process.
    """
    arguments = list(sys.argv[1:] if args is None else args)
    flags = set(takewhile(lambda arg: arg != "--", arguments))  # needed also if the arguments cannot be parsed
    tolerate_all_text()
    logging.getLogger("sim.actors").addHandler(logging.NullHandler())  # the summary counts failures
    try:
        with tidy_at_sigterm(), telling_of_records() as warned:
            code = verbs.main(arguments, prog_name="sim", standalone_mode=False) or 0
        if warned and not flags & {"--allow-change", "--allow-loss"}:
            code = code or 1  # what was read may not be what happened
        sys.stdout.flush()
    except BrokenPipeError:
        code = still()
    except (click.Abort, KeyboardInterrupt) as error:
        interrupt = error.__cause__ if isinstance(error.__cause__, KeyboardInterrupt) else error  # click makes it Abort
        code = complain(RunError(str(interrupt) or "interrupted"), as_json="--json" in flags, debug="--debug" in flags)
    except Exception as error:
        code = complain(error, as_json="--json" in flags, debug="--debug" in flags)
    sys.exit(code)
