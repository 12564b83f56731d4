"""Output of all commands: plain text, JSON, and errors."""

import json
import math
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from sim.base.errors import Problem, RecordWarning, ScenarioError, SimError, UsageError
from sim.base.text import plain as plain  # re-exported for the commands

if TYPE_CHECKING:
    from sim.record import StoredRun  # the import is slow

Command = TypeVar("Command", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)
OUT = click.option(
    "--out", type=PATH, default=Path("runs"), show_default=True, metavar="DIR", help="The folder of the runs."
)


@contextmanager
def tidy_at_sigterm() -> Iterator[None]:
    """End the process at SIGTERM as if it had called `exit`, so that drafts are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def common(command: Command) -> Command:
    """Add the options of all commands to a command."""
    debug = click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
    as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout, and nothing else.")
    return as_json(debug(command))


def say(text: str) -> None:
    """Write a line to stderr. It must be plain text already."""
    click.echo(text, err=True)


@contextmanager
def reading(out: Path, run: str, *, verify: bool = True) -> Iterator["StoredRun"]:
    """Open a run for reading. Warn if its record is not whole; without `verify`, only if its end is lost.

    Args:
        out: the folder of the runs.
        run: a folder, or the beginning of the name of a run.
        verify: whether to verify the record against its hashes first.
    """
    from sim.record import find_run, open_run  # `sim --help` needs no database

    with open_run(find_run(out, run), verify=verify) as stored:
        if not verify and stored.info.lost is not None:
            warnings.warn(stored.info.lost, RecordWarning, stacklevel=3)
        if lacks := stored.lacks:
            say(f"sim: note: {plain(stored.path.name)} was {lacks}")
        yield stored


@contextmanager
def telling_of_records() -> Iterator[set[str]]:
    """Write each warning about a record that is not whole to stderr, once, and yield the set of them."""
    written: set[str] = set()

    def tell(message: Warning | str, category: type[Warning], *others: Any, **more: Any) -> None:
        if not issubclass(category, RecordWarning):
            before(message, category, *others, **more)
        elif str(message) not in written:
            written.add(str(message))
            say(f"sim: warning: {plain(str(message))}")

    with warnings.catch_warnings():
        before = warnings.showwarning
        warnings.simplefilter("always", RecordWarning)
        warnings.showwarning = tell
        yield written


def print_json(value: Any) -> None:
    """Write one JSON object to stdout, in ASCII, with null for NaN and infinities."""
    click.echo(json.dumps(_finite(value)))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def tolerate_all_text() -> None:
    """Escape characters that the encoding of the terminal lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def still() -> int:
    """Redirect stdout after a broken pipe (`sim list | head`), so that the interpreter prints no error at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def complain(error: Exception, *, as_json: bool, debug: bool) -> int:
    """Print an error and return the exit code."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        say(error.format_message())
        return 2
    if debug:
        for line in "".join(traceback.format_exception(error)).splitlines():
            say(plain(line))
    message, hint = _words(error)
    problems = error.problems if isinstance(error, ScenarioError) else []
    _print_error(message, hint, problems)
    if as_json:
        encoded = [problem_json(problem) for problem in problems]
        print_json({"error": {"message": message, "hint": hint, "problems": encoded}})
    return 2 if isinstance(error, UsageError | click.ClickException) else 1


def _print_error(message: str, hint: str | None, problems: list[Problem]) -> None:
    say(f"sim: error: {plain(message)}")
    print_problems(problems)
    if hint:
        say(f"hint: {plain(hint)}")


def print_problems(problems: list[Problem], to: TextIO | None = None) -> None:
    """Write each problem of a scenario, and its hint, on lines of their own; to stderr unless `to` is set."""
    for problem in problems:
        where = f"{problem.file}:{problem.line}:{problem.column}: " if problem.file else ""
        click.echo(f"  {plain(where)}{plain(problem.message)}", file=to, err=to is None)
        if problem.hint:
            click.echo(f"    hint: {plain(problem.hint)}", file=to, err=to is None)


def problem_json(problem: Problem) -> dict[str, str | int | None]:
    """Return a problem as a JSON-like mapping."""
    return {name: getattr(problem, name) for name in ("file", "line", "column", "message", "hint")}


def _words(error: Exception) -> tuple[str, str | None]:
    """Return the message and the hint of an error."""
    match error:
        case ScenarioError():
            count = len(error.problems)
            return f"the scenario is not valid: {count} problem{'s' if count != 1 else ''}", error.hint
        case SimError():
            return str(error), error.hint
        case click.NoSuchCommand() | click.NoSuchOption():
            near = error.possibilities
            return error.message.rstrip("."), f"did you mean {near[0]}?" if near else _help(error)
        case click.UsageError():
            return error.format_message().rstrip("."), _help(error)
        case OSError() if error.filename:
            return f"{error.filename} cannot be used: {error.strerror}", None
    return f"{type(error).__name__}: {error}", "use --debug to show the traceback"


def _help(error: click.UsageError) -> str:
    return f"see {error.ctx.command_path if error.ctx else 'sim'} --help"
