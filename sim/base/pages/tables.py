"""Tables of values, as text for a terminal and as HTML for a notebook."""

from collections.abc import Sequence

import attrs

from sim.base.numbers import is_number
from sim.base.pages.markup import Markup, tag
from sim.base.text import number, plain

_WIDEST = 60
"""The most characters of a cell in a table of text. A longer one is cut off."""


@attrs.frozen
class Table:
    """Rows of values under headings. Text is not trusted.

    Attributes:
        headings: the headings; empty: the first column names what is beside it.
        rows: the cells: text, numbers, or None for nothing.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[object]]

    def text(self) -> str:
        """Return the table with aligned columns, numbers at the right."""
        lines = [list(self.headings)] if self.headings else []
        lines += [[_cut(_shown(cell)) for cell in row] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        right = self._numbers()
        aligned = (
            "  ".join(cell.rjust(width) if at_right else cell.ljust(width) for cell, width, at_right in zipped)
            for line in lines
            for zipped in [zip(line, widths, right, strict=True)]
        )
        return "\n".join(line.rstrip() for line in aligned)

    def html(self) -> Markup:
        """Return the table as HTML."""
        right = ["right" if numbers else "left" for numbers in self._numbers()]
        head = tag("tr", [tag("th", name, align=side) for name, side in zip(self.headings, right, strict=False)])
        cell = "td" if self.headings else "th"
        body = [
            tag(
                "tr",
                [
                    tag("td" if place else cell, _shown(value), align=side)
                    for place, (value, side) in enumerate(zip(row, right, strict=True))
                ],
            )
            for row in self.rows
        ]
        return tag("table", tag("thead", head) if self.headings else None, tag("tbody", body))

    def _numbers(self) -> list[bool]:
        """Return for each column whether it has numbers only."""
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.headings)
        return [
            any(is_number(cell) for cell in column) and all(cell is None or is_number(cell) for cell in column)
            for column in columns
        ]


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(value)
    return plain(value)


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."
