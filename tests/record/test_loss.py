"""Records that were acknowledged and are gone are missed, whatever took them; what is whole raises no alarm."""

import os
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sim.base.errors import RunError, SimError
from sim.kernel.codec import encode
from sim.kernel.effects import hash_request
from sim.kernel.rows import ClosedRow, InputRow, IntentRow, ResultRow
from sim.record import RunHeader, RunRecorder, create_run, list_runs, open_run
from sim.record.head import read_head
from sim.record.schema import TABLES
from tests.helpers import wait_until_durable

pytestmark = pytest.mark.filterwarnings("ignore::sim.base.errors.RecordWarning")  # runs are damaged on purpose

EFFECTS = 40


def _intent(number: int, request: dict[str, Any], latency: str) -> Any:
    return IntentRow._make(
        ("a", number, "pay", hash_request("pay", encode(request)), request, latency, "unsafe", number)
    )


def _effect(recorder: RunRecorder, number: int) -> None:
    recorder.intent(_intent(number, {"n": number}, "modelled"))
    wait_until_durable(recorder)


def record(root: Path, uid: str = "town") -> Path:
    """Record unsafe effects, each in a commit of its own, and return a copy of what a kill leaves then."""
    folder = create_run(root / "runs", RunHeader(uid, 7, "autonomous", "asyncio"), "name: town\n")
    with RunRecorder(folder) as recorder:
        for number in range(1, EFFECTS + 1):
            _effect(recorder, number)
        copy = root / "killed" / folder.name
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*-shm"))
    return copy


@pytest.fixture
def killed(tmp_path):
    """What a kill left of a run with unsafe effects: its last records are in the log."""
    return record(tmp_path)


def lost_of(folder: Path) -> str | None:
    """Say what a run has lost."""
    with open_run(folder, verify=False) as run:
        return run.info.lost


def damage(log: Path, how: str) -> None:
    """Damage a log somewhere in the middle."""
    data = bytearray(log.read_bytes())
    middle = len(data) // 2
    match how:
        case "bit":
            data[middle] ^= 1
        case "cut":
            del data[middle:]
        case "zeros":
            data[middle:] = bytes(len(data) - middle)
        case "empty":
            data.clear()
        case _:
            pass
    log.write_bytes(data)
    if how == "removed":
        log.unlink()


def test_what_a_kill_leaves_is_whole(killed):
    """A killed run has lost nothing: all that was acknowledged is there."""
    with open_run(killed) as run:
        assert (run.info.status, run.info.lost) == ("killed", None)
        assert run.integrity.problems == ()
        assert run.unsafe_lost() == []


@pytest.mark.parametrize("how", ["bit", "cut", "zeros", "empty", "removed"])
def test_a_damaged_log_is_missed(killed, how):
    """SQLite drops the frames behind the damage and reports nothing; the run says which commits are gone, and
    names every unsafe effect that may have been done.
    """
    head = read_head(killed).head  # names the last commit; how many there are depends on how the thread took the jobs
    assert head is not None
    damage(killed / "run.db-wal", how)

    lost = lost_of(killed)

    assert lost is not None
    assert f"to {head.commit} are missing" in lost
    with open_run(killed) as run:
        ((kept,),) = run.query("SELECT count(*) FROM effects")
        assert [effect.ordinal for effect in run.unsafe_lost()] == list(range(kept + 1, EFFECTS + 1))
        assert kept < EFFECTS


def test_ids_of_lost_effects_are_not_used_again(killed):
    """A decision names an effect by its id, so an effect that begins after a loss gets an id that was never used."""
    damage(killed / "run.db-wal", "cut")

    with RunRecorder(killed, resumed=True) as recorder:
        _effect(recorder, EFFECTS + 1)

    with open_run(killed, verify=False) as run:
        assert run.query("SELECT id FROM effects WHERE ordinal > ?", (EFFECTS,)) == [(EFFECTS + 1,)]
        assert max(effect.id for effect in run.unsafe_lost()) == EFFECTS


def test_a_log_of_another_run_is_missed(killed, tmp_path):
    """The log of another run lays that run's pages over the database: it is named."""
    other = record(tmp_path / "other")
    shutil.copy(other / "run.db-wal", killed / "run.db-wal")

    with pytest.raises(RunError, match=rf"run\.head belongs to run {killed.name}, and run\.db to run {other.name}"):
        open_run(killed)


def test_a_database_of_another_run_is_refused(killed, tmp_path):
    """A run.db that belongs to another run is named as that."""
    other = record(tmp_path / "other", "village")
    for name in ("run.db", "run.db-wal"):
        shutil.copy(other / name, killed / name)

    with pytest.raises(RunError, match=r"run\.head belongs to run town-7-.*, and run\.db to run village-7-"):
        open_run(killed)


