"""Kills around approvals: whatever the moment, no approval is lost, none is used twice, and each call is made once."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import attrs
import pytest

from sim import crashpoints
from sim.runner import replay
from sim.store import open_run
from sim.store.audit_chain import TOPIC

ROOT = Path(__file__).parents[2]
MODULE = "tests.tools.clerk"
SCENARIO = """
name: refunds
until: 2h
audit: {}
access: {otherwise: true}
approvals:
  person: PERSON
  simulated: {name: eve, latency: 10m, latency_p95: 20m}
  rules: [{tool: shop.refund, when: args.amount > 50}]
agents:
  - {name: clerk, kind: "tests.tools.clerk:Clerk", count: 2, loop: {min_loop_delay: 1s}}
"""
PAID = Counter({f"clerk-{n}-{k} {amount}": 1 for n in (1, 2) for k, amount in enumerate((70, 20, 90))})
POINTS = [point for point in get_args(crashpoints.Point) if not point.startswith("resume")]


@attrs.frozen
class Desk:
    """One scenario in one folder, run and killed as processes of their own."""

    folder: Path
    backend: str
    person: str

    def call(self, *args: object, **plan: Any) -> "subprocess.CompletedProcess[str]":
        """Run the command; `plan` is when it is killed."""
        plan |= {"ledger": str(self.folder / "ledger"), "person": self.person == "real"}
        return subprocess.run(
            [sys.executable, "-m", MODULE, *map(str, args), "--json", "--allow", MODULE, "--backend", self.backend],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "SIM_CLERK": json.dumps(plan)},
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )

    @property
    def runs(self) -> list[Path]:
        """The runs that there are."""
        found = self.folder / "runs"
        return [path for path in found.iterdir() if path.name[0] != "."] if found.exists() else []

    def fresh(self) -> None:
        """Forget the run and all that was paid."""
        shutil.rmtree(self.folder / "runs", ignore_errors=True)
        (self.folder / "ledger").write_text("")

    def paid(self) -> Counter[str]:
        """Return what the tool has done, and how often."""
        return Counter((self.folder / "ledger").read_text().splitlines())

    def finish(self, run: Path) -> dict[str, Any]:
        """Resume until the run has ended. About a call in doubt, look whether it was made, as a person would."""
        done = self.call("resume", run)
        found = dict(json.loads(done.stdout)) if done.stdout else {}
        options: list[str] = []
        for doubt in found.get("doubts", []):
            request = json.loads(doubt["request"]) if isinstance(doubt["request"], str) else doubt["request"]
            was_made = f"{request['order']} {request['amount']}" in self.paid()
            answer = "done:" + json.dumps({"paid": request["amount"]}) if was_made else "retry"
            options += ["--effect", f"{doubt['id']}={answer}"]
        if options:
            done = self.call("resume", run, *options)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))


@pytest.fixture
def desk(tmp_path: Path, request: pytest.FixtureRequest) -> Desk:
    """A folder with the scenario."""
    person = getattr(request, "param", "simulated")
    (tmp_path / "refunds.yaml").write_text(SCENARIO.replace("PERSON", person))
    made = Desk(tmp_path, "asyncio", person)
    made.fresh()
    return made


def gates(run: Path) -> list[tuple[str, str]]:
    """Return (gate, status) of all gates on record."""
    with open_run(run) as stored:
        return [row[:2] for row in stored.query("SELECT gate, status FROM gates")]


def check_audit(run: Path) -> None:
    """Each call of a tool that may have been made has its audit record on disk, in an intact chain."""
    with open_run(run) as stored:
        assert stored.audit().problem is None
        begun = Counter(row[0] for row in stored.query("SELECT actor FROM effects WHERE kind = 'tool.shop.refund'"))
        audited = Counter(
            row.actor for row in stored.events() if row.topic == TOPIC and row.data["what"] == "tool.call"
        )
        assert all(audited[actor] >= count for actor, count in begun.items()), (begun, audited)


def kill_and_resume(desk: Desk, point: str, n: int, hash: str | None) -> bool:
    """Kill a run at a crash point, resume it, and check all. Return whether it was killed."""
    desk.fresh()
    ended = desk.call("run", "refunds.yaml", point=point, n=n)
    if ended.returncode == 0:
        return False
    assert ended.returncode == -9, ended.stderr
    if not desk.runs:
        return True
    (run,) = desk.runs
    copy = desk.folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(run, copy)
    check_audit(copy)
    with open_run(copy) as stored:
        over = stored.info.status == "finished"
    if not over:
        desk.finish(run)
    where = (desk.backend, point, n)
    assert desk.paid() == PAID, where
    assert gates(run) == [(f"gate-{number}", "used") for number in range(1, 5)], where
    check_audit(run)
    with open_run(run) as stored:
        assert stored.info.status == "finished", where
        ((asked,),) = stored.query("SELECT count(*) FROM arrivals WHERE kind = 'effect.decision'")
        if hash is not None and not asked:  # a decision about a call in doubt is an input that the whole run lacks
            assert stored.info.hash == hash, where
    again = replay(run, allow=(MODULE,), backend="trio" if desk.backend == "asyncio" else "asyncio")
    assert again.same, (where, again.difference)
    return True


def test_without_a_kill(desk: Desk) -> None:
    """The calls are made once, those above the limit after an approval; asyncio and trio give the same run."""
    done = desk.call("run", "refunds.yaml")
    assert done.returncode == 0, done.stderr
    (run,) = desk.runs
    assert desk.paid() == PAID
    assert gates(run) == [(f"gate-{number}", "used") for number in range(1, 5)]
    check_audit(run)
    hash = json.loads(done.stdout)["hash"]
    desk.fresh()
    other = attrs.evolve(desk, backend="trio").call("run", "refunds.yaml")
    assert json.loads(other.stdout)["hash"] == hash


@pytest.mark.parametrize("desk", ["simulated", "real"], indirect=True)
def test_tick_mode(desk: Desk) -> None:
    """A tick does not wait for a person: the others go on, and the calls are made once they are approved."""
    done = desk.call("run", "refunds.yaml", "--mode", "tick")
    assert done.returncode == 0, done.stderr
    assert desk.paid() == PAID
    assert [status for _, status in gates(desk.runs[0])] == ["used"] * 4


@pytest.mark.parametrize(("point", "n"), [("writer.unnoted", 9), ("effect.recorded", 4)])
@pytest.mark.proof
def test_some_kills(desk: Desk, point: str, n: int) -> None:
    """After a kill, a resumed run makes each call once, with each approval used once, and can be replayed."""
    assert kill_and_resume(desk, point, n, None)


@pytest.mark.parametrize("desk", ["real"], indirect=True)
@pytest.mark.proof
def test_a_kill_between_a_decision_and_its_use(desk: Desk) -> None:
    """A decision that is durable is not lost, although no agent has seen it before the kill."""
    assert kill_and_resume(desk, "arrivals.durable", 1, None)


@pytest.mark.proof
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("desk", ["simulated", "real"], indirect=True)
def test_kills_at_every_point(desk: Desk, backend: str) -> None:
    """Whichever crash point a run is killed at: same gates, same calls, and the same hash if nobody was asked."""
    desk = attrs.evolve(desk, backend=backend)
    desk.fresh()
    whole = json.loads(desk.call("run", "refunds.yaml").stdout)["hash"]
    kills = 0
    for point in POINTS:
        for n in (1, 2, 5, 13, 34):
            if not kill_and_resume(desk, point, n, whole if desk.person == "simulated" else None):
                break
            kills += 1
    assert kills > 20
