"""Lists of combinations: from a CSV or JSON Lines file, a DataFrame, or mappings."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final

from sim.base.errors import UsageError
from sim.experiments.csv_files import read_csv, text_of
from sim.experiments.designs import MOST_POINTS
from sim.experiments.points import Point
from sim.scenario.overrides import value_text

MOST_BYTES: Final = 50_000_000
"""The largest file of combinations."""

_HINT: Final = "a CSV file has the keys in its first line; a JSON Lines file has an object with them in each line"


def listed(source: Any) -> tuple[Point, ...]:
    """Return the combinations of a list.

    Args:
        source: a CSV or JSON Lines file, a DataFrame of pandas or polars with a column for each key, or mappings.

    Raises:
        UsageError: if it has no combinations, or one has other keys than the first, no value, or is there twice.
    """
    if isinstance(source, str | PathLike):
        rows, where = _read(Path(source)), str(source)
    else:
        rows, where = [(number, row) for number, row in enumerate(_records(source), 1)], "points"
    if not rows:
        raise UsageError(f"{where} has no combinations", hint=_HINT)
    if len(rows) > MOST_POINTS:
        raise UsageError(f"{where} has {len(rows):,} combinations; the limit is {MOST_POINTS:,}")
    first, seen = list(rows[0][1]), dict[tuple[str, ...], int]()
    _check_keys(first, where)
    for number, row in rows:
        at = f"{where}, line {number}" if where != "points" else f"combination {number}"
        if (missing := [key for key in first if key not in row]) or len(row) != len(first):
            key = missing[0] if missing else next(key for key in row if key not in first)
            raise UsageError(f"{at}: {'there is no' if missing else 'only this line has'} {key!r:.60}", hint=_HINT)
        for key, text in row.items():
            if not text:
                raise UsageError(f"{at}: {key} has no value", hint="write null for none, or quotes for an empty text")
        if (before := seen.setdefault(tuple(row[key] for key in first), number)) != number:
            raise UsageError(f"{at}: this combination is that of line {before}", hint="leave one of them out")
    return tuple({key: row[key] for key in first} for _, row in rows)


def _check_keys(keys: Sequence[str], where: str) -> None:
    for key in keys:
        if not key or "=" in key or "," in key:
            raise UsageError(f"{where}: {key!r:.60} is no key of a scenario", hint=_HINT)
        if key == "seed":
            raise UsageError(f"{where} varies the seed: each combination is run with all seeds", hint="use --seeds")
    if not keys:
        raise UsageError(f"{where} has no keys", hint=_HINT)


def _records(source: Any) -> list[dict[str, str]]:
    """Return the rows of a DataFrame, or of mappings, with their values as texts."""
    if hasattr(source, "to_dicts"):
        source = source.to_dicts()
    elif hasattr(source, "to_dict"):
        source = source.to_dict(orient="records")
    if isinstance(source, Mapping) or not isinstance(source, Iterable):
        raise UsageError(f"points are a file, a DataFrame or a list of mappings, not {source!r:.60}")
    rows = list(source)
    if not all(isinstance(row, Mapping) for row in rows):
        raise UsageError("each of the points is a mapping, such as {key: value}")
    return [{str(key): _text(value) for key, value in row.items()} for row in rows]


def _text(value: Any) -> str:
    """Return a value as text; empty if there is none, as NaN in a DataFrame."""
    return "" if isinstance(value, float) and math.isnan(value) else value_text(value)


def _read(path: Path) -> list[tuple[int, dict[str, str]]]:
    """Return the lines of a file with their numbers, and the values as texts. A cell of a CSV file is read as a value
    after `--set`.

    Raises:
        UsageError: if it cannot be read.
    """
    text = text_of(path, MOST_BYTES)
    if path.suffix.lower() in (".jsonl", ".ndjson", ".json"):
        return _json_lines(path, text)
    keys, lines = read_csv(path, text, "key", _HINT)
    return [(number, dict(zip(keys, row, strict=True))) for number, row in lines]


def _json_lines(path: Path, text: str) -> list[tuple[int, dict[str, str]]]:
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise UsageError(f"{path}, line {number}: this is no JSON object", hint=_HINT)
        rows.append((number, {key: _text(value) for key, value in row.items()}))
    return rows
