"""The writing thread: its errors reach the caller, and only one process writes a run."""

import os
import queue
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from sim.base import crashpoints
from sim.base.errors import RunError
from sim.kernel.codec import encode
from sim.kernel.effects import hash_request
from sim.kernel.rows import IntentRow, ResultRow
from sim.record import RunRecorder, open_run
from sim.record.writer import _JOBS, Tables, Writer
from tests.helpers import wait_until_durable
from tests.record import resealed

ROW = (1, 0, 0, 1, 1, "a", "t", None, None)


def change(folder: Path, sql: str) -> None:
    """Change a run file from outside."""
    with closing(sqlite3.connect(folder / "run.db", isolation_level=None)) as connection:
        connection.execute(sql)


def test_a_process_that_lost_its_epoch_is_refused(start):
    """After another process took the run over, nothing more is written, and every call says so."""
    recorder = start()
    recorder.event(ROW)
    change(recorder.folder, "UPDATE run SET epoch = epoch + 1")
    recorder.flush()

    with pytest.raises(RunError, match="taken over by another process"):
        wait_until_durable(recorder)
    with pytest.raises(RunError, match="taken over"):
        recorder.flush()
    with pytest.raises(RunError, match="taken over"):
        recorder.finish("finished", {}, 1, {})
    resealed.change(recorder.folder)  # as the other process would
    with open_run(recorder.folder) as run:
        assert run.query("SELECT count(*) FROM chunks") == [(0,)]
        assert run.info.status == "killed"


def test_an_error_is_raised_by_close_if_no_call_did(start):
    """Nobody misses that writing failed: if no other call said so, closing does."""
    recorder = start()
    change(recorder.folder, "UPDATE run SET epoch = epoch + 1")
    recorder.event(ROW)

    with pytest.raises(RunError, match="taken over"):
        recorder.close()


def test_closing_a_finished_run_writes_nothing_and_cannot_fail(start, monkeypatch):
    """A run whose end is on record does not fail by a write after it: closing a finished run makes no commit."""
    recorder = start()
    recorder.event(ROW)
    recorder.flush()
    wait_until_durable(recorder)
    reached: list[str] = []
    monkeypatch.setattr(crashpoints, "hook", reached.append)

    total = recorder.finish("finished", {}, 0, {})

    one_commit = ["writer.before", "run.finishing", "writer.written", "writer.unnoted", "writer.committed"]
    assert reached == [*one_commit, "run.finished"]
    with open_run(recorder.folder) as run:
        assert (run.info.status, run.info.hash) == ("finished", total)


def test_a_second_writer_is_refused(start):
    """A run that is being written cannot be opened for writing again."""
    with start() as recorder, pytest.raises(RunError, match="is being written by another process"):
        RunRecorder(recorder.folder)


def test_the_lock_goes_with_its_holder(start):
    """Once its writer is closed a run is not locked; but a recorded run is not written again."""
    recorder = start()
    recorder.finish("finished", {}, 1, {})

    with pytest.raises(RunError, match=r"was already recorded \(status finished\)"):
        RunRecorder(recorder.folder)


def test_a_full_disk_is_one_sentence(start):
    """On a full disk the run fails with one sentence, and what was committed stays readable."""
    recorder = start()
    recorder.event(ROW)
    recorder.flush()
    wait_until_durable(recorder)
    writer = recorder._writer
    writer.submit(set_page_limit).result()
    recorder.event((*ROW[:7], "x" * 10**7, None))
    recorder.flush()

    with pytest.raises(RunError, match="cannot be used: the disk is full") as error:
        wait_until_durable(recorder)
    assert error.value.hint
    with pytest.raises(RunError):
        recorder.finish("finished", {}, 1, {})
    with open_run(recorder.folder) as run:
        assert len(list(run.events())) == 1


def set_page_limit(tables: Tables) -> None:
    """Leave no room for more pages, as a full disk does."""
    tables._execute("PRAGMA max_page_count = 1")


