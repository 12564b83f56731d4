"""Where the agents of a scenario come from that a table describes: a file beside it, or a program. And its record.

The tables that a run used are recorded with it, so that a replay needs neither the files nor the program.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from sim.base.errors import Problem, UsageError
from sim.base.expressions import did_you_mean
from sim.kernel.codec import decode_as, encode
from sim.record.files import POPULATIONS, SCENARIO
from sim.scenario.beside import bytes_beside, check_beside, suffix_of
from sim.scenario.population import MAX_AGENTS, Population
from sim.scenario.scopes import RESERVED
from sim.scenario.symbols import items
from sim.scenario.table_files import (
    FORMATS,
    KINDS,
    MAX_TABLE_BYTES,
    TableError,
    TableFile,
    cells_of,
    names_of_tables,
    read_table,
    table_again,
)
from sim.scenario.units import FieldError, shown
from sim.scenario.values import is_expression
from sim.scenario.yaml_tree import Map, Mark

_MAX_RECORD: Final = 10 * MAX_TABLE_BYTES
_OTHERS: Final = ("name", "place", "group", "persona", "balance", "start")
_OWN: Final = ("name", "place", "group", "persona")  # columns of these names mean this if nothing else is said
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_KIND: Final[Mapping[str, str | None]] = {
    "name": "any", "group": "text", "persona": "text", "place": "any", "balance": "number", "start": "number",
}  # fmt: skip
_ALL_OTHERS: Final = "*"

Tables = Mapping[str, TableFile]


@attrs.frozen
class Column:
    """What a column becomes.

    Attributes:
        to: `state.KEY`, or one of name, place, group, persona, balance and start; None: the column is left out.
        kind: the type of its cells; None: as most cells are.
    """

    to: str | None
    kind: str | None = None


def read_column(value: Any) -> Column:
    """Return what a scenario says of a column: `state.age`, `name`, null, or `{to: state.age, type: whole}`.

    Raises:
        FieldError: if it says nothing of the kind.
    """
    if isinstance(value, Column):
        return value
    kind = None
    if isinstance(value, dict):
        unknown = next((key for key in value if key not in ("to", "type")), None)
        if unknown is not None or not value:
            raise FieldError(f"expected `to` and `type` of a column, found {unknown or 'nothing'}")
        kind = value.get("type")
        if kind is not None and kind not in KINDS:
            hint = did_you_mean(str(kind), KINDS)
            raise FieldError(f"expected one of the types {', '.join(KINDS)}, found {shown(kind)}", hint)
        if "to" not in value:
            return Column("", kind)
        value = value["to"]
    if value is None:
        return Column(None, kind)
    if not isinstance(value, str) or not (value in _OTHERS or _KEY.fullmatch(value.removeprefix("state."))):
        targets = f"state.NAME, {', '.join(_OTHERS)} or null"
        raise FieldError(f"expected what the column becomes: {targets}, found {shown(value)}")
    if value not in _OTHERS and not value.startswith("state."):
        hint = did_you_mean(value, _OTHERS) or f"for a state variable: state.{value}"
        raise FieldError(f"expected {', '.join(_OTHERS)} or state.NAME, found {shown(value)}", hint)
    return Column(value, kind)


# -- loading


def load_tables(tree: Map, file: str, available: Tables) -> tuple[dict[str, TableFile], list[Problem]]:
    """Return the tables to which the entries of a scenario refer, by name, and what is wrong with them.

    Args:
        tree: the tree of the scenario file.
        file: the path of the scenario file, for paths that are relative to it.
        available: tables that were loaded before, or that a program gives.
    """
    tables: dict[str, TableFile] = {}
    problems: list[Problem] = []
    recorded: Tables | None = None
    for number, entry in enumerate(items(tree, "agents")):
        name = entry.get("table")
        if not isinstance(name, str) or name in tables or not isinstance(entry, Map):
            continue
        if name not in available and recorded is None:
            recorded = recorded_tables(Path(file))
        table = available.get(name) or (recorded or {}).get(name)
        try:
            tables[name] = _read(Path(file).parent, name) if table is None else table
        except TableError as error:
            problems.append(error.problem(name))
        except UsageError as error:
            problems.append(entry.values_at["table"].problem(f"agents[{number}].table: {error}", error.hint))
    return tables, problems


def _read(folder: Path, name: str) -> TableFile:
    check_beside(name)
    suffix = suffix_of(name, FORMATS)
    if suffix is None:
        hint = f"its name ends in {names_of_tables()}"
        raise UsageError(f"{name[:200]!r} has no known format", hint=hint)
    try:
        return read_table(bytes_beside(folder, name, MAX_TABLE_BYTES), suffix)
    except TableError:
        raise
    except UsageError as error:
        text = str(error)
        raise UsageError(text if name[:200] in text else f"{name[:200]}: {text}", hint=error.hint) from None


@attrs.frozen
class _Record:
    tables: dict[str, TableFile]


def record_of(tables: Tables) -> bytes | None:
    """Return tables as they are recorded with a run; None if there are none."""
    plain = {name: attrs.asdict(table, recurse=False) for name, table in tables.items()}
    return encode({"tables": plain}) if plain else None


def recorded_tables(file: Path) -> Tables:
    """Return the tables that are recorded beside the scenario of a run, by name; empty if there are none.

    Args:
        file: the path of the scenario.
    """
    path = file.with_name(POPULATIONS) if file.name == SCENARIO else None
    if path is None or not path.is_file() or path.stat().st_size > _MAX_RECORD:
        return {}
    try:
        tables = decode_as(path.read_bytes(), _Record).tables
        return {name: table_again(table) for name, table in tables.items()}
    except (ValueError, TableError):
        return {}  # it is another file of this name


# -- from a table to agents


def populations_of(tree: Map, tables: Tables) -> tuple[dict[str, Population], list[Problem]]:
    """Return the agents of the entries that have a table, by the name of the entry, and what is wrong with them."""
    populations: dict[str, Population] = {}
    problems: list[Problem] = []
    for number, entry in enumerate(items(tree, "agents")):
        name, table = entry.get("name"), entry.get("table")
        if not isinstance(name, str) or not isinstance(table, str) or table not in tables:
            continue
        if isinstance(entry, Map) and name not in populations:
            reader = _Reader(entry, f"agents[{number}]", table, tables[table])
            population = reader.population(name)
            problems += reader.problems
            if population is not None:
                populations[name] = population
    return populations, problems


class _Reader:
    """Reads the agents of one entry from its table, and collects what is wrong.

    Args:
        entry: the entry.
        where: what errors call it.
        name: the name of the table.
        table: the table.
    """

    def __init__(self, entry: Map, where: str, name: str, table: TableFile) -> None:
        self.problems: list[Problem] = []
        self._entry = entry
        self._where = where
        self._name = name
        self._table = table

    def population(self, name: str) -> Population | None:
        """Return the agents; None if something is wrong."""
        columns = self._columns()
        self._check_targets(columns)
        weights = self._weights()
        if self.problems:
            return None
        cells = {to: made for to, column in columns.items() if (made := self._cells(column, to)) is not None}
        sample, replace = self._entry.get("sample"), self._entry.get("replace")
        drawn = sample if isinstance(sample, int) and not isinstance(sample, bool) else None
        names = self._names(name, columns.get("name"), cells.pop("name", None))
        self._check_groups(columns.get("group"), cells.get("group"))
        again = bool(replace) if isinstance(replace, bool) else weights is not None
        self._check_sample(drawn, weights, again=again, named=names is not None)
        if self.problems:
            return None
        states = {to.removeprefix("state."): tuple(one) for to, one in cells.items() if to.startswith("state.")}
        others = {to: tuple(one) for to, one in cells.items() if not to.startswith("state.")}
        return Population(
            entry=name,
            names=names,
            states=states,
            others=others,
            rows=len(self._table.rows),
            sample=drawn,
            weights=weights,
            replace=again,
        )

    def _at(self, key: str) -> Mark:
        return self._entry.values_at[key]

    def _problem(self, key: str, message: str, hint: str | None = None) -> None:
        self.problems.append(self._at(key).problem(f"{self._where}.{key}: {message}", hint))

    def _cell_problem(self, row: int, column: str, message: str, hint: str | None = None) -> None:
        place = self._table.columns.index(column)
        text = f"row {row + 1}, column {column[:80]!r}: {message}"
        self.problems.append(Problem(self._name, self._table.lines[row], place + 1, text, hint))

    def _columns(self) -> dict[str, tuple[str, str | None]]:
        """Return what the columns become: by target, the name of the column and the type that is declared for it."""
        columns = self._entry.get("columns")
        declared: dict[str, Column] = {}
        written = columns if isinstance(columns, Map) else Map(self._entry.mark)
        for key, value in written.items():
            if key != _ALL_OTHERS and key not in self._table.columns:
                hint = did_you_mean(key, self._table.columns) or f"it has {', '.join(self._table.columns)[:200]}"
                mark = written.keys_at[key]
                self.problems.append(
                    mark.problem(f"{self._where}.columns.{key}: {self._name} has no column {key!r}", hint)
                )
                continue
            try:
                declared[key] = read_column(value)
            except FieldError:
                return {}  # the check of the file reports it
        rest = declared.pop(_ALL_OTHERS, None)
        by_target: dict[str, tuple[str, str | None]] = {}
        for column in self._table.columns:
            said = declared.get(column)
            if said is None and (rest is not None or column == self._entry.get("weights")):
                continue
            to = said.to if said is not None and said.to != "" else column if column in _OWN else f"state.{column}"
            if to is None:
                continue
            if to in by_target:
                self._problem(
                    "table",
                    f"the columns {by_target[to][0]!r} and {column!r} both become {to}",
                    f"leave one out: `columns: {{{column}: null}}`",
                )
            by_target[to] = (column, None if said is None else said.kind)
        return by_target

    def _check_targets(self, columns: Mapping[str, tuple[str, str | None]]) -> None:
        for to, (column, _) in columns.items():
            key = to.removeprefix("state.")
            if to != key and (not _KEY.fullmatch(key) or key in RESERVED):
                why = "is reserved in expressions" if key in RESERVED else "cannot be the name of a state variable"
                example = "year" if key in RESERVED else re.sub(r"\W+", "_", key).strip("_").lower() or "value"
                hint = f"say what it becomes: `columns: {{{column!r}: state.{example}}}`, or null to leave it out"
                self._problem("table", f"the column {column!r} of {self._name} {why}", hint)

    def _cells(self, column: tuple[str, str | None], to: str) -> list[Any] | None:
        name, kind = column
        wanted = kind or (_KIND[to] if to in _KIND else self._kind_of_state(to.removeprefix("state.")))
        try:
            return cells_of(self._table, name, wanted)
        except TableError as error:
            self.problems.append(error.problem(self._name))
            return None

    def _kind_of_state(self, key: str) -> str | None:
        """Return the type of a column from the value that the entry has for its state variable."""
        state = self._entry.get("state")
        value = state.get(key) if isinstance(state, dict) else None
        if value is None or is_expression(value):
            return None
        kinds = {bool: "flag", int: "whole", float: "number", str: "text"}
        return kinds.get(type(value), "any")

    def _names(
        self, entry: str, column: tuple[str, str | None] | None, cells: list[Any] | None
    ) -> tuple[str, ...] | None:
        """Return the names of the rows: their texts, or the entry with their numbers."""
        if column is None or cells is None:
            return None
        names: dict[str, int] = {}
        for row, cell in enumerate(cells):
            whole = isinstance(cell, int) and not isinstance(cell, bool) and cell >= 0
            name = f"{entry}-{cell}" if whole else cell
            if name is None:
                self._cell_problem(row, column[0], "expected a name, found nothing")
            elif not isinstance(name, str) or not _NAME.fullmatch(name):
                hint = (
                    "a name has small letters, digits, - and _, begins with a letter, and has at most 64 characters;"
                    f" or number the agents: `columns: {{{column[0]}: state.{column[0]}}}`"
                )
                self._cell_problem(row, column[0], f"expected a name, found {shown(cell)}", hint)
            elif name in names:
                message = f"the name {name!r} is taken by row {names[name] + 1}"
                self._cell_problem(row, column[0], message, "each row needs a name of its own")
            else:
                names[name] = row
                continue
            return None  # one such row is enough
        return tuple(names)

    def _check_groups(self, column: tuple[str, str | None] | None, cells: list[Any] | None) -> None:
        for row, group in enumerate(cells or ()):
            if column is not None and group is not None and not _NAME.fullmatch(group):
                hint = "a group has small letters, digits, - and _, and begins with a letter"
                self._cell_problem(row, column[0], f"expected the name of a group, found {shown(group)}", hint)
                return

    def _weights(self) -> tuple[float, ...] | None:
        name = self._entry.get("weights")
        if not isinstance(name, str):
            return None
        if name not in self._table.columns:
            self._problem("weights", f"{self._name} has no column {name!r}", did_you_mean(name, self._table.columns))
            return None
        try:
            cells = cells_of(self._table, name, "number")
        except TableError as error:
            self.problems.append(error.problem(self._name))
            return None
        for row, weight in enumerate(cells):
            if weight is None or weight < 0:
                text = "nothing" if weight is None else f"{weight:g}"
                self._cell_problem(row, name, f"expected a weight of at least 0, found {text}")
                return None
        if not any(cells):
            self._problem("weights", f"all weights in the column {name!r} are 0")
            return None
        return tuple(cells)

    def _check_sample(self, sample: int | None, weights: tuple[float, ...] | None, *, again: bool, named: bool) -> None:
        rows = len(self._table.rows)
        if sample is None:
            if rows > MAX_AGENTS:
                self._problem(
                    "table",
                    f"the table has {rows} rows, at most {MAX_AGENTS} agents are allowed",
                    "draw some of them: `sample: 1000`",
                )
            return
        if again and named:
            self._problem(
                "sample",
                "a row can be drawn several times, so its name is not that of one agent",
                "number the agents by leaving out the name, or add `replace: false`",
            )
        able = sum(weight > 0 for weight in weights) if weights is not None else rows
        if not again and sample > able:
            hint = "`replace: true` draws rows several times"
            self._problem("sample", f"the table has {able} rows to draw from, and {sample} are wanted", hint)
