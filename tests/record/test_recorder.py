"""What is recorded comes back, privately and whole."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.base.errors import ActorError, RunError, UsageError
from sim.kernel.codec import encode
from sim.kernel.effects import hash_request
from sim.kernel.ports import Recorder
from sim.kernel.rows import ClosedRow, InputRow, IntentRow, ResultRow
from sim.record import HashRecorder, RunHeader, RunRecorder, create_run, open_run
from sim.record.files import slug
from sim.record.hashing import CHUNK
from tests.helpers import wait_until_durable

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def test_both_recorders_are_recorders(start):
    """Both classes have what the kernel asks of a recorder."""
    with start() as recorder:
        recorders: list[Recorder] = [HashRecorder(), recorder]

        assert all(callable(one.event) for one in recorders)


def test_events_come_back_in_order(start):
    """Events of several chunks are read back as they were recorded, with their causes."""
    rows = [(n, n % 3, 0, 1, n, f"a{n % 5}", "t", {"n": n / 3}, (1, n) if n else None) for n in range(2 * CHUNK + 5)]
    with start() as recorder:
        for row in rows:
            recorder.event(row)
        recorder.finish("finished", {}, 1, {})

    with open_run(recorder.folder) as run:
        assert [row[:8] for row in rows] == [row[:8] for row in run.events()]
        assert [encode([row.cause for row in run.events()][:2]).decode()] == ["[null,[1,1]]"]
        assert run.query("SELECT first_event, count FROM chunks ORDER BY id") == [
            (1, CHUNK),
            (CHUNK + 1, CHUNK),
            (2 * CHUNK + 1, 5),
        ]


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(TEXT, JSON), max_size=5), TEXT, JSON)
def test_any_json_comes_back(start, events, text, value):
    """Any JSON value, with any Unicode and control characters, is the same after a run is stored and read."""
    with start(scenario=text, name=text, options={"value": value}) as recorder:
        for place, (topic, data) in enumerate(events):
            recorder.event((place, 0, 0, 1, place, topic, topic, data, None))
        recorder.input(InputRow(1, 0, text, value))
        recorder.finish("finished", {"value": value}, 1, {"value": value})

    with open_run(recorder.folder) as run:
        assert [(topic, data) for topic, data in events] == [(row.actor, row.data) for row in run.events()]
        assert [value] * 3 == [part["value"] for part in (run.info.options, run.info.digest, run.info.summary) if part]
        assert len(events) == len(run.query("SELECT * FROM events"))
    assert text == (recorder.folder / "scenario.yaml").read_bytes().decode()


def test_the_run_row_tells_what_the_run_was(start):
    """Header and ending are in the run row."""
    recorder = start(scenario="name: x\n", name="My Town!", options={"until": 5})
    recorder.event((1, 0, 0, 1, 1, "a", "t", None, None))
    total = recorder.finish("failed", {"a": 1}, 1_500_000_000, {"why": "test"})

    with open_run(recorder.folder) as run:
        info = run.info
    assert (info.name, info.seed, info.mode, info.backend) == ("My Town!", 7, "autonomous", "asyncio")
    assert ("failed", 1, 1, total, 1.5) == (info.status, info.epoch, info.events, info.hash, info.sim_seconds)
    assert (info.digest, info.summary, info.options) == ({"a": 1}, {"why": "test"}, {"until": 5})
    assert {"python", "sim", "sqlite"} == set(info.versions)
    assert info.started_at <= (info.ended_at or "")
    assert info.id.startswith("my-town-7-")


def test_effects_and_inputs_are_stored(start):
    """An effect has its request and its result, and the count and hash of the events before it."""
    hash = hash_request("llm", '{"p":"é"}'.encode())
    with start() as recorder:
        recorder.event((1, 0, 0, 1, 1, "a", "t", None, None))
        recorder.intent(IntentRow("a", 4, "llm", hash, {"p": "é"}, "measured", "unsafe", 9))
        recorder.event((2, 0, 0, 1, 2, "a", "t", None, None))
        recorder.intent(IntentRow("a", 5, "llm", hash_request("llm", b"null"), None, "modelled", "pure", 9))
        recorder.result(ResultRow("a", 4, "timeout", {"e": 1}, 2, (11, 3)))
        recorder.closed(ClosedRow("a", 4, "delivered", 11, 3))
        recorder.input(InputRow(12, 1, "stop", {"agent": "a"}))
        recorder.flush()
        wait_until_durable(recorder)

        with open_run(recorder.folder) as run:
            first, second = run.query(
                "SELECT actor, ordinal, kind, request_hash, request, parts, latency, safety, time_ns, events_before"
                " FROM effects ORDER BY id"
            )
            ends = run.query("SELECT outcome, result, attempts, ending, ended_ns, ended_delta FROM effects ORDER BY id")
            (later,) = run.query("SELECT events_before, hash_before FROM effects WHERE ordinal = 5")
            arrivals = run.query("SELECT time_ns, delta, kind, data, effect FROM arrivals ORDER BY id")
            inputs = run.query("SELECT time_ns, delta, kind, data FROM inputs")
            (before,) = run.query("SELECT hash FROM chunks")
    assert first == ("a", 4, "llm", hash, '{"p":"é"}', "[]", "measured", "unsafe", 9, 1)
    assert second[:3] == ("a", 5, "llm")
    assert ends == [("timeout", '{"e":1}', 2, "delivered", 11, 3), (None,) * 6]
    assert later == (2, *before)
    assert arrivals == [(11, 3, "", "null", 1), (12, 1, "stop", '{"agent":"a"}', None)]
    assert inputs == [(12, 1, "stop", '{"agent":"a"}')]


def test_a_result_without_an_open_intent_is_refused(start):
    """The first result of an effect counts; a second one, or one of nothing, fails the run."""
    recorder = start()
    recorder.intent(IntentRow("a", 1, "llm", "ff", None, "modelled", "pure", 9))
    recorder.result(ResultRow("a", 1, "ok", 1, 1, None))
    recorder.result(ResultRow("a", 1, "ok", 2, 1, None))

    with pytest.raises(RunError, match="effect 1 of a got an outcome, but"):
        recorder.close()


def test_a_request_that_is_not_json_is_the_actors_error(start):
    """A request that cannot be recorded is refused at once, and the run goes on."""
    with start() as recorder:
        with pytest.raises(ActorError):
            recorder.intent(IntentRow("a", 1, "llm", "ff", object(), "modelled", "pure", 9))
        recorder.finish("finished", {}, 1, {})

    with open_run(recorder.folder) as run:
        assert run.info.status == "finished"


def test_a_run_that_nobody_finished_is_interrupted(start):
    """Closing without `finish` keeps what was recorded, as an interrupted run; closing again does nothing."""
    recorder = start()
    recorder.event((1, 0, 0, 1, 1, "a", "t", None, None))
    recorder.close()
    recorder.close()

    with open_run(recorder.folder) as run:
        assert (run.info.status, run.info.events, run.info.hash) == ("interrupted", 1, None)
        assert len(list(run.events())) == 1
    with pytest.raises(RunError, match="is closed"):
        recorder.flush()


def test_an_error_inside_with_is_not_hidden(start):
    """An error of the caller comes out of the `with` block, also if closing fails too."""
    recorder = start()
    recorder.result(ResultRow("a", 1, "ok", 1, 1, None))

    with pytest.raises(ZeroDivisionError), recorder:
        _ = 1 / 0


def test_a_run_is_private_and_one_file_at_its_end(record):
    """The folder has mode 0700 and its files 0600; a run that ended needs no other file than run.db."""
    previous = os.umask(0)
    try:
        folder = record(("t", 1))
    finally:
        os.umask(previous)

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {"run.db", "run.head", "run.lock", "scenario.yaml"} == {file.name for file in folder.iterdir()}
    assert {0o600} == {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}


def test_files_of_a_running_run_are_private_too(start):
    """SQLite's log and index have mode 0600 as well."""
    with start() as recorder:
        recorder.flush()
        wait_until_durable(recorder)

        files = list(recorder.folder.glob("run.db-*"))
        assert len(files) == 2
        assert {0o600} == {stat.S_IMODE(file.stat().st_mode) for file in files}


