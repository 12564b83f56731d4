"""Runs scenarios as processes of their own, kills them at crash points, resumes them, and checks what was done."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from sim.record import open_run
from sim.record.audit_chain import TOPIC
from sim.runner import replay

ROOT = Path(__file__).parents[1]


@attrs.frozen
class Killed:
    """One scenario in one folder, run and killed as processes of their own.

    Args:
        folder: the folder.
        backend: asyncio or trio.
        module: the module that is run as the command; it kills its process as the variable `SIM_KILL` says, and writes
            each deed of its unsafe tool as a line to the file `ledger`.
        scenario: the name of the file of the scenario.
        deeds: the lines that the ledger has after a whole run.
        gates: the number of gates of a whole run, which are all used then.
        tool: the kind of the effect of the unsafe tool.
        line: the line that a call with these arguments writes, as a format.
        person: whether a real person decides about gates.
    """

    folder: Path
    backend: str
    module: str
    scenario: str
    deeds: "Counter[str]"
    gates: int
    tool: str
    line: str
    person: bool = False

    def call(self, *args: object, **plan: Any) -> "subprocess.CompletedProcess[str]":
        """Run the command; `plan` is when it is killed."""
        plan |= {"ledger": str(self.folder / "ledger"), "person": self.person}
        return subprocess.run(
            [sys.executable, "-m", self.module, *map(str, args), "--json", "--allow", self.module, "--backend",
             self.backend],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "SIM_KILL": json.dumps(plan)},
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )  # fmt: skip

    @property
    def runs(self) -> list[Path]:
        """The runs that there are."""
        found = self.folder / "runs"
        return [path for path in found.iterdir() if path.name[0] != "."] if found.exists() else []

    def fresh(self) -> None:
        """Forget the run and all deeds."""
        shutil.rmtree(self.folder / "runs", ignore_errors=True)
        (self.folder / "ledger").write_text("")

    def done(self) -> "Counter[str]":
        """Return what the tool has done, and how often."""
        return Counter((self.folder / "ledger").read_text().splitlines())

    def finish(self, run: Path) -> dict[str, Any]:
        """Resume until the run has ended. About a call in doubt, look whether it was made, as a person would."""
        done = self.call("resume", run)
        found = dict(json.loads(done.stdout)) if done.stdout else {}
        options: list[str] = []
        for doubt in found.get("doubts", []):
            request = json.loads(doubt["request"]) if isinstance(doubt["request"], str) else doubt["request"]
            was_made = self.line.format(**request) in self.done()
            answer = f"done:{self._answer(request)}" if was_made else "retry"
            options += ["--effect", f"{doubt['id']}={answer}"]
        if options:
            done = self.call("resume", run, *options)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def _answer(self, request: Mapping[str, Any]) -> str:
        return json.dumps({"done": self.line.format(**request)})

    def kill_and_resume(self, point: str, n: int, hash: str | None) -> bool:
        """Kill a run at a crash point, resume it, and check all. Return whether it was killed."""
        self.fresh()
        ended = self.call("run", self.scenario, point=point, n=n)
        if ended.returncode == 0:
            return False
        assert ended.returncode == -9, ended.stderr
        if not self.runs:
            return True
        (run,) = self.runs
        copy = self.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(run, copy)
        self.check_audit(copy)
        with open_run(copy) as stored:
            over = stored.info.status == "finished"
        if not over:
            self.finish(run)
        where = (self.backend, point, n)
        assert self.done() == self.deeds, where
        assert gates(run) == [(f"gate-{number}", "used") for number in range(1, self.gates + 1)], where
        self.check_audit(run)
        with open_run(run) as stored:
            assert stored.info.status == "finished", where
            ((asked,),) = stored.query("SELECT count(*) FROM arrivals WHERE kind = 'effect.decision'")
            if hash is not None and not asked:  # a decision about a call in doubt is an input that the whole run lacks
                assert stored.info.hash == hash, where
        again = replay(run, allow=(self.module,), backend="trio" if self.backend == "asyncio" else "asyncio")
        assert again.same, (where, again.difference)
        return True

    def check_audit(self, run: Path) -> None:
        """Each call of the tool that may have been made has its audit record on disk, in an intact chain."""
        with open_run(run) as stored:
            assert stored.audit().problem is None
            begun = Counter(row[0] for row in stored.query("SELECT actor FROM effects WHERE kind = ?", (self.tool,)))
            audited = Counter(
                row.actor for row in stored.events() if row.topic == TOPIC and row.data["what"] == "tool.call"
            )
            assert all(audited[actor] >= count for actor, count in begun.items()), (begun, audited)


def gates(run: Path) -> list[tuple[str, str]]:
    """Return (gate, status) of all gates on record."""
    with open_run(run) as stored:
        return [row[:2] for row in stored.query("SELECT gate, status FROM gates")]
