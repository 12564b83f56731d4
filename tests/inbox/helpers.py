"""Runs in processes of their own, which people take part in."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sim.record import open_run

ROOT = Path(__file__).parents[2]

DESK = """
name: desk
until: 1h
execution: {clock: wall}
agents:
  - name: helper
    loop: {min_loop_delay: 0.01, mailbox_size: 100000}
    rules:
      - when: message
        do: {publish: {topic: heard, data: {text: "=message.data", by: "=message.sender"}}}
      - do: {sleep: {message: true}}
  - name: worker
    loop: {min_loop_delay: 0.2}
    rules: [{do: {publish: {topic: worked}}}]
"""
"""An agent that says what it hears, and one that always works. It takes an hour of real time unless it is stopped."""


class Program:
    """A process with the command, which begins when it gets its arguments."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.inbox.child"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, encoding="utf-8", cwd=folder,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"},
        )  # fmt: skip

    def begin(self, *args: object, **plan: Any) -> "Program":
        """Give the process its arguments."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"args": [str(arg) for arg in args], **plan}) + "\n")
        self.process.stdin.flush()
        return self

    def kill(self) -> None:
        """Kill it with SIGKILL and wait until it is gone."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def end(self, seconds: float = 30) -> tuple[int, str, str]:
        """Wait for its end, and return its exit code, stdout and stderr."""
        out, err = self.process.communicate(timeout=seconds)
        return self.process.returncode, out, err


@contextlib.contextmanager
def programs(folder: Path) -> Iterator[Callable[[], Program]]:
    """A function that starts processes, all of which are gone at the end."""
    started: list[Program] = []

    def start() -> Program:
        started.append(Program(folder))
        return started[-1]

    try:
        yield start
    finally:
        for program in started:
            program.kill()


def wait_for(condition: Callable[[], Any], seconds: float = 30) -> Any:
    """Wait until a condition holds, and return its value."""
    limit = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < limit, "it never came to that"
        time.sleep(0.02)
    return value


def going_on(runs: Path) -> Path:
    """Wait until a run below `runs` is under way, and return its folder."""

    def look() -> Path | None:
        for folder in runs.glob("[!.]*/"):
            with open_run(folder, verify=False) as stored:
                if stored.info.status == "running" and stored.query("SELECT 1 FROM chunks"):
                    return folder
        return None

    found: Path = wait_for(look)
    return found


def is_running(folder: Path) -> bool:
    """Return whether a run is recorded as under way."""
    with open_run(folder, verify=False) as stored:
        return stored.info.status == "running"


def rows(folder: Path, sql: str) -> list[Any]:
    """Return the rows of a query; of single values if it has one column."""
    with open_run(folder, verify=False) as stored:
        found = stored.query(sql)
    return [row[0] if len(row) == 1 else row for row in found]


def states(folder: Path, agent: str) -> list[tuple[str, str]]:
    """Return the states that an agent came to, with the reasons."""
    sql = f"SELECT to_state, reason FROM transitions WHERE agent = '{agent}' ORDER BY id"  # noqa: S608 - in a test
    return rows(folder, sql)
