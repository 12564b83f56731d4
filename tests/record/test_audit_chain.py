"""The audit chain: whatever is done to a record from outside is found, and the first bad record is named."""

import json
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pytest

from sim.base import crashpoints
from sim.base.errors import RunError
from sim.kernel.codec import encode
from sim.record import RunRecorder, open_run
from sim.record.audit_chain import AUDIT, FIRST, TOPIC, AuditHead, check_chain, record_hash
from sim.record.hashing import RunHash, final_hash
from tests.helpers import wait_until_durable
from tests.record import resealed

pytestmark = pytest.mark.filterwarnings("ignore::sim.base.errors.RecordWarning")  # runs are damaged on purpose

Start = Callable[..., RunRecorder]
Row = list[Any]


def rows(count: int, *, since: int = 0, previous: str = FIRST) -> list[Row]:
    """Return audit events, each after another event, as the service records them."""
    made: list[Row] = []
    for n in range(since + 1, since + count + 1):
        time, data = n * 10**9, {"tool": "shop.refund", "amount": n * 1.5, "note": "für Ä"}
        made.append([time, 0, 0, 3, 2 * n, "a1", "step.done", {"n": n}, [3, 0]])
        hash = record_hash(n, time, "a1", "tool.call", data, previous)
        record = {"data": data, "hash": hash, "n": n, "previous": previous, "what": "tool.call"}
        made.append([time, 0, 0, 3, 2 * n + 1, "a1", TOPIC, record, [3, 0]])
        previous = hash
    return made


def add(recorder: RunRecorder, made: Sequence[Row]) -> None:
    """Record events, each audit record in a chunk of its own."""
    for row in made:
        recorder.event((*row[:8], tuple(row[8])))
        if row[6] == TOPIC:
            recorder.flush()


@pytest.fixture
def finished(start: Start) -> Path:
    """A finished run with five audit records."""
    recorder = start()
    made = rows(5)
    add(recorder, made)
    head = {"n": 5, "hash": made[-1][7]["hash"]}
    recorder.finish("finished", {"services": {"audit": head}}, 10**10, {})
    return recorder.folder


def problem(folder: Path, known: AuditHead | None = None) -> str | None:
    """Return what the check of the chain says."""
    with open_run(folder, verify=False) as run:
        return run.audit(known).problem


def rewrite(folder: Path, change: Callable[[list[Row]], list[Row]], *, digest: Any = None) -> None:
    """Change the events of a run, and make every hash of the database fit: only the audit chain can tell then."""
    with closing(sqlite3.connect(folder / "run.db", isolation_level=None)) as client:
        chunks = client.execute("SELECT data FROM chunks ORDER BY id").fetchall()
        events = change([row for (data,) in chunks for row in json.loads(data)])
        body = encode(events)
        running = RunHash()
        running.add_events(body[1:-1], len(events))
        client.execute("DELETE FROM chunks")
        client.execute(
            "INSERT INTO chunks (id, first_event, count, hash, data) VALUES (1, 1, ?, ?, CAST(? AS TEXT))",
            (len(events), running.stream, body),
        )
        ((kept,),) = client.execute("SELECT digest FROM run")
        if kept is not None:
            state = json.loads(kept) if digest is None else digest
            client.execute(
                "UPDATE run SET events = ?, hash = ?, digest = CAST(? AS TEXT)",
                (len(events), final_hash(running.lanes, state), encode(state)),
            )
        resealed.reseal(folder, client)
    with open_run(folder) as run:
        run.verify()  # the other hashes do fit


def rechained(events: list[Row]) -> list[Row]:
    """Number and chain the audit records anew, as somebody would who knows how."""
    previous, n = FIRST, 0
    for row in events:
        if row[6] == TOPIC:
            n += 1
            record = row[7]
            hash = record_hash(n, row[0], row[5], record["what"], record["data"], previous)
            row[7] = {**record, "n": n, "previous": previous, "hash": hash}
            previous = hash
    return events


def test_an_intact_chain(finished):
    """A run that nobody touched has an intact chain, whose head is the last record."""
    with open_run(finished) as run:
        found = run.audit()
        assert (found.problem, found.head.n) == (None, 5)
        assert run.audit(found.head).problem is None
    assert (finished / AUDIT).read_text().splitlines()[-1] == found.head.hash
    assert (finished / AUDIT).stat().st_mode & 0o777 == 0o600


