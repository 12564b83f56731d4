"""kill -9 in every window between a tool and its record: no effect of a tool twice, no gate lost, the same hash."""

import json
from collections import Counter
from pathlib import Path

import attrs
import pytest

from sim.base import crashpoints
from tests.killing import Killed, gates

MODULE = "tests.agents.executor.shipper"
POINTS = [point for point in crashpoints.POINTS if not point.startswith("resume")]
CRITERIA = [{"text": "a parcel was sent", "tool": "depot.ship"}, {"text": "it is noted", "file": "note.txt"}]
SCENARIO = {
    "name": "parcels", "until": "2h", "audit": {},
    "approvals": {"simulated": {"name": "eve", "latency": "10m", "latency_p95": "20m"}},
    "executor": {
        "tasks": {
            name: {"goal": "Send it", "type": "clerk", "project": name, "criteria": CRITERIA} for name in ("one", "two")
        }
    },
    "models": {
        "rules": [
            {"use": "confidence", "say": "0.2 Who knows?"},
            {"text": "step 1 of", "call": {"executor.report_uncertainty": {"reason": "Where to?"}}},
            {"text": "<task>*{task}: send*step 2 of", "call": {"depot.ship": {"parcel": "=task"}}},
            {"call": {"workspace.write_file": {"path": "note.txt", "text": "sent"}}},
        ]
    },
    "agents": [
        {"name": "depot", "kind": f"{MODULE}:Depot"},
        {"name": "clerk", "kind": "executor", "count": 2,
         "settings": {"type": "clerk", "tools": ["depot.ship", "workspace.write_file"]}},
    ],
}  # fmt: skip


@pytest.fixture
def parcels(tmp_path: Path) -> Killed:
    """A folder with the scenario: two tasks, each with a gate and an unsafe effect."""
    (tmp_path / "parcels.yaml").write_text(json.dumps(SCENARIO, indent=1))
    deeds = Counter({"one": 1, "two": 1})
    made = Killed(tmp_path, "asyncio", MODULE, "parcels.yaml", deeds, 2, "tool.depot.ship", "{parcel}")
    made.fresh()
    return made


@pytest.mark.slow
def test_without_a_kill(parcels: Killed) -> None:
    """Each parcel is sent once, after its gate; the hash is the same on trio."""
    done = parcels.call("run", "parcels.yaml")
    assert done.returncode == 0, done.stderr
    assert parcels.done() == parcels.deeds
    assert [status for _, status in gates(parcels.runs[0])] == ["used", "used"]
    parcels.fresh()
    other = attrs.evolve(parcels, backend="trio").call("run", "parcels.yaml")
    assert json.loads(other.stdout)["hash"] == json.loads(done.stdout)["hash"]


@pytest.mark.proof
@pytest.mark.parametrize(("point", "n"), [("effect.done", 1), ("effect.recorded", 1)])
def test_a_kill_between_the_effect_and_its_record(parcels: Killed, point: str, n: int) -> None:
    """The effect is done and its outcome is not on record: it is not repeated without asking."""
    assert parcels.kill_and_resume(point, n, None)


@pytest.mark.proof
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_kills_at_every_point(parcels: Killed, backend: str) -> None:
    """Whichever crash point a run is killed at: each parcel once, each gate used once, and the same hash."""
    parcels = attrs.evolve(parcels, backend=backend)
    whole = json.loads(parcels.call("run", "parcels.yaml").stdout)["hash"]
    kills = 0
    for point in POINTS:
        for n in (1, 2, 5, 13, 34):
            if not parcels.kill_and_resume(point, n, whole):
                break
            kills += 1
    assert kills > 15
