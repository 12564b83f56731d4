"""Reads tables: CSV, JSON lines and Parquet, or a DataFrame. Files are not trusted: they can come from anybody."""

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import attrs

from sim.base.errors import Problem, SimError, UsageError
from sim.base.text import of_error
from sim.kernel.codec import Json, decode, encode
from sim.record.frames import read_parquet

MAX_TABLE_BYTES: Final = 50_000_000
MAX_ROWS: Final = 1_000_000
MAX_COLUMNS: Final = 500
MAX_TABLE_CELLS: Final = 10_000_000
MAX_CELL: Final = 10_000
"""The most characters of a cell."""

_LONGEST_NAME: Final = 200  # of a column
_MAX_INT: Final = 2**63 - 1


class TableError(UsageError):
    """A table cannot be used.

    Args:
        message, hint: see `UsageError`.
        line: the line of the file, from 1; 0: the file as a whole.
        column: the number of the column, from 1.
    """

    def __init__(self, message: str, line: int = 0, column: int = 0, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.line = line
        self.column = column

    def problem(self, table: str) -> Problem:
        """Return the problem of a table with this name."""
        return Problem(table, max(1, self.line), max(1, self.column), str(self), self.hint)


@attrs.frozen
class TableFile:
    """The content of a table file.

    Attributes:
        columns: the names of the columns.
        rows: the cells of each row; None where there is no value.
        lines: the line of each row in the file; without lines, the number of the row.
        typed: whether cells have types; those of CSV are texts.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    lines: tuple[int, ...]
    typed: bool


@lru_cache(maxsize=4)
def read_table(data: bytes, suffix: str) -> TableFile:
    """Return the table in a file.

    Args:
        data: the content of the file.
        suffix: the suffix of its name, one of `FORMATS`.

    Raises:
        TableError: if it cannot be read, or is too large.
        UsageError: if a package that reads it is not installed.
    """
    if len(data) > MAX_TABLE_BYTES:
        raise TableError(f"the file is larger than {MAX_TABLE_BYTES} bytes", hint="keep the columns that agents need")
    columns, rows, lines = FORMATS[suffix](data)
    return _checked(columns, rows, lines, typed=suffix not in _OF_TEXT)


def table_from(table: Any) -> TableFile:
    """Return the table that a program gives: a DataFrame, a list of mappings, or a mapping of columns.

    Raises:
        TableError: if it is none of these, or is too large.
    """
    content = table
    if hasattr(content, "to_dicts"):  # polars
        content = {str(name): content[name].to_list() for name in content.columns}
    elif hasattr(content, "to_pylist"):  # Arrow
        content = content.to_pylist()
    elif hasattr(content, "to_dict"):  # pandas, and others that have its form
        names = list(content.columns)
        content = {name: list(content[name]) for name in names} if len(set(names)) == len(names) else _twice(names)
    if isinstance(content, Mapping):
        columns = {str(name): list(cells) for name, cells in content.items()}
        sizes = {len(cells) for cells in columns.values()}
        if len(sizes) > 1:
            raise TableError("its columns have different lengths")
        rows = list(zip(*columns.values(), strict=True))
        return _checked(list(columns), rows, range(1, len(rows) + 1), typed=True)
    if isinstance(content, list | tuple) and all(isinstance(row, Mapping) for row in content):
        names = list(dict.fromkeys(str(key) for row in content for key in row))
        return _checked(
            names, [[row.get(name) for name in names] for row in content], range(1, len(content) + 1), typed=True
        )
    hint = "give a DataFrame, a list of mappings, or a mapping of columns"
    raise TableError(f"{type(table).__name__} is no table", hint=hint)


def table_again(table: TableFile) -> TableFile:
    """Return a table that was recorded, after the checks of one that is read: a record can come from anybody.

    Raises:
        TableError, ValueError: if it is none.
    """
    if len(table.lines) != len(table.rows):
        raise ValueError("each row has its line")
    return _checked(table.columns, table.rows, table.lines, typed=table.typed)


def is_table(value: Any) -> bool:
    """Return whether a value of a program is meant as a table: all but a text, or nothing, is."""
    return value is not None and not isinstance(value, str | bool | int | float)


def _twice(names: Sequence[Any]) -> Any:
    twice = next(name for name in names if names.count(name) > 1)
    raise TableError(f"there are two columns {str(twice)[:80]!r}", 1, hint="give each column a name of its own")


def _checked(columns: Sequence[Any], rows: Sequence[Sequence[Any]], lines: Sequence[int], *, typed: bool) -> TableFile:
    """Return a table whose cells are plain values.

    Raises:
        TableError: if a name or a cell cannot be used, or there are too many.
    """
    if not columns:
        raise TableError("the table has no columns", hint="its first line names them")
    if len(columns) > MAX_COLUMNS or len(rows) > MAX_ROWS or len(rows) * len(columns) > MAX_TABLE_CELLS:
        size = f"{len(rows)} rows of {len(columns)} columns"
        most = f"{MAX_ROWS} rows, {MAX_COLUMNS} columns and {MAX_TABLE_CELLS} cells"
        raise TableError(f"the table has {size}; it can have {most}", hint="keep what agents need")
    if not rows:
        raise TableError("the table has no rows", hint="each row is an agent")
    for number, name in enumerate(columns, 1):
        if not isinstance(name, str) or not name or len(name) > _LONGEST_NAME or not name.isprintable():
            raise TableError(f"column {number} has no name that can be used: {name!r:.80}", 1, number)
    if len(set(columns)) < len(columns):
        _twice(list(columns))
    plain = tuple(
        tuple(_cell(cell, row, (line, place), name) for place, (name, cell) in _numbered(columns, cells))
        for row, (line, cells) in enumerate(zip(lines, rows, strict=True), 1)
    )
    return TableFile(tuple(columns), plain, tuple(lines), typed)


def _numbered(columns: Sequence[str], cells: Sequence[Any]) -> Iterator[tuple[int, tuple[str, Any]]]:
    return enumerate(zip(columns, cells, strict=True), 1)


def _cell(cell: Any, row: int, at: tuple[int, int], name: str) -> Any:
    """Return a cell as a plain value; None if it has none.

    Raises:
        TableError: if it is too long, or of a type that agents cannot have.
    """
    kind = cell.__class__
    if kind is str:
        value: Any = cell or None
    elif cell is None or kind is int or kind is bool:
        value = cell
    else:
        value = _plain(cell)
    fault = _fault(value)
    if fault is None:
        return value
    raise TableError(f"row {row}, column {name[:80]!r}: {fault}", *at, hint="make it text, or leave the column out")


def _fault(value: Any) -> str | None:
    """Return why agents cannot have a value; None if they can."""
    kind = value.__class__
    if kind is str:
        return f"the text has {len(value)} characters, at most {MAX_CELL} are read" if len(value) > MAX_CELL else None
    if kind is int:
        return None if abs(value) <= _MAX_INT else "the whole number does not fit into 64 bits"
    if kind is float:
        return None if math.isfinite(value) else f"expected a finite number, found {value}"
    if kind is list or kind is dict:
        try:
            return f"the value is longer than {MAX_CELL} characters" if len(encode(value)) > MAX_CELL else None
        except SimError:
            return "it holds something that is no JSON value"
    return None if value is None or kind is bool else f"expected a number, a text, true or false, found {kind.__name__}"


def _plain(cell: Any) -> Any:
    """Return a value of a library as one of Python; None for what stands for no value: NaN, NaT and NA."""
    if hasattr(cell, "isoformat"):  # a date, or a time
        return None if cell != cell else cell.isoformat()
    if isinstance(cell, Decimal):
        return float(cell)
    if hasattr(cell, "item") and not isinstance(cell, list | dict):  # a number of numpy
        cell = cell.item()
    if isinstance(cell, float):
        return None if math.isnan(cell) else float(cell)
    if isinstance(cell, str):
        return str(cell) or None
    if hasattr(cell, "tolist"):
        cell = cell.tolist()
    if type(cell).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(cell, tuple | list):
        return [_plain(part) for part in cell]
    if isinstance(cell, dict):
        return {str(key): _plain(part) for key, part in cell.items()}
    return cell


# -- formats

_Read = tuple[list[str], list[Any], Sequence[int]]


def _text_of(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise TableError("the table is not UTF-8 text", line, hint="save it as UTF-8") from None


def _csv(data: bytes) -> _Read:
    return _separated(data, ",")


def _tsv(data: bytes) -> _Read:
    return _separated(data, "\t")


def _separated(data: bytes, mark: str) -> _Read:
    reader = csv.reader(io.StringIO(_text_of(data), newline=""), delimiter=mark, strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    columns: list[str] | None = None
    before = 0  # lines that were read; a row may have several
    try:
        for row in reader:
            first, before = before + 1, reader.line_num
            if not row:
                continue
            cells = [cell.strip() for cell in row]
            if not any(cells):
                raise TableError("this row has no values", first, hint="remove the line, if it is no agent")
            if columns is None:
                columns = cells
                if len(columns) == 1 and ";" in columns[0] and mark == ",":
                    raise TableError("the columns are separated by ;", 1, hint="save the table with commas")
                continue
            if len(cells) != len(columns):
                message = f"row {len(rows) + 1} has {len(cells)} cells, and the table has {len(columns)} columns"
                raise TableError(message, first, hint="put a text with a comma into quotes" if mark == "," else None)
            rows.append(cells)
            lines.append(first)
            if len(rows) > MAX_ROWS:
                raise TableError(f"the table has more than {MAX_ROWS} rows", first)
    except csv.Error as error:
        raise TableError(f"it cannot be read as CSV: {of_error(error)[:200]}", reader.line_num) from None
    return columns or [], rows, lines


def _json_lines(data: bytes) -> _Read:
    rows: list[dict[str, Json]] = []
    lines: list[int] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = decode(line)
        except (ValueError, RecursionError) as error:
            raise TableError(f"it cannot be read as JSON: {of_error(error)[:200]}", number) from None
        if not isinstance(row, dict):
            raise TableError('expected an object, one a line, such as {"age": 30}', number)
        rows.append(row)
        lines.append(number)
        if len(rows) > MAX_ROWS:
            raise TableError(f"the table has more than {MAX_ROWS} rows", number)
    names = list(dict.fromkeys(key for row in rows for key in row))
    if len(names) > MAX_COLUMNS:
        raise TableError(f"its rows have more than {MAX_COLUMNS} different keys")
    return names, [[row.get(name) for name in names] for row in rows], lines


def _parquet(data: bytes) -> _Read:
    columns, rows = read_parquet(data, MAX_ROWS, MAX_TABLE_CELLS)
    return columns, rows, range(1, len(rows) + 1)


FORMATS: Final[Mapping[str, Callable[[bytes], _Read]]] = {
    ".csv": _csv, ".tsv": _tsv, ".jsonl": _json_lines, ".ndjson": _json_lines, ".parquet": _parquet,
}  # fmt: skip
"""By suffix, the function that reads a format."""

_OF_TEXT: Final = (".csv", ".tsv")


def names_of_tables() -> str:
    """Return the known suffixes as text."""
    return ", ".join(FORMATS)


# -- the types of columns

KINDS: Final = ("whole", "number", "flag", "text", "any")
"""The types that a column can have: whole numbers, numbers, true and false, texts, and any value."""

_CALLED: Final = {
    "whole": "a whole number", "number": "a number", "flag": "true or false", "text": "text", "any": "a value",
}  # fmt: skip


def cells_of(table: TableFile, name: str, kind: str | None) -> list[Any]:
    """Return the cells of a column, each of one type.

    Args:
        table: the table.
        name: the column.
        kind: one of `KINDS`; None: the type that most cells have. Texts in a column of numbers are refused then, not
            taken as texts: a column that is almost numbers has a mistake in it.

    Raises:
        TableError: if a cell is of another type, with its row.
    """
    place = table.columns.index(name)
    cells = [row[place] for row in table.rows]
    if not table.typed:
        cells = [None if cell is None else _typed(cell) for cell in cells]
    wanted = kind or _kind_of(cells)
    raws = (row[place] for row in table.rows)
    made = [None if cell is None else _as(cell, raw, wanted) for cell, raw in zip(cells, raws, strict=True)]
    wrong = [number for number, cell in enumerate(made) if cell is _WRONG]
    if not wrong:
        return made
    first = wrong[0]
    more = f" (and in {len(wrong) - 1} more rows)" if len(wrong) > 1 else ""
    expected = _CALLED[wanted] if kind else f"{_CALLED[wanted]}, as in most rows"
    text = _shown(table.rows[first][place])
    hint = "leave the cell empty if there is no value" if wanted != "text" else None
    if kind is None and wanted != "any":
        hint = f"{hint}, or give the column a type: `columns: {{{name[:40]}: {{type: text}}}}`"
    raise TableError(
        f"row {first + 1}, column {name[:80]!r}: expected {expected}, found {text}{more}",
        table.lines[first],
        place + 1,
        hint,
    )


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f"the text {value[:60]!r}"
    return "a list" if isinstance(value, list) else "a mapping" if isinstance(value, dict) else str(value).lower()


def _typed(text: str) -> Any:
    """Return what a cell of CSV reads as: a number, true or false, or its text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if not text[0].isdigit() and text[0] not in "+-.":
        return text  # most texts, without an exception
    digits = text.lstrip("+-")
    if digits.isascii() and digits.isdigit() and len(text) - len(digits) < 2:
        if len(digits) > 1 and digits[0] == "0":
            return text  # a code, such as 007
        return int(text) if len(digits) < 19 else text
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) and "_" not in text else text