LIMITED = """
import resource, sys
from pathlib import Path
from sim.base.errors import RunError
from sim.record import RunHeader, RunRecorder, create_run
from tests.helpers import wait_until_durable
from tests.record import resealed
recorder = RunRecorder(create_run(Path(sys.argv[1]), RunHeader("x", 1, "tick", "trio"), ""))
resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
try:
    for place in range(1000):
        recorder.event((place, 0, 0, 1, place, "a", "t", "x" * 10_000, None))
        if place % 10 == 9:
            recorder.flush()
            wait_until_durable(recorder)
    recorder.finish("finished", {}, 1, {})
except RunError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_file_size_limit_is_one_sentence(tmp_path):
    """When the operating system refuses to write more, that is one sentence; the rest can be read."""
    root = Path(__file__).parents[2]
    limited = [sys.executable, "-c", LIMITED, tmp_path]
    done = subprocess.run(limited, cwd=root, capture_output=True, text=True, check=True)

    (folder,) = tmp_path.iterdir()
    assert f"{folder / 'run.db'} cannot be used: the disk" in done.stdout
    assert done.stdout.count("\n") == 1
    with open_run(folder) as run:
        assert 0 < len(list(run.events())) < 1000


def test_an_error_does_not_block_the_producer(start):
    """After an error the queue is still emptied: a caller never waits for ever."""
    recorder = start()
    change(recorder.folder, "UPDATE run SET epoch = 9")
    refused, failed = 0, threading.Event()
    for ordinal in range(2000):
        try:
            recorder.intent(IntentRow("a", ordinal, "llm", "ff", None, "modelled", "pure", 1))
            recorder.durable(lambda error: failed.set() if error else None)
        except RunError:
            refused += 1
        if ordinal == 10:
            assert failed.wait(60)

    assert refused == 1989
    recorder.close()


def test_outcomes_can_be_recorded_from_another_thread(start):
    """Outcomes from one thread and intents from another one all reach the disk, each after its intent."""
    count, begun, failed = 500, queue.SimpleQueue[int](), list[object]()

    def begin(number: int) -> None:
        recorder.intent(IntentRow("a", number, "llm", hash_request("llm", encode(None)), None, "modelled", "pure", 1))
        recorder.durable(lambda error: begun.put(number))

    def answer() -> None:
        for _ in range(count):
            recorder.result(ResultRow("a", begun.get(), "ok", 1, 1, None))
            recorder.durable(lambda error: failed.append(error) if error else None)

    with start() as recorder:
        thread = threading.Thread(target=answer)
        thread.start()
        for number in range(count):
            begin(number)
        thread.join()
        folder = recorder.folder
    assert failed == []
    with open_run(folder) as run:
        assert [*run.query("SELECT count(*), count(outcome) FROM effects")] == [(count, count)]


def test_a_fork_cannot_write(start):
    """A forked process is refused: SQLite's locks do not survive a fork."""
    with start() as recorder:
        child = os.fork()
        if child == 0:
            try:
                recorder.flush()
            except RunError as error:
                os._exit(7 if "before a fork" in str(error) else 8)
            os._exit(9)
        _, status = os.waitpid(child, 0)

        assert os.waitstatus_to_exitcode(status) == 7
        recorder.finish("finished", {}, 1, {})


def test_the_connection_lives_in_one_thread(start):
    """Jobs run in the writer's own thread, in the order in which they were given."""
    with start() as recorder:
        seen: list[int] = []
        for place in range(100):
            recorder._writer.put(lambda _, place: seen.append(place), place)
        thread = recorder._writer.submit(lambda _: threading.get_ident()).result()

    assert list(range(100)) == seen
    assert threading.get_ident() != thread


def test_a_run_that_is_not_there_cannot_be_written(tmp_path):
    """Opening nothing for writing is one sentence and makes no file."""
    with pytest.raises(RunError, match="cannot be used"):
        Writer(tmp_path / "nothing")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one thread")
@pytest.mark.parametrize("resumed", [False, True])
def test_ctrl_c_while_a_run_is_opened_closes_it(start, tmp_path, monkeypatch, resumed):
    """Ctrl-C while the thread opens a run ends the thread and unlocks the run, which can be resumed."""
    if resumed:
        start().close()
    main, interrupted, opening = threading.main_thread(), threading.Event(), Tables._open

    def interrupt(*_: object) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    def opened(tables: Tables, resumed: bool) -> None:
        opening(tables, resumed)
        signal.pthread_kill(main.ident or 0, signal.SIGINT)
        assert interrupted.wait(60)

    before = signal.signal(signal.SIGINT, interrupt)
    monkeypatch.setattr(Tables, "_open", opened)
    try:
        with pytest.raises(KeyboardInterrupt):
            RunRecorder(next((tmp_path / "runs").iterdir()), resumed=True) if resumed else start()
    finally:
        signal.signal(signal.SIGINT, before)
        monkeypatch.undo()

    (folder,) = (tmp_path / "runs").iterdir()
    assert f"sim-store {folder.name}" not in [thread.name for thread in threading.enumerate()]
    with open_run(folder) as run:
        assert run.info.status == "interrupted"
    RunRecorder(folder, resumed=True).close()


def test_a_file_that_is_no_run_cannot_be_written(tmp_path):
    """A file of something else is refused for writing."""
    (tmp_path / "run.db").write_text("something else " * 100)

    with pytest.raises(RunError, match="it is not a SQLite database"):
        Writer(tmp_path)


def test_added_jobs_are_committed_with_the_next_one(start):
    """Rows that nothing waits for share the commit of the next job, in their order; closing commits them as well."""
    recorder = start()
    writer, done, commits = recorder._writer, list[str](), list[int]()

    def note(tables: Tables, what: str) -> None:
        done.append(what)

    def commit(tables: Tables) -> None:
        commits.append(tables._number)

    writer.submit(commit).result()
    for what in ("a", "b"):
        writer.add(note, what)
    assert done == []
    writer.put(note, "c")
    writer.add(note, "d")
    writer.submit(commit).result()
    assert done == ["a", "b", "c", "d"]
    assert commits[1] - commits[0] <= 3
    writer.add(note, "e")
    recorder.close()
    assert done[-1] == "e"


def test_added_jobs_do_not_pile_up(start):
    """So many jobs as the queue takes are passed on, also if nothing waits for them."""
    with start() as recorder:
        passed = threading.Event()
        for _ in range(_JOBS):
            recorder._writer.add(lambda tables: passed.set())
        assert passed.wait(20)