@given(st.text())
def test_any_name_becomes_a_safe_folder_name(name):
    """Folder names are a-z, 0-9 and hyphens, never empty, at most 60 characters."""
    label = slug(name)

    assert 0 < len(label) <= 60
    assert set(label) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert label.strip("-") == label


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_out_of_range_is_refused(tmp_path, seed):
    """A seed that the file cannot hold is refused before anything is made."""
    with pytest.raises(UsageError, match="seed"):
        create_run(tmp_path / "runs", RunHeader("x", seed, "tick", "trio"), "")
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    """If the place for runs is a file, the error says so and nothing is left."""
    (tmp_path / "runs").write_text("")

    with pytest.raises(RunError, match="cannot be used: Not a directory"):
        create_run(tmp_path / "runs", RunHeader("x", 1, "tick", "trio"), "")


KILLED = """
import os, signal, sys
from pathlib import Path
from sim.kernel.effects import hash_request
from sim.kernel.rows import IntentRow
from sim.record import RunHeader, RunRecorder, create_run
from tests.helpers import wait_until_durable
recorder = RunRecorder(create_run(Path(sys.argv[1]), RunHeader("x", 1, "tick", "trio"), ""))
hash = hash_request("llm", b'{"p":1}')
for place in range(5000):
    recorder.event((place, 0, 0, 1, place, "a", "t", {"n": place}, None))
recorder.intent(IntentRow("a", 1, "llm", hash, {"p": 1}, "measured", "unsafe", 9))
wait_until_durable(recorder)
recorder.intent(IntentRow("a", 2, "llm", hash, {"p": 1}, "measured", "unsafe", 9))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_what_was_durable_survives_a_kill(tmp_path):
    """After kill -9 the run opens, holds every chunk and intent that was acknowledged, and says `running`."""
    root = Path(__file__).parents[2]
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path], cwd=root, check=False)

    (folder,) = tmp_path.iterdir()
    with open_run(folder) as run:
        effects = run.query("SELECT ordinal, outcome, events_before FROM effects")
        events = list(run.events())
        assert run.info.status == "killed"
    assert killed.returncode == -signal.SIGKILL
    assert effects[0] == (1, None, 5000)
    assert len(events) == CHUNK
    with pytest.raises(RunError, match="already recorded"):
        RunRecorder(folder)


def test_the_settings_are_safe(start):
    """A run is written in WAL mode."""
    with start() as recorder:
        connection = sqlite3.connect(recorder.folder / "run.db")
        mode = connection.execute("PRAGMA journal_mode").fetchone()
        connection.close()

    assert mode == ("wal",)
