"""DataFrames of pandas or polars, or Arrow tables, from the rows of a record."""

import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, get_args

from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.base.extras import installed, need
from sim.base.text import of_error
from sim.kernel.codec import decode, encode
from sim.record.database import Table

Library = Literal["pandas", "polars", "arrow"]
Frame = Any
"""A `pandas.DataFrame`, a `polars.DataFrame` or a `pyarrow.Table`."""

JSON_COLUMNS: Final = frozenset({
    "action", "arguments", "attempts", "data", "fallbacks", "files", "item", "links", "llm_calls", "metadata",
    "refused_plans", "request", "set", "state_snapshot", "tool_calls", "validation",
})  # fmt: skip
"""The columns that hold JSON text in the views that have them. `result` is missing: in `actions` it is often text."""

_MORE_JSON: Final[Mapping[str, frozenset[str]]] = {
    "agent_execution_steps": frozenset({"result"}),
    "tasks": frozenset({"depends_on", "result"}),
}
"""The further columns that hold JSON text, by view."""

MOST_PARTS: Final = 200
"""A column of objects with more different keys is not expanded: its keys are data, for instance names of agents."""

_MOST_CELLS: Final = 20_000_000
"""The most cells that a column is expanded to, because many objects with few common keys fill the memory."""

Cells = list[Any]
Columns = dict[str, Cells]
Kind = Literal["none", "bool", "int", "float", "text", "object"]


def json_columns(view: str | None) -> frozenset[str]:
    """Return the columns of a view that hold JSON text; None: of a query."""
    return JSON_COLUMNS | _MORE_JSON.get(view or "", frozenset())


def frame(
    table: Table, as_: Library | None = None, expand: bool | Sequence[str] = True, view: str | None = None
) -> Frame:
    """Return rows as a DataFrame or an Arrow table.

    Columns with whole numbers, numbers, booleans or text have that type, and can have missing values. All other
    columns have Python objects; in an Arrow table, JSON text.

    Args:
        table: the names of the columns, and the rows.
        as_: `pandas`, `polars` or `arrow`; by default the first of these that is installed.
        expand: whether JSON becomes columns: an object in `data` gives a column `data.KEY` for each of its keys, in
            alphabetical order, and other values stay in `data`. Nested objects and lists stay objects. Names of columns
            expand only these.
        view: the view that the rows are from; None: from a query.

    Raises:
        UsageError: if the library is not installed, two columns have one name, or there is no column to expand.
    """
    library = _installed() if as_ is None else as_
    if library not in _LIBRARIES:
        raise UsageError(f"a frame is made with {', '.join(get_args(Library))}, not {library!r}")
    columns = _columns(table)
    if expand is True:
        columns = expanded(columns, json_columns(view))
    elif expand:
        for name in expand:
            if name not in columns:
                raise UsageError(f"there is no column {name!r} to expand", hint=did_you_mean(name, columns))
        columns = expanded(columns, expand)
    make, extra = _LIBRARIES[library]
    need(extra, f"a frame of {library} needs" if library != "arrow" else "an Arrow table needs")
    return make(columns)


def expanded(columns: Mapping[str, Cells], names: Collection[str]) -> Columns:
    """Return columns with JSON text decoded, and its objects as columns of their own.

    Args:
        columns: the cells by column.
        names: the columns to expand. Text in them that is not JSON stays as it is.

    Raises:
        UsageError: if a column would have the name of another one.
    """
    all_columns: Columns = {}
    for name, cells in columns.items():
        parts = _parts(name, [_decoded(cell) for cell in cells]) if name in names else {name: cells}
        for part in parts:
            if part in all_columns or (part != name and part in columns):
                raise UsageError(f"two columns would have the name {part!r}", hint="rename one, or use expand=False")
        all_columns |= parts
    return all_columns


def json_rows(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, mixed: bool = False, view: str | None = None
) -> Iterator[list[Any]]:
    """Yield rows with the JSON text in their `json_columns` decoded, for output as JSON.

    Args:
        columns: the names of the columns.
        rows: the rows.
        mixed: whether such a column can have ordinary text too, as in a query of a user: only objects and lists are
            decoded then.
        view: the view that the rows are from; None: from a query.
    """
    json_names = json_columns(view)
    places = [place for place, name in enumerate(columns) if name in json_names]
    for row in rows:
        cells = list(row)
        for place in places:
            if not mixed or (isinstance(cells[place], str) and cells[place].startswith(("{", "["))):
                cells[place] = _decoded(cells[place])
        yield cells


def _parts(name: str, cells: Cells) -> Columns:
    """Return one column for each key of the objects among the cells, after those values that are not objects."""
    keys = sorted({key for cell in cells if isinstance(cell, dict) for key in cell})
    if not keys or len(keys) > MOST_PARTS or len(keys) * len(cells) > _MOST_CELLS:
        return {name: cells}
    others = [None if isinstance(cell, dict) else cell for cell in cells]
    parts = {f"{name}.{key}": [cell.get(key) if isinstance(cell, dict) else None for cell in cells] for key in keys}
    return {name: others, **parts} if any(cell is not None for cell in others) else parts


