"""Tables on stdout. The library rich is imported only when a table is printed."""

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sim.cli.render.output import plain
from sim.text import number

if TYPE_CHECKING:
    from rich.table import Table

PIPED = 200
"""The width in columns if the output has no known width."""

Cell = str | int | float | bool | None


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[Cell]], *, exact: bool = False, named: bool = False
) -> None:
    """Print rows under their headings. Numbers are right-aligned, and rounded unless `exact`.

    On a narrow terminal, the first column is never wrapped if `named`; the others are.
    """
    from rich.table import Table

    rows = list(rows)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, heading in enumerate(headings):
        numbers = all(isinstance(row[index], int | float | None) for row in rows)
        table.add_column(
            plain(heading), justify="right" if numbers and rows else "left", overflow="fold",
            no_wrap=named and not index,
        )  # fmt: skip
    _print(table, rows, exact=exact)


def print_pairs(rows: Iterable[tuple[str, str]]) -> None:
    """Print names and their values."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    _print(table, rows)


def _print(table: "Table", rows: Iterable[Sequence[Cell]], *, exact: bool = True) -> None:
    from rich.console import Console
    from rich.text import Text

    for row in rows:
        table.add_row(*(Text(_shown(cell, exact)) for cell in row))  # as Text, so that markup is not interpreted
    width = None if sys.stdout.isatty() else PIPED
    Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False).print(table)


def _shown(cell: Cell, exact: bool) -> str:
    if cell is None:
        return ""
    return plain(cell) if exact or isinstance(cell, str | bool) else number(cell)