def test_a_run_without_records_has_no_file(start):
    """A run in which nothing is audited is as it was: no file, no problem."""
    recorder = start()
    recorder.event((1, 0, 0, 1, 1, "a", "agent.state", {}, (1, 1)))
    recorder.finish("finished", {}, 1, {})
    assert problem(recorder.folder) is None
    assert not (recorder.folder / AUDIT).exists()


def _edit(n: int, **changes: Any) -> Callable[[list[Row]], list[Row]]:
    def change(events: list[Row]) -> list[Row]:
        for row in events:
            if row[6] == TOPIC and row[7]["n"] == n:
                row[7] |= changes
        return events

    return change


def _drop(n: int) -> Callable[[list[Row]], list[Row]]:
    return lambda events: [row for row in events if row[6] != TOPIC or row[7]["n"] != n]


def _swap(events: list[Row]) -> list[Row]:
    events[3][7], events[5][7] = events[5][7], events[3][7]
    return events


def _append(events: list[Row]) -> list[Row]:
    return events + rows(1, since=5, previous=events[-1][7]["hash"])


CASES: dict[str, tuple[Callable[[list[Row]], list[Row]], str]] = {
    "data": (_edit(3, data={"amount": 1}), "audit record 3 (event 6) does not match its hash"),
    "what": (_edit(3, what="nothing"), "audit record 3 (event 6) does not match its hash"),
    "hash": (_edit(2, hash="a" * 64), "audit record 2 (event 4) does not match its hash"),
    "previous": (_edit(2, previous=FIRST), "audit record 2 (event 4) does not follow the record before it"),
    "form": (_edit(2, more=1), "audit record 2 (event 4) is not an audit record"),
    "drop first": (_drop(1), "audit record 1 is missing: event 3 has record 2"),
    "drop": (_drop(3), "audit record 3 is missing: event 7 has record 4"),
    "drop last": (_drop(5), "audit record 5 is missing: run.audit has 5 records"),
    "cut": (lambda events: events[:4], "audit record 3 is missing: run.audit has 5 records"),
    "swap": (_swap, "audit record 2 is missing: event 4 has record 3"),
    "append": (_append, "audit record 6 (event 12) was added: run.audit has 5 records"),
    "agent": (
        lambda events: [[*row[:5], "a2" if row[0] == 4 * 10**9 else row[5], *row[6:]] for row in events],
        "audit record 4 (event 8) does not match its hash",
    ),
    "rechained": (
        lambda events: rechained(_edit(2, data={"amount": 1})(events)),
        "audit record 2 (event 4) is not the one in run.audit",
    ),
    "rechained without one": (
        lambda events: rechained(_drop(2)(events)),
        "audit record 2 (event 5) is not the one in run.audit",
    ),
}


@pytest.mark.parametrize(("change", "expected"), CASES.values(), ids=CASES)
def test_a_tampered_chain_names_the_first_bad_record(finished, change, expected):
    """Even if every hash of the database is made to fit, the first bad record is found and named."""
    rewrite(finished, change)
    assert problem(finished) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda data: data[: 3 * 65], "audit record 4 (event 8) was added: run.audit has 3 records"),
        (lambda data: data[:-1], "audit record 5 (event 10) was added: run.audit has 4 records"),
        (lambda data: data[65:], "audit record 1 (event 2) is not the one in run.audit"),
        (lambda data: data + data[:65], "audit record 6 is missing: run.audit has 6 records"),
        (lambda data: data + b"x", "run.audit has more than its 5 records"),
        (lambda data: data.replace(b"\n", b" ", 1), "audit record 1 (event 2) is not the one in run.audit"),
        (lambda data: b"", "audit record 1 (event 2) was added: run.audit has 0 records"),
    ],
    ids=["cut", "half a line", "shifted", "longer", "a byte more", "a byte changed", "emptied"],
)
def test_a_tampered_file_is_found(finished, change, expected):
    """The file beside the database cannot be changed either."""
    file = finished / AUDIT
    file.write_bytes(change(file.read_bytes()))
    assert problem(finished) == expected
    file.unlink()
    assert problem(finished) == "audit record 1 (event 2) was added: run.audit has 0 records"


