"""Edits a run file as somebody would who knows how its hashes are made: what is read must be checked all the same."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sim.record.head import Head, create_head, read_unsafe, unsafe_size
from sim.record.seal import FACTS, RUN_COLUMNS, Seal, commit_hash, run_row_hash


def change(folder: Path, *statements: str, parameters: tuple[Any, ...] = ()) -> None:
    """Run statements on the database of a run, then bring its seal, the hash of its row and its head up to date."""
    with closing(sqlite3.connect(folder / "run.db", isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement, parameters)
        reseal(folder, connection)


def reseal(folder: Path, connection: sqlite3.Connection) -> None:
    """Make the hashes of a run fit what it holds."""
    seal = Seal()
    for kind, select in FACTS.items():
        for fact in connection.execute(select):
            seal.add(kind, *fact)
    row = connection.execute(f"SELECT {', '.join(RUN_COLUMNS)} FROM run").fetchone()  # noqa: S608 - constant
    run_hash = run_row_hash(row)
    (number,) = connection.execute("SELECT number FROM commits").fetchone()
    whole = commit_hash(number, seal.text, run_hash)
    connection.execute("UPDATE commits SET seal = ?, run_hash = ?, hash = ?", (seal.text, run_hash, whole))
    (effects,) = connection.execute("SELECT count(*) FROM effects").fetchone()
    (folder / "run.head").unlink(missing_ok=True)
    assert read_unsafe(folder)[1] is None
    create_head(folder, Head(row[RUN_COLUMNS.index("uid")], number, whole, effects, unsafe_size(folder)))
