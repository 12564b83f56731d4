"""Tampering with the record of a run, at random: all of it is found, and what was done to the audit chain is named."""

import random
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sim.cli import main
from sim.record import open_run
from sim.record.audit_chain import AUDIT, TOPIC
from sim.record.schema import TABLES
from tests.record.test_audit_chain import Start, add, problem, rechained, rewrite, rows

pytestmark = pytest.mark.filterwarnings("ignore::sim.base.errors.RecordWarning")  # runs are damaged on purpose

RECORDS = 12
FILES = ("run.db", "run.head", AUDIT, "scenario.yaml")


@pytest.fixture
def intact(start: Start) -> Path:
    """A finished run with audit records."""
    recorder = start()
    made = rows(RECORDS)
    add(recorder, made)
    head = {"n": RECORDS, "hash": made[-1][7]["hash"]}
    recorder.finish("finished", {"services": {"audit": head}}, 10**11, {})
    return recorder.folder


def contents(run: Path) -> dict[str, list[Any]]:
    """Return all rows of a run, to tell whether a changed byte has changed anything."""
    with closing(sqlite3.connect(f"file:{run / 'run.db'}?mode=ro", uri=True)) as client:
        found = {table: client.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}  # noqa: S608 - constant
        # Without the indexes that SQLite names by itself, which have no definition.
        definitions = "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name"
        found["definitions"] = client.execute(definitions).fetchall()
        return found


def verified(run: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what `sim verify` says about a run; empty if it is intact."""
    with pytest.raises(SystemExit) as ended:
        main(["verify", str(run)])
    said = capsys.readouterr().err
    assert (ended.value.code == 0) == (said == ""), said
    assert "Traceback" not in said
    return said


def one_byte(run: Path, rng: random.Random) -> str:
    """Change one byte of one file, and return which."""
    file = run / rng.choice(FILES)
    data = bytearray(file.read_bytes())
    at = rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)
    file.write_bytes(data)
    return f"byte {at} of {file.name}"


def flip_bytes(intact: Path, work: Path, count: int, capsys: pytest.CaptureFixture[str]) -> tuple[int, int]:
    """Flip a bit in copies of a run; return how many flips were found, and how many changed nothing that is kept."""
    before = contents(intact)
    found = harmless = 0
    for number in range(count):
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(intact, work)
        where = one_byte(work, random.Random(f"byte {number}"))
        if verified(work, capsys):
            found += 1
        else:  # a page that is not used, or a number of SQLite's own
            assert where.endswith("run.db"), where
            assert contents(work) == before, where
            harmless += 1
    return found, harmless


Rows = list[list[Any]]
Change = Callable[[Rows, list[int], random.Random], int]


def _value(events: Rows, places: list[int], rng: random.Random) -> int:
    at = rng.randrange(len(places))
    record = events[places[at]][7]
    record["data"] = rng.choice([{}, {**record["data"], "amount": -1}, None, {**record["data"], "tool": "shop.pay"}])
    return at + 1


def _other(events: Rows, places: list[int], rng: random.Random) -> int:
    at = rng.randrange(len(places))
    if rng.random() < 0.5:
        events[places[at]][5] = "somebody"
    else:
        events[places[at]][7]["what"] = "tool.denied"
    return at + 1


def _digit(events: Rows, places: list[int], rng: random.Random) -> int:
    at, key = rng.randrange(len(places)), rng.choice(["hash", "previous"])
    text = events[places[at]][7][key]
    spot = rng.randrange(64)
    new = rng.choice([digit for digit in "0123456789abcdef" if digit != text[spot]])
    events[places[at]][7][key] = text[:spot] + new + text[spot + 1 :]
    return at + 1


def _drop(events: Rows, places: list[int], rng: random.Random) -> int:
    at = rng.randrange(len(places))
    del events[places[at]]
    return at + 1


def _swap(events: Rows, places: list[int], rng: random.Random) -> int:
    one, other = sorted(rng.sample(range(len(places)), 2))
    first, second = events[places[one]], events[places[other]]
    first[7], second[7] = second[7], first[7]
    return one + 1


def _cut(events: Rows, places: list[int], rng: random.Random) -> int:
    at = rng.randrange(len(places))
    del events[places[at] :]
    return at + 1


def _insert(events: Rows, places: list[int], rng: random.Random) -> int:
    at = rng.randrange(len(places))
    copy = [*events[places[at]][:7], dict(events[places[at]][7]), [3, 0]]
    events.insert(places[at] + 1, copy)
    return at + 2


def _append(events: Rows, places: list[int], rng: random.Random) -> int:
    events.extend(rows(rng.randrange(1, 3), since=len(places), previous=events[places[-1]][7]["hash"]))
    return len(places) + 1


CHANGES: tuple[Change, ...] = (_value, _other, _digit, _drop, _swap, _cut, _insert, _append)
CHAIN_MENDED: tuple[Change, ...] = (_value, _other, _drop, _cut, _insert, _append)


def tamper(intact: Path, work: Path, number: int) -> None:
    """Change a copy of a run at random, make all hashes of the database fit, and check what is said of it."""
    rng = random.Random(f"tamper {number}")
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(intact, work)
    mended = rng.random() < 0.4
    change = rng.choice(CHAIN_MENDED if mended else CHANGES)
    bad = 0

    def changed(events: Rows) -> Rows:
        nonlocal bad
        places = [at for at, row in enumerate(events) if row[6] == TOPIC]
        bad = change(events, places, rng)
        return rechained(events) if mended else events

    rewrite(work, changed)
    said = problem(work)
    assert said is not None, (number, change)
    named = re.search(r"audit record (\d+)", said)
    assert named is not None, (number, change, said)
    assert int(named[1]) == bad, (number, change, mended, said)


@pytest.mark.slow
def test_some_tampering(intact: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Changed bytes are found, and of changed audit records the first bad one is named; a sample."""
    for number in range(40):
        tamper(intact, tmp_path / "work", number)
    found, harmless = flip_bytes(intact, tmp_path / "work", 40, capsys)
    assert found > harmless
    assert problem(intact) is None
    assert verified(intact, capsys) == ""


@pytest.mark.proof
@pytest.mark.timeout(1800)
def test_tampering_with_the_chain_is_found(intact: Path, tmp_path: Path) -> None:
    """Of 1,000 changes by somebody who makes all hashes of the database fit, all are found and rightly named."""
    for number in range(1000):
        tamper(intact, tmp_path / "work", number)


@pytest.mark.proof
@pytest.mark.timeout(1800)
def test_changed_bytes_are_found(intact: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of 1,000 changed bits, all are found that change anything at all; the others leave every row as it was."""
    found, harmless = flip_bytes(intact, tmp_path / "work", 1000, capsys)
    assert found + harmless == 1000
    with open_run(intact) as run:
        run.verify()