def test_the_final_state_and_a_noted_head_are_outside_the_file(finished):
    """Who changes the database and the file alike still contradicts the final state, and a head noted elsewhere."""
    with open_run(finished) as run:
        head = run.audit().head
        assert run.info.digest is not None
        state = dict(run.info.digest)
    rewrite(finished, lambda events: rechained(_edit(4, data={})(events)), digest=state)
    lines = [row["hash"] for row in _records(finished)]
    (finished / AUDIT).write_text("".join(f"{line}\n" for line in lines))

    assert problem(finished) == "audit record 5 contradicts the final state of the run, which has 5 records"
    rewrite(finished, lambda events: events, digest={})
    assert problem(finished) is None
    assert problem(finished, head) == "audit record 5 (event 10) is not the one that was noted"
    assert problem(finished, attrs.evolve(head, n=7)) == "audit record 6 is missing: record 7 was noted"


def _records(folder: Path) -> list[dict[str, Any]]:
    with open_run(folder) as run:
        return [row.data for row in run.events() if row.topic == TOPIC]


def test_events_that_cannot_be_read_are_named():
    """A chunk that is no JSON any more is found, and the record is named from which on it is."""
    good = encode(rows(1))
    found = check_chain([(1, good), (3, b'[[1,"audit.record"')], [rows(1)[1][7]["hash"]])
    assert found.problem == "the events from audit record 2 on cannot be read"


# -- kills and losses


@pytest.fixture
def killed(start: Start, tmp_path, monkeypatch) -> Path:
    """What a kill leaves between the commit of the third record and its line in `run.audit`."""
    recorder = start()
    add(recorder, rows(2))
    wait_until_durable(recorder)
    copy: Path = tmp_path / "killed" / recorder.folder.name

    def kill(point: crashpoints.Point) -> None:
        if point == "writer.unnoted" and not copy.exists():
            shutil.copytree(recorder.folder, copy, ignore=shutil.ignore_patterns("*-shm"))

    monkeypatch.setattr(crashpoints, "hook", kill)
    add(recorder, rows(3)[4:])
    wait_until_durable(recorder)
    monkeypatch.setattr(crashpoints, "hook", None)
    recorder.close()
    return copy


def test_a_kill_between_the_two_writes_is_no_damage(killed):
    """The file may lack the records of the last commit after a kill; resuming adds them, and goes on with the chain."""
    assert len((killed / AUDIT).read_text().splitlines()) == 2
    assert problem(killed) is None
    with RunRecorder(killed, resumed=True) as recorder:
        assert len((killed / AUDIT).read_text().splitlines()) == 3
        recorder.continue_record(6)
        add(recorder, rows(4)[6:])
    assert problem(killed) is None
    assert [record["hash"] for record in _records(killed)] == (killed / AUDIT).read_text().splitlines()


@pytest.mark.parametrize("tail", [b"", b"0123", b"a" * 64])
def test_a_line_that_is_cut_off_is_completed(killed, tail):
    """A line that was only half on disk when the power failed is written again."""
    with (killed / AUDIT).open("ab") as file:
        file.write(tail)
    RunRecorder(killed, resumed=True).close()
    assert problem(killed) is None
    assert len((killed / AUDIT).read_bytes()) == 3 * 65


def test_a_run_whose_chain_was_tampered_with_is_not_resumed(killed):
    """Evidence is not overwritten: a run whose file contradicts its database is refused, and left as it is."""
    before = (killed / AUDIT).read_text()
    (killed / AUDIT).write_text("f" * 64 + before[64:])
    with pytest.raises(RunError, match=r"audit record 1 is not the one in run\.audit"):
        RunRecorder(killed, resumed=True)
    (killed / AUDIT).write_text(before + before + before[:65])
    with pytest.raises(RunError, match=r"audit record 3 is not the one in run\.audit"):
        RunRecorder(killed, resumed=True)
    assert len((killed / AUDIT).read_text()) == 5 * 65


def test_a_running_run_can_be_checked(start):
    """While a run is under way, its chain can be checked."""
    recorder = start()
    add(recorder, rows(3))
    wait_until_durable(recorder)
    assert problem(recorder.folder) is None
    recorder.close()