def _kind_of(cells: Sequence[Any]) -> str:
    """Return the type that most of the cells of a column have."""
    counts = {"whole": 0, "number": 0, "flag": 0, "text": 0, "any": 0}
    for cell in cells:
        if cell is not None:
            counts[_KIND[cell.__class__]] += 1
    numbers = counts["whole"] + counts["number"]
    if numbers * 2 > sum(counts.values()):
        return "number" if counts["number"] else "whole"
    return max(("text", "flag", "any"), key=lambda kind: counts[kind])


_KIND: Final[Mapping[type, str]] = {int: "whole", float: "number", bool: "flag", str: "text", list: "any", dict: "any"}
_WRONG: Final = object()


def _as(cell: Any, raw: Any, kind: str) -> Any:
    """Return a cell as a type; `_WRONG` if it has another one. In CSV, a text may look like a number."""
    own = _KIND[cell.__class__]
    if kind in ("any", own):
        return cell
    if kind == "number" and own == "whole":
        return float(cell)
    if kind == "whole" and own == "number" and cell == int(cell):  # a column of pandas with missing values has floats
        return int(cell) if raw.__class__ is float else _WRONG
    if kind == "flag" and own == "whole" and cell in (0, 1):
        return bool(cell)
    return raw if kind == "text" and raw.__class__ is str else _WRONG
