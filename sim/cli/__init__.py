"""The command `sim`: one module a verb, imported when the verb is used, so that `sim --help` stays quick.

Layout: `output` (text, JSON and errors), `table`, `summary` (one run as tables), `story` (events as lines),
`progress`, `look` and `follow` (what is seen of a run that is under way), `live` (the same as a picture), `metrics`,
`again` (what making a run again shares), `comparison` (two runs); and the verbs `run`, `check`, `listing` (`list`),
`show`, `watch`, `verify`, `report`, `replay`, `resume`, `branch`, `diff`, `bench`, `export`, `new`, `schema`.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import takewhile
from typing import NoReturn

import click

from sim import __version__
from sim.cli.render.output import INTERRUPTED, complain, still, tolerate_all_text

VERBS = {
    "new": "Write a small scenario to start from.",
    "check": "Say what is wrong in scenario files.",
    "run": "Run a scenario.",
    "list": "List the runs that were kept.",
    "show": "Show what happened in a run.",
    "watch": "Follow a run that is under way, from another terminal.",
    "verify": "Check every record of a run against its hash.",
    "report": "Write a report of a run: one HTML file.",
    "replay": "Make a run again and say whether it is the same.",
    "resume": "Go on with a run that was killed or interrupted.",
    "branch": "Make a new run that leaves another one at some time.",
    "diff": "Show where two runs part, and how far their outcomes are.",
    "bench": "Run a scenario in several modes and compare them.",
    "export": "Write a view of a run as CSV, JSON or Parquet.",
    "schema": "Print the JSON Schema of scenario files, for editors.",
}


class Verbs(click.Group):
    """The verbs of `VERBS`, in that order; the module of a verb holds it as `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the verbs."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import a verb; None if there is none of that name."""
        if name not in VERBS:
            return None
        module = "listing" if name == "list" else name  # a module `list` would hide the built-in one in this package
        command: click.Command = import_module(f"sim.cli.{module}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb, or say which one may be meant."""
        if args[0] not in VERBS and not args[0].startswith("-"):
            raise click.NoSuchCommand(args[0], f"there is no verb {args[0]!r}", possibilities=VERBS, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.group(
    cls=Verbs,
    subcommand_metavar="VERB ...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""Example:

    \b
      sim new village
      sim run village.yaml

    Each verb has its own help: sim run --help.

    Exit codes: 0 success, 1 a run or a check failed, 2 wrong usage or input.""",
)
@click.version_option(__version__, message="sim %(version)s")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
def verbs() -> None:
    """Run populations of autonomous agents in one shared world, and look at what happened."""


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command and end the process with its exit code.

    Args:
        args: what follows the name of the command; None takes it from the process.
    """
    given = list(sys.argv[1:] if args is None else args)
    flags = set(takewhile(lambda arg: arg != "--", given))  # known even if the rest cannot be parsed
    tolerate_all_text()
    try:
        code = verbs.main(given, prog_name="sim", standalone_mode=False) or 0
        sys.stdout.flush()
    except BrokenPipeError:
        code = still()
    except (click.Abort, KeyboardInterrupt):
        code = complain(INTERRUPTED, as_json="--json" in flags, debug="--debug" in flags)
    except Exception as error:
        code = complain(error, as_json="--json" in flags, debug="--debug" in flags)
    sys.exit(code)