def _decoded(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    try:
        return decode(cell.encode())
    except (ValueError, RecursionError):
        return cell


def _columns(table: Table) -> Columns:
    names, rows = table
    for place, name in enumerate(names):
        if name in names[:place]:
            raise UsageError(f"two columns have the name {name!r}", hint="rename one with AS")
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return {name: list(cells) for name, cells in zip(names, columns, strict=True)}


def _kind(cells: Cells) -> Kind:
    """Return the common type of the values of a column."""
    types = {type(cell) for cell in cells if cell is not None}
    if not types:
        return "none"
    if types == {bool}:
        return "bool"
    if types == {str}:
        return "text"
    if types <= {int, float} and all(abs(cell) < 2**63 for cell in cells if type(cell) is int):
        return "int" if types == {int} else "float"
    return "object"


def _pandas(columns: Columns) -> Frame:
    import pandas as pd

    made = {}
    for name, cells in columns.items():
        kind, missing = _kind(cells), None in cells
        dtype = {"bool": "boolean" if missing else "bool", "int": "Int64" if missing else "int64", "float": "float64"}
        made[name] = pd.Series(cells, dtype=dtype.get(kind, None if kind == "text" else "object"))
    return pd.DataFrame(made)


def _polars(columns: Columns) -> Frame:
    import polars as pl

    dtypes = {
        "none": pl.Null, "bool": pl.Boolean, "int": pl.Int64, "float": pl.Float64, "text": pl.String,
        "object": pl.Object,
    }  # fmt: skip
    return pl.DataFrame(
        [
            pl.Series(name, _floats(cells) if kind == "float" else cells, dtype=dtypes[kind])
            for name, cells in columns.items()
            for kind in [_kind(cells)]
        ]
    )


def _arrow(columns: Columns) -> Frame:
    import pyarrow as pa

    types = {
        "none": pa.null(),
        "bool": pa.bool_(),
        "int": pa.int64(),
        "float": pa.float64(),
        "text": pa.string(),
        "object": pa.string(),
    }
    made = {}
    for name, cells in columns.items():
        kind = _kind(cells)
        if kind == "object":
            cells = [None if cell is None else encode(cell).decode() for cell in cells]
        made[name] = pa.array(_floats(cells) if kind == "float" else cells, types[kind])
    return pa.table(made)


def _floats(cells: Cells) -> Cells:
    return [None if cell is None else float(cell) for cell in cells]


_LIBRARIES: Final[Mapping[str, tuple[Callable[[Columns], Frame], str]]] = {
    "pandas": (_pandas, "frames"),
    "polars": (_polars, "polars"),
    "arrow": (_arrow, "arrow"),
}
"""For each library: the function that makes a frame, and the extra that installs it."""


def _installed() -> Library:
    for library in get_args(Library):
        if installed(_LIBRARIES[library][1]):
            return library  # type: ignore[no-any-return]
    hint = "install pandas: pip install 'actor-sim[frames]'"
    raise UsageError("a frame needs pandas or polars, and neither is installed", hint=hint)


# -- reading


def read_parquet(data: bytes, most_rows: int, most_cells: int) -> tuple[list[str], list[Any]]:
    """Return the names of the columns and the rows of a Parquet file, read by pyarrow or polars.

    Args:
        data: the content of the file.
        most_rows, most_cells: more are refused before they are unpacked.

    Raises:
        UsageError: if neither is installed, or the file cannot be read, or has more.
    """
    read = _by_arrow if installed("arrow") else _by_polars if installed("polars") else None
    if read is None:
        hint = "install one: pip install 'actor-sim[arrow]', or save the table as CSV"
        raise UsageError("Parquet needs the package pyarrow or polars, and neither is installed", hint=hint)

    def check(rows: int, columns: int) -> None:
        if rows > most_rows or rows * columns > most_cells:
            message = (
                f"the table has {rows} rows of {columns} columns; {most_rows} rows and {most_cells} cells are read"
            )
            raise UsageError(message, hint="keep what agents need")

    try:
        return read(data, check)
    except UsageError:
        raise
    except Exception as error:  # the libraries raise errors of many kinds for a file that is damaged
        what = " ".join(of_error(error).split())[:200]
        raise UsageError(f"it cannot be read as Parquet: {what}") from error


def _by_arrow(data: bytes, check: Callable[[int, int], None]) -> tuple[list[str], list[Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(pa.BufferReader(data))
    check(file.metadata.num_rows, file.metadata.num_columns)
    table = file.read()
    return list(table.column_names), list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _by_polars(data: bytes, check: Callable[[int, int], None]) -> tuple[list[str], list[Any]]:
    import polars as pl

    names = list(pl.read_parquet_schema(io.BytesIO(data)))
    check(int(pl.scan_parquet(io.BytesIO(data)).select(pl.len()).collect().item()), len(names))
    return names, pl.read_parquet(io.BytesIO(data)).rows()
