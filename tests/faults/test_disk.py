"""Disks that lie, lock or fill up: with the real SQLite, real locks and a real fsync that fails."""

import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from sim.base.errors import RunError
from sim.record import RunHeader, RunRecorder, create_run, open_run
from tests.helpers import wait_until_durable
from tests.proof.bench import Bench, Kill
from tests.proof.conftest import service as service
from tests.proof.test_disk import tiny_disk

MIB = 2**20


def begin(folder: Path) -> RunRecorder:
    """Return the recorder of a new run."""
    return RunRecorder(create_run(folder, RunHeader("town", 7, "autonomous", "asyncio"), "name: town\n"))


def record(recorder: RunRecorder, first: int, count: int) -> None:
    """Record so many events."""
    for number in range(first, first + count):
        recorder.event((number, 0, 0, 3, number, "a1", "step.made", {"number": number, "text": "x" * 40}, (3, number)))


@contextmanager
def locked(folder: Path) -> Iterator[sqlite3.Connection]:
    """Hold the lock of a run's database for writing, as another program would."""
    with closing(sqlite3.connect(folder / "run.db", isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


@pytest.mark.proof
def test_another_program_holds_the_lock_for_three_seconds(tmp_path: Path):
    """The writer waits for a lock of the database that another program holds for 3 s; nothing is lost."""
    with begin(tmp_path) as recorder:
        with locked(recorder.folder) as other:
            timer = threading.Timer(3.0, other.rollback)
            timer.start()
            record(recorder, 0, 100)
            recorder.flush()
            wait_until_durable(recorder)
            timer.join()
        recorder.finish("finished", {}, 100, {})
    with open_run(recorder.folder) as run:
        assert sum(1 for _ in run.events()) == 100


@pytest.mark.proof
def test_another_program_never_gives_the_lock_back(tmp_path: Path):
    """A lock that is held for longer than the writer waits ends the run with one sentence, and leaves it readable."""
    recorder = begin(tmp_path)
    with locked(recorder.folder):
        record(recorder, 0, 100)
        recorder.flush()
        with pytest.raises(RunError, match="another program has locked it"):
            wait_until_durable(recorder)
        with pytest.raises(RunError, match="another program has locked it"):
            recorder.close()
    with open_run(recorder.folder) as run:
        assert list(run.events()) == []


@pytest.mark.slow
def test_a_reader_that_is_held_open(tmp_path: Path):
    """While a reader keeps its view of the run during 100,000 events, the log grows with what is recorded, and no more;
    the reader sees its old state, and when it has gone the log is folded in.
    """
    recorder = begin(tmp_path)
    record(recorder, 0, 10)
    recorder.flush()
    wait_until_durable(recorder)
    log = recorder.folder / "run.db-wal"
    with closing(sqlite3.connect(recorder.folder / "run.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        before = reader.execute("SELECT sum(count) FROM chunks").fetchone()
        for first in range(10, 100_010, 10_000):
            record(recorder, first, 10_000)
            recorder.flush()
            wait_until_durable(recorder)
        assert reader.execute("SELECT sum(count) FROM chunks").fetchone() == before
        stored = log.stat().st_size
    recorder.finish("finished", {}, 100_010, {})
    recorder.close()
    whole = (recorder.folder / "run.db").stat().st_size
    assert stored < 2 * whole < 64 * MIB
    assert not log.exists()
    with open_run(recorder.folder) as run:
        assert sum(1 for _ in run.events()) == 100_010


SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
static int count;
static int fails(void) {
    const char *nth = getenv("FAIL_SYNC"), *kind = getenv("FAIL_ERRNO");
    if (!nth || __sync_add_and_fetch(&count, 1) != atoi(nth)) return 0;
    errno = kind ? atoi(kind) : EIO;
    return 1;
}
int fsync(int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
    return fails() ? -1 : real(fd);
}
int fdatasync(int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");
    return fails() ? -1 : real(fd);
}
"""


@pytest.fixture
def shim(tmp_path: Path) -> Path:
    """A library whose fsync fails once, at the call that FAIL_SYNC says."""
    source, library = tmp_path / "shim.c", tmp_path / "shim.so"
    source.write_text(SHIM)
    if sys.platform != "linux" or shutil.which("cc") is None:
        pytest.skip("it needs Linux and a C compiler")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return library


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_fsync_reports_an_error(tmp_path: Path, service, shim, monkeypatch):
    """When an fsync fails it is not tried again: the run ends with one sentence or has its end on record, nothing that
    was acknowledged is missing, and resume comes to the same end.
    """
    bench = Bench(tmp_path / "work", service, "asyncio", mode="autonomous")
    reference = bench.reference()
    failed = 0
    for number in (30, 60, 90, 120):
        bench.fresh()
        with monkeypatch.context() as patch:
            patch.setenv("LD_PRELOAD", str(shim))
            patch.setenv("FAIL_SYNC", str(number))
            ended = bench.call("run", "proof.yaml")
        if ended.code == 0:
            continue
        assert ended.code == 1
        assert "the disk reports an error" in ended.error
        if not any(path.name[0] != "." for path in (bench.folder / "runs").iterdir()):
            continue  # there was no run yet
        failed += 1
        known, before = bench.record().known, len(service.calls)
        resumed = bench.call("resume", bench.run)
        assert resumed.code == 0, resumed.err
        assert resumed.result["hash"] == reference
        assert not [call for call in service.calls[before:] if (call.agent, call.ordinal) in known]
    assert failed >= 2


@pytest.mark.proof
@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("mount") is None, reason="there is no mount here")
def test_a_disk_that_became_read_only(tmp_path: Path, service):
    """A killed run on a disk that is read-only is not resumed, in one sentence; when it can be written again, it is."""
    bench = Bench(tmp_path / "work", service, "asyncio", mode="autonomous")
    reference = bench.reference()
    bench.fresh()
    with tiny_disk(bench.folder / "runs", "64m") as disk:
        bench.end(Kill("effect.done", 60), "run", "proof.yaml")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        refused = bench.call("resume", bench.run)
        assert refused.code == 1
        assert "cannot be used" in refused.error
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        ended = bench.call("resume", bench.run)
        assert ended.code == 0, ended.err
        assert ended.result["hash"] == reference
