"""CSV files that experiments read: lists of combinations, and data to which a model is fitted."""

import csv
import io
from pathlib import Path
from typing import Literal

from sim.base.errors import UsageError
from sim.base.text import counted

Lines = list[tuple[int, list[str]]]
"""The cells of each line of a table, with the number of the line in its file."""


def text_of(path: Path, most: int) -> str:
    """Return the text of a file.

    Args:
        path: the file.
        most: how many bytes it has at most.

    Raises:
        UsageError: if it cannot be read, is larger, or is not UTF-8.
    """
    try:
        if path.stat().st_size > most:
            raise UsageError(f"{path} is larger than {most:,} bytes", hint="split it, or thin it out")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text", hint="save it as UTF-8") from error


def read_csv(path: Path, text: str, head: Literal["key", "column"], hint: str) -> tuple[list[str], Lines]:
    """Return the heads of a table, which are in its first line, and its other lines that are not empty.

    Args:
        path: its file.
        text: its text.
        head: what a head is called.
        hint: what such a file looks like.

    Raises:
        UsageError: if two heads are the same, or a line has another number of cells.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        heads = [cell.strip() for cell in next(reader, [])]
        lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except csv.Error as error:
        raise UsageError(f"{path}, line {reader.line_num}: {error}", hint=hint) from error
    if twice := next((one for place, one in enumerate(heads) if one in heads[:place]), None):
        raise UsageError(f"{path}: the {head} {twice!r:.60} is in the first line twice", hint=hint)
    for number, row in lines:
        if len(row) != len(heads):
            said = f"{path}, line {number}: there {'is' if len(row) == 1 else 'are'} {counted(len(row), 'cell')}"
            raise UsageError(f"{said}, and {counted(len(heads), head)}", hint="put what has commas in double quotes")
    return heads, lines