def test_a_log_that_another_program_folded_in_is_no_loss(killed):
    """Any SQLite client may fold the log into the file: nothing is gone then, and no alarm is raised."""
    with closing(sqlite3.connect(killed / "run.db", isolation_level=None)) as client:
        client.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert not (killed / "run.db-wal").exists()

    with open_run(killed) as run:
        assert run.info.lost is None
        assert run.unsafe_lost() == []


@pytest.mark.parametrize("slot", [0, 1])
def test_one_damaged_copy_of_the_head_is_bridged_or_said(killed, slot):
    """The head has two copies, written in turn: with the older one damaged the newer one tells; with the newer one
    damaged it is not known whether the last commit is there, and that is said.
    """
    data = bytearray((killed / "run.head").read_bytes())
    data[slot * 512 + 50] ^= 4
    (killed / "run.head").write_bytes(data)
    newest = (EFFECTS + 1) % 2

    with open_run(killed) as run:
        assert "run.head is damaged" in "".join(run.integrity.problems)
        assert run.info.lost is None if slot == newest else "is not known" in (run.info.lost or "")


@pytest.mark.parametrize("content", [b"", b"x" * 1024, b"\0" * 1024, b"{}"])
def test_a_head_that_is_no_head_is_said(killed, content):
    """Without a head it is not known whether records are gone; the run can be read, and says so."""
    (killed / "run.head").write_bytes(content)

    assert "run.head is damaged, so it is not known whether its last records are missing" in (lost_of(killed) or "")


def test_a_head_that_is_too_old_is_refused(killed, tmp_path):
    """A head of an earlier commit cannot vouch for the database: it is named with both numbers."""
    older = create_run(tmp_path / "runs", RunHeader("town", 7, "autonomous", "asyncio"), "name: town\n")
    before = (older / "run.head").read_bytes()
    with RunRecorder(older) as recorder:
        for number in range(1, 6):
            _effect(recorder, number)
    (older / "run.head").write_bytes(before)

    with pytest.raises(RunError, match=r"run\.head names commit 0 as the last, and run\.db has 7"):
        open_run(older)


@pytest.mark.parametrize("how", ["cut", "changed", "removed"])
def test_a_damaged_list_of_unsafe_effects_is_named(killed, how):
    """If run.unsafe is not whole, the run says so instead of believing that nothing was begun."""
    path = killed / "run.unsafe"
    data = path.read_bytes()
    path.write_bytes(data[:-300] if how == "cut" else data.replace(b'"pay"', b'"pax"', 1))
    if how == "removed":
        path.unlink()

    with (
        open_run(killed, verify=False) as run,
        pytest.raises(RunError, match=r"run\.unsafe is (missing or cut|damaged)"),
    ):
        run.unsafe_lost()


def test_a_hot_journal_is_rolled_back(killed):
    """A journal that another program left behind is rolled back under the lock of the run; then the run opens."""
    path = killed / "run.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as client:
        client.execute("PRAGMA journal_mode = DELETE")
    shutil.copy(path, killed / "before")
    hot = killed.parent / "hot.db"
    shutil.copy(path, hot)
    with closing(sqlite3.connect(hot, isolation_level=None)) as client:
        client.execute("PRAGMA cache_size = 1")
        client.execute("BEGIN")
        client.execute("UPDATE effects SET kind = 'other'")
        client.execute("CREATE TABLE filler AS SELECT randomblob(100000) AS x FROM effects")
        shutil.copy(hot, path)
        shutil.copy(f"{hot}-journal", killed / "run.db-journal")

    with open_run(killed) as run:
        assert run.query("SELECT DISTINCT kind FROM effects") == [("pay",)]


