import os
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from sim.cli import main

TINY = """
name: tiny
seed: 3
until: 10m
agents:
  - name: walker
    count: 3
    loop: {min_loop_delay: 30s, unmatched: drop}
    rules:
      - when: chance(0.5)
        do: {publish: {topic: step.made, data: {by: "=me"}}}
        record: {luck: "=uniform(0, 1)"}
        reason: feels like it
      - do: {send: {to: walker-1, data: hello}}
metrics:
  every: 1m
  values: {steps: "published('step.made')"}
"""
ROOT = Path(__file__).parents[2]


@attrs.frozen
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A small scenario, in the folder where the command runs."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return path


@pytest.fixture
def sim(capsys):
    """The command, inside this process."""

    def call(*args: object) -> Done:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return Done(int(ended.value.code or 0), out, err)

    return call


@pytest.fixture
def start(tmp_path):
    """The command as a process of its own."""
    started: list[subprocess.Popen[str]] = []

    def call(*args: object, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "sim", *map(str, args)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", **environment},
        )
        started.append(process)
        return process

    yield call
    for process in started:
        process.kill()
        process.communicate()
