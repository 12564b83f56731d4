"""The requests and answers of models in the core, which a replay repeats for the commands that show them."""

import sys
from collections.abc import Generator
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import click

from sim.base.errors import SimError, UsageError
from sim.cli.render.output import plain, say
from sim.record import StoredRun

if TYPE_CHECKING:
    from sim.runner.prompts import RepeatedPrompt  # the import is slow
    from sim.tools.rights import Rights

REPEAT = click.option(
    "--repeat",
    "again",
    is_flag=True,
    help="With prompts: replay the run for the requests and answers of scripted and simulated models.",
)

Rows = Generator[tuple[Any, ...]]


def repeated_rows(stored: StoredRun, view: str, rights: "Rights") -> Rows:
    """Return the rows of the view `prompts`, with those requests and answers that are not on record.

    Args:
        stored: the run.
        view: the view that the user has named.
        rights: what the replay may use.

    Raises:
        UsageError: if it is another view, or the replay needs something that is not allowed.
        RunError: if a replay differs from the record.
    """
    if view != "prompts":
        raise UsageError("--repeat is for the view prompts", hint="the other views have all that there is")
    from sim.runner.prompts import prompt_rows

    return prompt_rows(stored, repeated(stored, rights))


def repeated(stored: StoredRun, rights: "Rights") -> "dict[int, RepeatedPrompt]":
    """Return the requests and answers of all model calls by the id of their event, from a replay.

    Args:
        stored: the run.
        rights: what the replay may use.

    Raises:
        UsageError: if the replay needs something that is not allowed.
        RunError: if a replay differs from the record.
    """
    from sim.cli.run import import_from_here
    from sim.runner.prompts import repeated_prompts

    if rights.allow:
        import_from_here()
    with redirect_stdout(sys.stderr):  # output of agents is not part of the result
        return repeated_prompts(stored, **rights.keywords)


def prompts_of(stored: StoredRun, rights: "Rights") -> Rows:
    """Return the rows of the view `prompts`, repeated if they can be; otherwise say why they are not.

    Args:
        stored: the run.
        rights: what the replay may use.
    """
    from sim.runner.prompts import calls_in_core

    if calls_in_core(stored):
        try:
            return repeated_rows(stored, "prompts", rights)
        except SimError as error:
            say(plain(f"sim: note: the requests to models in the core cannot be repeated: {error}"))
            if error.hint:
                say(plain(f"hint: {error.hint}"))
    return stored.stream("prompts")