def test_drafts_of_killed_creations_are_removed(tmp_path, monkeypatch):
    """What a killed creation left is removed when the next run is made; one that is being made stays."""
    header = RunHeader("town", 7, "autonomous", "asyncio")
    root = tmp_path / "runs"
    made = create_run(root, header, "name: town\n")
    dead, live = root / ".town-7-00000001", root / ".town-7-00000002"
    shutil.copytree(made, dead)
    shutil.copytree(made, live)
    lockless = root / ".town-7-00000003"
    lockless.mkdir()
    os.utime(lockless, (0, 0))
    (root / ".mine").mkdir()

    import fcntl  # only where there are such locks

    with (live / "run.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        create_run(root, header, "name: town\n")

    hidden = {path.name for path in root.iterdir() if path.name.startswith(".")}
    assert hidden == {".mine", live.name}
    assert len(list_runs(root)) == 2


@pytest.mark.parametrize("how", ["removed", "replaced", "database", "truncated", "head"])
def test_a_folder_that_is_taken_away_fails_the_run(tmp_path, how):
    """A run whose files are removed, replaced or cut while it is under way fails, and says what is left."""
    folder = create_run(tmp_path / "runs", RunHeader("town", 7, "autonomous", "asyncio"), "name: town\n")
    recorder = RunRecorder(folder)
    _effect(recorder, 1)
    match how:
        case "removed":
            shutil.rmtree(folder)
        case "replaced":
            folder.rename(folder.with_name("elsewhere"))
            shutil.copytree(folder.with_name("elsewhere"), folder)
        case "database":
            (folder / "run.db").unlink()
        case "truncated":
            os.truncate(folder / "run.db", 16384)
            os.truncate(folder / "run.db-wal", 0)
        case "head":
            (folder / "run.head").unlink()
        case _:
            raise AssertionError(how)

    with pytest.raises(RunError, match=r"was removed|removed or replaced|not what was written|cannot be used"):
        _to_the_end(recorder)


def _to_the_end(recorder: RunRecorder) -> None:
    for number in range(2, 5):
        _effect(recorder, number)
    recorder.finish("finished", {}, 5, {})


def _tamper(folder: Path, rng: random.Random) -> str:
    """Edit, remove, add or exchange something in a random row of a random table, and say what was done."""
    with closing(sqlite3.connect(folder / "run.db", isolation_level=None)) as client:
        client.execute("PRAGMA foreign_keys = OFF")
        client.execute("PRAGMA ignore_check_constraints = ON")
        tables = [name for name in TABLES if client.execute(f"SELECT count(*) FROM {name}").fetchone()[0]]  # noqa: S608 - ours
        table = rng.choice(tables)
        columns = [row[1] for row in client.execute(f"PRAGMA table_info({table})") if row[1] != "sim_seconds"]
        ids = [row[0] for row in client.execute(f"SELECT id FROM {table}")]  # noqa: S608 - ours
        id, column, how = rng.choice(ids), rng.choice(columns), rng.choice(["edit", "edit", "remove", "add"])
        said = f"{how} {table}.{column} of {id}"
        before = list(client.execute(f"SELECT * FROM {table} ORDER BY id"))  # noqa: S608 - ours
        try:
            if how == "edit":
                ((old,),) = client.execute(f"SELECT {column} FROM {table} WHERE id = ?", (id,))  # noqa: S608 - ours
                new = old + 1 if isinstance(old, int) else f"{old or ''}x"
                client.execute(f"UPDATE {table} SET {column} = ? WHERE id = ?", (new, id))  # noqa: S608 - ours
            elif how == "remove":
                client.execute(f"DELETE FROM {table} WHERE id = ?", (id,))  # noqa: S608 - ours
            else:
                names = ", ".join(columns[1:])
                client.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM {table} WHERE id = ?", (id,))  # noqa: S608 - ours
        except sqlite3.Error:
            return ""  # SQLite itself refuses it
        same = before == list(client.execute(f"SELECT * FROM {table} ORDER BY id"))  # noqa: S608 - ours
        return "" if same else said


def _is_found(folder: Path) -> bool:
    try:
        open_run(folder).close()
    except SimError:
        return True
    return False


def _tampers(root: Path, count: int, seed: str) -> int:
    """Tamper with copies of one run so often; every tamper must be found."""
    folder = create_run(root / "runs", RunHeader("town", 7, "autonomous", "asyncio"), "name: town\n")
    with RunRecorder(folder) as recorder:
        for number in range(1, 8):
            recorder.event((number, 0, 0, 3, number, "a", "t", {"text": "x" * 50, "n": number}, (3, number)))
            recorder.intent(_intent(number, {"n": number, "long": "y" * 300}, "measured"))
            recorder.result(ResultRow("a", number, "ok", {"paid": number}, 1, (number, 0)))
            recorder.closed(ClosedRow("a", number, "delivered", number, 0))
            recorder.input(InputRow(number, 1, "note", {"n": number}))
        wait_until_durable(recorder)
        recorder.finish("interrupted", {"a": 1}, 9, {"note": "x"})
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    rng = random.Random(seed)
    found = 0
    while found < count:
        for name, data in whole.items():
            (folder / name).write_bytes(data)
        if not (said := _tamper(folder, rng)):
            continue
        assert _is_found(folder), said
        found += 1
    return found


@pytest.mark.slow
def test_every_tamper_is_found(tmp_path):
    """Whatever is edited, removed or added by hand in whatever row, reading the run finds it."""
    assert _tampers(tmp_path, 60, "few") == 60


@pytest.mark.proof
@pytest.mark.timeout(3600)  # ten thousand take about ten minutes
def test_ten_thousand_tampers_are_found(tmp_path):
    """The same ten thousand times with `SIM_CAMPAIGN=whole`, otherwise a thousand times."""
    count = 10_000 if os.environ.get("SIM_CAMPAIGN") == "whole" else 1_000
    assert _tampers(tmp_path, count, "many") == count
