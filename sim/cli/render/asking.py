"""What the commands that ask models about a run share: the cost that is shown first, and the file with the answers."""

import csv
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from sim.base.errors import UsageError
from sim.cli.render.output import PATH, plain, say
from sim.kernel.codec import JsonObject
from sim.record.drafts import replace_files
from sim.record.export import csv_cell
from sim.record.files import failure

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--to", type=PATH, metavar="FILE", help="Write everything to a new .csv or .json file."),
    click.option("--estimate", "only_estimate", is_flag=True, help="Print what it would cost at most; ask nothing."),
    click.option("--yes", is_flag=True, help="Do not ask whether the cost is accepted."),
)

_LONGEST = 80  # characters of a text in a table


def asking_options(command: Command) -> Command:
    """Add the options of the file and the cost to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def check_target(to: Path | None) -> None:
    """Check that a file can be written, before anything is asked.

    Raises:
        UsageError: if its format is not known, or it exists.
    """
    if to is not None and to.suffix not in (".csv", ".json"):
        raise UsageError(f"{to} has no format that is known", hint="its name ends with .csv or .json")
    if to is not None and to.exists():
        raise UsageError(f"{to} exists already", hint="choose another name")
    if to is not None and not os.access(to.parent, os.W_OK | os.X_OK):
        raise UsageError(f"{to} cannot be written: there is no folder {to.parent} in which files can be created")


def cost_text(count: str, input_tokens: int, most: float, *, outside: bool) -> str:
    """Return what will be asked, and what it costs at most, in one line."""
    price = f"at most {most:.4f}" if most or not outside else "at a price that is not known"
    return f"{count}, about {input_tokens:,} tokens in, {price}"


def confirmed(text: str, *, outside: bool, yes: bool, only_estimate: bool) -> bool:
    """Show the cost on stderr, and return whether the models are to be asked."""
    say(f"sim: {text}")
    if only_estimate:
        return False
    if not outside or yes or not sys.stdin.isatty():
        return True
    return click.confirm("ask?", err=True)


def write_rows(to: Path, columns: Sequence[str], rows: Sequence[JsonObject]) -> None:
    """Write rows to a new file, as CSV or JSON.

    Raises:
        RunError: if it cannot be written.
    """
    if to.suffix == ".json":
        text = json.dumps([{name: row[name] for name in columns} for row in rows])
    else:
        stream = io.StringIO(newline="")
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows([csv_cell(row[name]) for name in columns] for row in rows)
        text = stream.getvalue()
    try:
        replace_files(to.parent, {to.name: text.encode()})
    except OSError as error:
        raise failure(to, error) from error


def short(text: str) -> str:
    """Return a text in one line of a table."""
    line = plain(" ".join(text.split()))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
