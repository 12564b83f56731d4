"""Kill -9 while calls wait in batches: no batch is submitted twice, and the end is that of a run without kills."""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import attrs
import pytest

from sim.base.crashpoints import Point
from sim.record import open_run
from sim.runner import replay, run
from tests.llm.batch_server import BatchServer
from tests.llm.test_batches import CHAIN, KEY, TEXT, access, fails_at_first

ROOT = Path(__file__).parents[2]
AGENTS = 8
SIZES = [AGENTS, 3] * CHAIN  # the requests of three agents fail once, so each batch is followed by a small one
POINTS = tuple(point for point in get_args(Point) if not point.startswith("arrivals."))
"""Without measured effects and inputs nothing arrives."""
KILLS = 25
"""In each of the four tests: 100."""


@attrs.define
class Campaign:
    """One scenario that is run, killed and resumed, and the server that it uses."""

    folder: Path
    server: BatchServer
    backend: str
    hash: str
    kills: int = 0

    def call(self, plan: dict[str, Any], *args: object, moment: tuple[int, float] | None = None) -> int:
        """Run the command and return its exit code.

        Args:
            plan: when the process kills itself.
            args: of the command.
            moment: after so many further requests and seconds it is killed from outside.
        """
        come = len(self.server.requests)
        command = [
            sys.executable, "-m", "tests.llm.batch_child", *map(str, args), "--base-url", self.server.url,
            "--backend", self.backend, "--batch", "--batch-poll", "0.01", "--json",
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "SIM_KILL": json.dumps(plan), "OPENAI_API_KEY": KEY}
        pipe = subprocess.PIPE
        with subprocess.Popen(command, cwd=self.folder, env=environment, stdout=pipe, stderr=pipe) as process:
            if moment is not None:
                with self.server.changed:
                    self.server.changed.wait_for(lambda: len(self.server.requests) >= come + moment[0], 20)
                time.sleep(moment[1])
                process.kill()
            _, error = process.communicate(timeout=60)
        assert process.returncode in (0, -9), error.decode()
        return process.returncode

    @property
    def runs(self) -> list[Path]:
        """The runs that there are."""
        return [path for path in self.folder.glob("runs/*") if not path.name.startswith(".")]

    def chain(self, kill: Callable[[], tuple[dict[str, Any], tuple[int, float] | None]], most: int) -> None:
        """Run, kill up to `most` times, come to the end, and check all."""
        shutil.rmtree(self.folder / "runs", ignore_errors=True)
        self.server.forget()
        told: list[Any] = []
        while True:
            arguments = ["resume", self.runs[0]] if self.runs else ["run", "talk.yaml", "--model", "openai:m"]
            plan, moment = kill() if len(told) < most else ({}, None)
            told.append((plan, moment))
            if self.call(plan, *arguments, moment=moment) == 0:
                break
            self.kills += 1
            if self.runs and _is_finished(self.runs[0]):
                break
        (path,) = self.runs
        with open_run(path) as stored:
            assert (stored.info.status, stored.info.hash) == ("finished", self.hash), told
        assert (self.server.twice(), self.server.online) == ([], 0), told
        assert [len(batch.requests) for batch in self.server.batches] == SIZES, told
        again = replay(path)
        assert again.same, (told, again.difference)


def _is_finished(path: Path) -> bool:
    with open_run(path) as stored:
        return stored.info.status == "finished"


@pytest.fixture
def campaign(tmp_path):
    """Makes a campaign, with the hash of a run that nothing interrupts."""
    with BatchServer() as server:

        def make(backend: str) -> Campaign:
            text = TEXT.replace("COUNT", str(AGENTS)).replace("LATENCY", "2s").replace("MODELS", "")
            (tmp_path / "talk.yaml").write_text(text)
            server.result = fails_at_first
            whole = run(tmp_path / "talk.yaml", access=access(server))
            assert [len(batch.requests) for batch in server.batches] == SIZES
            return Campaign(tmp_path, server, backend, whole.hash)

        yield make


@pytest.mark.proof
@pytest.mark.parametrize(("point", "n"), [("batch.created", 2), ("batch.ended", 3)])
def test_a_killed_run_finds_its_batch(campaign, point, n):
    """Killed after a submission that is not on note, and after results were read: the batch is adopted."""
    made = campaign("asyncio")
    made.chain(lambda: ({"point": point, "n": n}, None), most=1)
    assert made.kills == 1


@pytest.mark.proof
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_no_batch_is_submitted_twice(campaign, backend, part):
    """Killed at any crash point and any moment, once or several times, a run submits each batch once and ends with the
    hash of a run that was not killed; requests that failed are found in the batch in which they were.
    """
    made = campaign(backend)
    rng = random.Random(f"{backend} {part}")

    def kill() -> tuple[dict[str, Any], tuple[int, float] | None]:
        if rng.random() < 0.35:
            return {}, (rng.randint(0, 40), rng.uniform(0, 0.03))
        point = rng.choice([point for point in POINTS if point.startswith("batch.") or rng.random() < 0.3] or POINTS)
        most = 6 if point.startswith("batch.") else 1 if point.startswith(("run.", "resume.")) else 20
        return {"point": point, "n": rng.randint(1, most)}, None

    while made.kills < KILLS:
        made.chain(kill, most=rng.randint(1, 4))
