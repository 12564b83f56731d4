"""Starts, kills and resumes runs as processes of their own, and looks at what they left."""

import contextlib
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from sim.record import open_run
from sim.runner import ReplayResult, replay
from tests.proof.agents import scenario
from tests.proof.service import Call, Service

ROOT = Path(__file__).parents[2]
MODULE = "tests.proof.agents"
PATIENCE = 60.0
"""Real seconds after which a process that has not ended hangs; nothing else here looks at real time."""


@attrs.frozen
class Kill:
    """When, and how, a process is ended.

    Args:
        point: the crash point, or None for a moment chosen from outside.
        n: at which reach of the point; without one, after how many more calls of the service.
        delay: real seconds after that call.
        signal: what is sent at a moment.
    """

    point: str | None
    n: int
    delay: float = 0.0
    signal: int = signal.SIGKILL

    @property
    def plan(self) -> dict[str, Any]:
        """What the process is told."""
        return {} if self.point is None else {"point": self.point, "n": self.n}


@attrs.frozen
class Ended:
    """How a process ended."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """What it printed as JSON."""
        return dict(json.loads(self.out))

    @property
    def error(self) -> str:
        """The one line of its error."""
        lines = [line for line in self.err.splitlines() if line.startswith("sim: error: ")]
        assert len(lines) == 1, self.err
        assert "Traceback" not in self.err, self.err
        return lines[0].removeprefix("sim: error: ")


@attrs.frozen
class Row:
    """An effect on record."""

    id: int
    actor: str
    ordinal: int
    request_hash: str
    safety: str
    time_ns: int
    events_before: int
    hash_before: str
    outcome: str | None
    result: bytes | None
    ending: str | None

    @property
    def place(self) -> tuple[str, int]:
        """What names it."""
        return self.actor, self.ordinal


@attrs.frozen
class Record:
    """What a run file holds."""

    status: str
    hash: str | None
    effects: tuple[Row, ...]
    arrivals: tuple[tuple[Any, ...], ...]
    events: tuple[tuple[Any, ...], ...]

    @property
    def in_flight(self) -> int:
        """How many effects had begun and not ended."""
        return sum(row.ending is None for row in self.effects)

    @property
    def known(self) -> set[tuple[str, int]]:
        """The effects whose outcome is on record."""
        return {row.place for row in self.effects if row.outcome is not None}


class Bench:
    """One scenario in one folder, and the service it talks to.

    Args:
        folder: where the scenario and the runs are.
        service: what its agents call.
        backend: the host.
        options: see `scenario`.
    """

    def __init__(self, folder: Path, service: Service, backend: str, **options: Any) -> None:
        self.folder = folder
        self.service = service
        self.backend = backend
        self.kills = 0
        self.in_flight: list[int] = []
        self._seconds = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "proof.yaml").write_text(scenario(**options))

    # -- processes

    def start(self, *args: object, backend: str | None = None, **plan: Any) -> "subprocess.Popen[str]":
        """Start the command; `plan` is what happens at its crash points."""
        shared = ["--json", "--allow", MODULE, "--backend", backend or self.backend]
        return subprocess.Popen(
            [sys.executable, "-m", "tests.proof.child", *map(str, args), *shared],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "SIM_PROOF": json.dumps({"port": self.service.port, **plan}),
            },
        )

    def wait(self, process: "subprocess.Popen[str]") -> Ended:
        """Wait for the end of a process; one that hangs is an error."""
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            raise
        return Ended(process.returncode, out, err)

    def call(self, *args: object, **plan: Any) -> Ended:
        """Run the command to its end."""
        return self.wait(self.start(*args, **plan))

    def end(self, kill: Kill, *args: object) -> Ended:
        """Run the command until it is killed as planned, or ends before that."""
        before = len(self.service.calls)
        process = self.start(*args, **kill.plan)
        if kill.point is None:
            self.wait_for_calls(process, before + kill.n)
            time.sleep(kill.delay)
            process.send_signal(kill.signal)
        return self.wait(process)

    def begin(self, kills: Iterator[Kill]) -> Ended:
        """Forget all, and run under the next kill until there is a run: one killed before that has called nothing."""
        self.fresh()
        ended = self.end(next(kills), "run", "proof.yaml")
        while ended.code != 0 and not self.published:
            assert not self.service.calls
            self.kills += 1
            ended = self.end(next(kills), "run", "proof.yaml")
        return ended

    def wait_for_calls(self, process: "subprocess.Popen[str]", calls: int) -> None:
        """Wait until the service has had so many calls, or the process has ended."""
        limit = time.monotonic() + PATIENCE
        while not self.service.wait_for(calls, 0.05) and process.poll() is None and time.monotonic() < limit:
            pass

    # -- runs

    @property
    def run(self) -> Path:
        """The one run there is."""
        (found,) = (path for path in (self.folder / "runs").iterdir() if not path.name.startswith("."))
        return found

    @property
    def published(self) -> bool:
        """Whether there is a run: one that is killed while it is created leaves only a hidden draft."""
        runs = self.folder / "runs"
        return runs.exists() and any(not path.name.startswith(".") for path in runs.iterdir())

    def fresh(self) -> None:
        """Forget the run, and all calls."""
        shutil.rmtree(self.folder / "runs", ignore_errors=True)
        self.service.forget()

    def reference(self) -> str:
        """Run without being killed and return the hash."""
        self.fresh()
        ended = self.call("run", "proof.yaml")
        assert ended.code == 0, ended.err
        hash: str = ended.result["hash"]
        return hash

    def record(self) -> Record:
        """Read the run from a copy, so that nothing of it is touched."""
        copy = self.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.run, copy)
        return read(copy)

    def replay(self) -> ReplayResult:
        """Replay the run here, with the network untouched, and return what came of it."""
        before = len(self.service.calls)
        result = replay(self.run, allow=(MODULE,), backend="trio" if self.backend == "asyncio" else "asyncio")
        assert len(self.service.calls) == before
        return result

    def note_kill(self, record: Record) -> None:
        """Count a kill."""
        self.kills += 1
        self.in_flight.append(record.in_flight)

    def figures(self, what: str) -> str:
        """Say what was done, for people."""
        flights = sorted(self.in_flight) or [0]
        return (
            f"{what}: {self.kills} kills; effects in flight at the kill: median {flights[len(flights) // 2]}, most"
            f" {flights[-1]}, at least 20 in {sum(n >= 20 for n in flights)}; at most {self.service.peak} at the"
            f" service at once; {time.monotonic() - self._seconds:.0f} s"
        )


def read(folder: Path) -> Record:
    """Return what the run in `folder` holds; its hashes are verified."""
    with open_run(folder) as run:
        rows = run.query(
            "SELECT id, actor, ordinal, request_hash, safety, time_ns, events_before, hash_before, outcome,"
            " CAST(result AS BLOB), ending FROM effects ORDER BY id"
        )
        arrivals = run.query("SELECT id, time_ns, delta, kind, CAST(data AS BLOB), effect FROM arrivals ORDER BY id")
        return Record(
            run.info.status, run.info.hash, tuple(Row(*row) for row in rows), tuple(arrivals), tuple(run.events())
        )


def points(rng: random.Random, names: tuple[str, ...], limit: int) -> Iterator[Kill]:
    """Yield kills without end: each of the points in turn, and as many moments as there are points.

    Args:
        rng: draws which reach of a point, and which moment; small numbers as often as large ones.
        names: of the points.
        limit: the largest number of reaches, or calls.
    """
    once = {"run.drafted", "run.created", "resume.claimed", "resume.live", "run.finishing", "run.finished"}
    while True:
        kills = [Kill(name, 1 if name in once else _number(rng, limit)) for name in names]
        kills += [moment(rng, limit) for _ in range(len(names) // 2)]
        rng.shuffle(kills)
        yield from kills


def moment(rng: random.Random, limit: int, signal: int = signal.SIGKILL) -> Kill:
    """Return a kill at a random moment of real time."""
    return Kill(None, _number(rng, limit), rng.uniform(0, 0.03), signal)


def _number(rng: random.Random, limit: int) -> int:
    return round(math.pow(limit, rng.random()))


def check_calls(calls: Mapping[tuple[str, int], list[Call]], applied: Mapping[str, int], kills: int) -> None:
    """Check what the service saw of one run: one key for each effect, one request, applied once."""
    keys = {call.key for seen in calls.values() for call in seen}
    assert len(keys) == len(calls)  # no two effects share a key
    for place, seen in calls.items():
        assert len({(call.key, call.request) for call in seen}) == 1, place
        assert len(seen) <= kills + 1, place
        if seen[0].safety == "idempotent":
            assert applied[seen[0].key] == 1, place


@contextlib.contextmanager
def reaped(process: "subprocess.Popen[str]") -> Iterator["subprocess.Popen[str]"]:
    """See that a process is gone when the test is."""
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
