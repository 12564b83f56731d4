"""What tests of several packages use."""

import io
import sqlite3
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest

from sim.cli import main
from sim.inspect.telemetry import Exporter
from sim.kernel import Kernel
from sim.kernel.ports import Recorder
from sim.kernel.rows import EventRow, RecordedEvent


def command(*arguments: object) -> tuple[int, str, str]:
    """Call `sim` inside this process; return its exit code, and what it wrote to stdout and to stderr."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0), out.getvalue(), err.getvalue()


def named(rows: Iterable[EventRow]) -> list[RecordedEvent]:
    """Return the events that a recorder kept, with names for their fields: `row.data`, and not `row[7]`."""
    return [RecordedEvent(*row) for row in rows]


def as_host(kernel: Kernel, callback: Callable[[], object]) -> None:
    """Have `callback` run as an input, the way in which a host program changes a world."""
    kernel.inputs["test"] = lambda _: callback()
    kernel.apply("test", None)


def wait_for_file(folder: Path, pattern: str) -> None:
    """Wait until a process has written a file, as a sign of how far it is."""
    deadline = time.monotonic() + 60
    while not list(folder.glob(pattern)):
        assert time.monotonic() < deadline, f"there is no {pattern} in {folder}"
        time.sleep(0.02)


def wait_for_events(folder: Path) -> None:
    """Wait until the run in `folder/runs` has recorded an event: it is at work then, and heeds signals."""
    wait_for_file(folder, "runs/[!.]*/run.db-wal")
    (run,) = folder.glob("runs/[!.]*/run.db")
    deadline = time.monotonic() + 60
    with closing(sqlite3.connect(f"file:{run}?mode=ro", uri=True)) as database:
        while not database.execute("SELECT count(*) FROM events").fetchone()[0]:
            assert time.monotonic() < deadline, f"{run} has no event"
            time.sleep(0.02)


def wait_until_durable(recorder: Recorder) -> None:
    """Wait until what was recorded is on disk; raise what went wrong."""
    told: Future[Exception | None] = Future()
    recorder.durable(told.set_result)
    error = told.result(60)
    if error is not None:
        raise error


def exposition(exporter: Exporter, accept: str = "") -> tuple[bytes, str]:
    """Return what the application of an exporter answers to a request, and its content type."""
    environ: dict[str, Any] = {}
    setup_testing_defaults(environ)
    answers: list[tuple[str, dict[str, str]]] = []
    body = exporter.application(
        {**environ, "HTTP_ACCEPT": accept}, lambda status, headers: answers.append((status, dict(headers)))
    )
    ((status, headers),) = answers
    assert status == "200 OK"
    return b"".join(body), headers["Content-Type"]
