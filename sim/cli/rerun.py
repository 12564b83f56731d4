"""Shared code of the commands that run a recorded run again (`replay`, `resume`, `branch`)."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, TypeVar

import click

from sim.base.errors import UsageError
from sim.base.shown import Keywords
from sim.cli.render.output import plain, print_json, say
from sim.cli.render.progress import ProgressPrinter
from sim.cli.rights_options import rights_options
from sim.cli.run import CHANGE, exit_code, host_options, import_from_here, print_result
from sim.kernel.duration import seconds_text
from sim.record import open_run
from sim.runner import InDoubtEffect, RunResult
from sim.runner.rebuild import models_asked
from sim.tools.rights import Rights

Command = TypeVar("Command", bound=Callable[..., Any])


def again_options(command: Command) -> Command:
    """Add the shared options of `replay`, `resume` and `branch` to a command."""
    quiet = click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
    return host_options(rights_options(CHANGE(quiet(command))))


@contextmanager
def at_work(rights: Rights, *, quiet: bool) -> Iterator[Keywords]:
    """Show progress, reserve stdout for the result, and yield the options for the runner."""
    if rights.allow:
        import_from_here()
    live = sys.stderr.isatty()
    progress = ProgressPrinter(live=live)
    try:
        with redirect_stdout(sys.stderr):  # output of agents is not part of the result
            yield {
                **rights.keywords,
                "progress": None if quiet else progress,
                "stuck": progress.stuck,
                "on_interrupt": "return",
            }
    finally:
        progress.clear()


def decided(decisions: tuple[str, ...]) -> dict[int, str]:
    """Return the decisions by the id of the effect.

    Raises:
        UsageError: if a decision does not have the form ID=DECISION.
    """
    return by_id(decisions, "--effect", "ID=DECISION", "17=retry")


def by_id(texts: tuple[str, ...], option: str, form: str, example: str) -> dict[int, str]:
    """Return what an option gives, by the number before it.

    Args:
        texts: what was given.
        option: the option, for errors.
        form: the form of each text: `ID`, a sign, and what follows.
        example: one of this form.

    Raises:
        UsageError: if a text does not have this form, or a number is given twice.
    """
    by_number: dict[int, str] = {}
    for text in texts:
        id, sign, rest = text.partition(form[2])
        if not sign or not id.isdecimal():
            raise UsageError(f"{option} {text[:80]!r} does not have the form {form}", hint=f"for example {example}")
        if int(id) in by_number:
            raise UsageError(f"{option} is given twice for {id}")
        by_number[int(id)] = rest
    return by_number


def models_of(folder: Path) -> list[str]:
    """Return the language models of a run that differ from those of its scenario."""
    with open_run(folder, verify=False) as stored:
        return models_asked(stored.info.options)


def print_live(result: RunResult, *, as_json: bool, quiet: bool, undecided: bool = False) -> int:
    """Print the result of a continued run, or its open decisions, and return the exit code."""
    if result.doubts and not as_json:
        _print_doubts(result.doubts)
    if result.doubts and not undecided:
        _ask(result, as_json=as_json)
        return 1
    print_result(result, as_json=as_json, quiet=quiet)
    if result.doubts:
        say(f"sim: warning: {len(result.doubts)} in-doubt effects were not resolved; the run continued without them")
    return exit_code(result)


def _ask(result: RunResult, *, as_json: bool) -> None:
    if as_json:
        print_json(result.to_json())
    choices = " ".join(f"--effect {doubt.id}=retry" for doubt in result.doubts[:5])
    more = " ..." if len(result.doubts) > 5 else ""
    say("sim: nothing was changed: decide on all of these effects first (retry, done, done:JSON or failed)")
    say(f"hint: add {choices}{more} to the command")


def _print_doubts(doubts: tuple[InDoubtEffect, ...]) -> None:
    effects = "1 effect is" if len(doubts) == 1 else f"{len(doubts)} effects are"
    say(f"sim: {effects} in doubt: started, but without a recorded outcome")
    for doubt in doubts:
        say(plain(f"  {doubt.id}: {doubt.kind} of {doubt.agent} at {seconds_text(doubt.time)}: {doubt.request}"))
