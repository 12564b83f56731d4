"""Kills around approvals: whatever the moment, no approval is lost, none is used twice, and each call is made once."""

import json
from collections import Counter
from pathlib import Path

import attrs
import pytest

from sim.base import crashpoints
from tests.killing import Killed, gates

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
POINTS = [point for point in crashpoints.POINTS if not point.startswith("resume")]


@pytest.fixture
def desk(tmp_path: Path, request: pytest.FixtureRequest) -> Killed:
    """A folder with the scenario."""
    person = getattr(request, "param", "simulated")
    (tmp_path / "refunds.yaml").write_text(SCENARIO.replace("PERSON", person))
    made = Killed(
        tmp_path, "asyncio", MODULE, "refunds.yaml", PAID, 4, "tool.shop.refund", "{order} {amount}", person == "real"
    )
    made.fresh()
    return made


@pytest.mark.slow
def test_without_a_kill(desk: Killed) -> None:
    """The calls are made once, those above the limit after an approval; asyncio and trio give the same run."""
    done = desk.call("run", "refunds.yaml")
    assert done.returncode == 0, done.stderr
    (run,) = desk.runs
    assert desk.done() == PAID
    assert gates(run) == [(f"gate-{number}", "used") for number in range(1, 5)]
    desk.check_audit(run)
    hash = json.loads(done.stdout)["hash"]
    desk.fresh()
    other = attrs.evolve(desk, backend="trio").call("run", "refunds.yaml")
    assert json.loads(other.stdout)["hash"] == hash


@pytest.mark.slow
@pytest.mark.parametrize("desk", ["simulated", "real"], indirect=True)
def test_tick_mode(desk: Killed) -> None:
    """A tick does not wait for a person: the others go on, and the calls are made once they are approved."""
    done = desk.call("run", "refunds.yaml", "--mode", "tick")
    assert done.returncode == 0, done.stderr
    assert desk.done() == PAID
    assert [status for _, status in gates(desk.runs[0])] == ["used"] * 4


@pytest.mark.parametrize(("point", "n"), [("writer.unnoted", 9), ("effect.recorded", 4)])
@pytest.mark.proof
def test_some_kills(desk: Killed, point: str, n: int) -> None:
    """After a kill, a resumed run makes each call once, with each approval used once, and can be replayed."""
    assert desk.kill_and_resume(point, n, None)


@pytest.mark.parametrize("desk", ["real"], indirect=True)
@pytest.mark.proof
def test_a_kill_between_a_decision_and_its_use(desk: Killed) -> None:
    """A decision that is durable is not lost, although no agent has seen it before the kill."""
    assert desk.kill_and_resume("arrivals.durable", 1, None)


@pytest.mark.proof
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("desk", ["simulated", "real"], indirect=True)
def test_kills_at_every_point(desk: Killed, backend: str) -> None:
    """Whichever crash point a run is killed at: same gates, same calls, and the same hash if nobody was asked."""
    desk = attrs.evolve(desk, backend=backend)
    desk.fresh()
    whole = json.loads(desk.call("run", "refunds.yaml").stdout)["hash"]
    kills = 0
    for point in POINTS:
        for n in (1, 2, 5, 13, 34):
            if not desk.kill_and_resume(point, n, whole if not desk.person else None):
                break
            kills += 1
    assert kills > 20
