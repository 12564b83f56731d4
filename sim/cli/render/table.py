"""Tables on stdout."""

import shutil
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import click

from sim.base.text import number
from sim.cli.render.output import plain

PIPED: Final = 200
"""The width in columns if the output has no known width."""

_BETWEEN: Final = 2  # columns between two cells

_NARROW: Final = 16
"""Texts that are wrapped within fewer columns cannot be read."""

_LONGEST: Final = 500
"""The most characters of a cell in a row that is printed as a list."""

Cell = str | int | float | bool | None


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[Cell]], *, exact: bool = False, named: bool = False
) -> None:
    """Print rows under their headings. Numbers are right-aligned, and rounded unless `exact`.

    On a narrow terminal, the first column is never wrapped if `named`; the others are.
    """
    rows = list(rows)
    right = [
        bool(rows) and all(isinstance(row[index], int | float | None) for row in rows) for index in range(len(headings))
    ]
    lines = [[plain(heading) for heading in headings], *([_shown(cell, exact) for cell in row] for row in rows)]
    for place, line in enumerate(_lines(lines, right, fixed=named)):
        click.secho(line, bold=True) if place == 0 else click.echo(line)


def print_rows(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print rows of which little is known before, with exact numbers: as a table, or, if that is too wide, as lists.

    In a list, each cell has a line beside its heading, and the end of a long text is left out, with a mark.
    """
    lines = [[plain(heading) for heading in headings], *([_shown(cell, True) for cell in row] for row in rows)]
    widths = [max(map(_width, cells)) for cells in zip(*lines, strict=True)]
    shrunk = list(widths)
    _shrink(shrunk, _columns(), 0)
    if len(headings) < 2 or all(new == old or new >= _NARROW for new, old in zip(shrunk, widths, strict=True)):
        print_table(headings, rows, exact=True)
        return
    for place, line in enumerate(lines[1:]):
        if place:
            click.echo()
        print_pairs([(heading, _cut(cell)) for heading, cell in zip(lines[0], line, strict=True)])


def _cut(cell: str) -> str:
    more = len(cell) - _LONGEST
    return cell if more <= 0 else f"{cell[:_LONGEST]} ... [{more:,} more characters; --json has all]"


def print_pairs(rows: Iterable[tuple[str, str]]) -> None:
    """Print names and their values."""
    lines = [[plain(name), plain(value)] for name, value in rows]
    longest = max((_width(name) for name, _ in lines), default=0)
    for line in _lines(lines, [False, False], fixed=True):
        click.echo(f"{click.style(line[:longest], bold=True)}{line[longest:]}")


def _shown(cell: Cell, exact: bool) -> str:
    if cell is None:
        return ""
    return plain(cell) if exact or isinstance(cell, str | bool) else number(cell)


def _lines(rows: Sequence[Sequence[str]], right: Sequence[bool], *, fixed: bool) -> Iterator[str]:
    """Yield the lines of a table that fits the terminal, without its first column being wrapped if that is `fixed`."""
    widths = [max(map(_width, cells)) for cells in zip(*rows, strict=True)]
    _shrink(widths, _columns(), int(fixed))
    for row in rows:
        parts = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
        for height in range(max(map(len, parts))):
            cells = (
                _filled(part[height] if height < len(part) else "", width, aligned)
                for part, width, aligned in zip(parts, widths, right, strict=True)
            )
            yield (" " * _BETWEEN).join(cells).rstrip()


def _columns() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPED


def _shrink(widths: list[int], most: int, first: int) -> None:
    """Make the widest columns, from number `first`, narrower until all fit into `most`."""
    over = sum(widths) + _BETWEEN * (len(widths) - 1) - most
    while over > 0 and any(width > 1 for width in widths[first:]):
        widest = max(range(first, len(widths)), key=widths.__getitem__)
        next_widest = max((widths[i] for i in range(first, len(widths)) if i != widest), default=1)
        less = min(over, max(1, widths[widest] - next_widest), widths[widest] - 1)
        widths[widest] -= less
        over -= less


def _wrapped(text: str, most: int) -> list[str]:
    """Return a text as lines of at most `most` columns: divided at spaces, and within words that are longer."""
    lines = []
    while _width(text) > most:
        end = columns = 0
        while end < len(text) and (columns := columns + _width(text[end])) <= most:
            end += 1
        space = text.rfind(" ", 1, end + 1)
        end = max(1, end) if space < 0 else space
        lines.append(text[:end].rstrip())
        text = text[end:].lstrip()
    return [*lines, text]


def _filled(text: str, width: int, right: bool) -> str:
    space = " " * (width - _width(text))
    return space + text if right else text + space


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes: signs of East Asia take two, and accents none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(sign) else 1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text)
