"""Export of a view of a run as CSV, JSON or Parquet."""

import csv
import glob
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from sim.base.errors import RunError, UsageError
from sim.base.extras import need
from sim.kernel.codec import encode
from sim.record.drafts import draft_folder, sync_file
from sim.record.files import DATABASE, failure
from sim.record.frames import json_rows
from sim.record.reader import StoredRun

Format = Literal["csv", "parquet", "json"]

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""First characters of text that a spreadsheet would evaluate as a formula (OWASP, CSV injection)."""

_ACTING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that control a terminal or reorder text. CSV files are often displayed in a terminal."""

_ROW_BYTES = 2**28
"""Maximum length in bytes, as JSON, of a row that is exported to Parquet."""

_DUCKDB: dict[str, str | bool | int | float | list[str]] = {"autoinstall_known_extensions": "false"}
"""Configuration of DuckDB: no downloads. Its reader for JSON and its writer for Parquet are built in."""

Rows = Iterator[Sequence[Any]]


def export(
    run: StoredRun,
    view: str,
    target: Path,
    format: Format,  # noqa: A002
    *,
    force: bool = False,
    rows: Rows | None = None,
) -> int:
    """Write a view or table of `run` to the file `target`, which only its owner can read. Return the number of rows.

    - CSV: text that a spreadsheet would evaluate as a formula gets a leading '. Characters that control a terminal or
      reorder text are escaped (`\\x1b`). None is an empty cell.
    - JSON: a list with one object per line. Text is unchanged; columns with JSON have objects and lists.
    - Parquet: columns are BIGINT, DOUBLE or VARCHAR, depending on their values. Text is unchanged.

    Args:
        run: the run.
        view: the view or table.
        target: the file.
        format: the format.
        force: whether to replace the file if it exists.
        rows: the rows to write; None: those on record.

    Raises:
        UsageError: if the view or the format is unknown, the file exists (unless `force`), or duckdb is missing.
        RunError: if the file cannot be written, or the run is damaged.
    """
    columns = run.columns(view)
    rows_to_write: Rows = run.stream(view) if rows is None else rows
    shown = json_rows(columns, rows_to_write, view=view) if format == "json" else rows_to_write
    return write_rows(target, columns, shown, format, force=force)


def write_rows(target: Path, columns: list[str], rows: Rows, format: Format, *, force: bool) -> int:  # noqa: A002
    """Write rows to a file, as `export` does it, and return their number.

    Raises:
        UsageError: if the format is unknown, the file exists (unless `force`), or duckdb is missing.
        RunError: if the file cannot be written.
    """
    write = _WRITERS.get(format)
    if write is None:
        raise UsageError(f"unknown export format {format!r}", hint=f"use one of {', '.join(_WRITERS)}")
    if (target.parent / DATABASE).exists():
        raise UsageError(
            f"{target} is in a run folder, and a run folder must not be changed", hint="choose another folder"
        )
    if target.exists() and not force:
        raise UsageError(f"{target} exists already", hint="choose another name, or allow its replacement (--force)")
    try:
        with draft_folder(target.parent, ".export") as folder:
            draft = folder / "draft"
            count = write(draft, columns, rows)
            draft.chmod(0o600)  # DuckDB has replaced the file
            sync_file(draft)
            draft.replace(target)
    except OSError as error:
        raise failure(target, error) from error
    return count


def _csv(draft: Path, columns: list[str], rows: Rows) -> int:
    count = 0
    with draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)  # its line end \r\n makes it quote cells that contain \r or \n
        writer.writerow(columns)
        for row in rows:
            writer.writerow([csv_cell(value) for value in row])
            count += 1
    return count


def csv_cell(value: Any) -> Any:
    """Return the content of a CSV cell, with text escaped for spreadsheets and terminals."""
    if not isinstance(value, str):
        return value
    text = _ACTING.sub(lambda sign: sign[0].encode("unicode_escape").decode(), value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _json(draft: Path, columns: list[str], rows: Rows) -> int:
    count = 0
    with draft.open("wb") as file:
        for row in rows:
            file.write(b",\n" if count else b"[\n")
            file.write(encode(dict(zip(columns, row, strict=True))))
            count += 1
        file.write(b"\n]\n" if count else b"[]\n")
    return count


def _parquet(draft: Path, columns: list[str], rows: Rows) -> int:
    need("parquet", "export to Parquet needs")
    import duckdb

    lines = draft.with_name("lines.jsonl")
    types: list[set[type]] = [set() for _ in columns]
    count = 0
    with lines.open("wb") as file:
        for row in rows:
            file.write(encode(dict(zip(columns, row, strict=True))) + b"\n")
            for seen, value in zip(types, row, strict=True):
                seen.add(type(value))
            count += 1
    try:
        with duckdb.connect(config=_DUCKDB) as connection:
            connection.read_json(
                glob.escape(str(lines)),
                columns={column: _sql_type(seen) for column, seen in zip(columns, types, strict=True)},
                format="newline_delimited",
                maximum_object_size=_ROW_BYTES,
            ).write_parquet(str(draft))
    except duckdb.Error as error:
        raise RunError(f"DuckDB cannot write Parquet: {error}") from error
    return count


def _sql_type(seen: set[type]) -> str:
    kinds = seen - {type(None)}
    if kinds == {int}:
        return "BIGINT"
    return "DOUBLE" if kinds and kinds <= {int, float} else "VARCHAR"


_WRITERS: dict[str, Callable[[Path, list[str], Rows], int]] = {
    "csv": _csv,
    "json": _json,
    "parquet": _parquet,
}
