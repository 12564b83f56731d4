"""Shards on a Ray cluster of two machines: the hash of one process, also if an actor or a machine is lost."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.base.cluster import join
from sim.base.errors import RunError, UsageError
from sim.kernel.codec import as_sent
from sim.record import open_run
from sim.runner.shards import run_on_shards, watching
from sim.runner.shards.protocol import Order
from sim.runner.shards.ray_shards import RayShard
from tests.helpers import command
from tests.llm.endpoint import Endpoint
from tests.shards.test_shard_calls import ISLES, KEY, _access, _answer, _asked, _figures
from tests.shards.test_stopping import _stop_at
from tests.shards.worlds import with_models, with_travel, world

ray: Any = pytest.importorskip("ray", reason="Ray is not installed: uv run --extra ray pytest -m proof")
pytestmark = [
    pytest.mark.proof,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves its own sockets and files open
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of two machines with two cores each, beside the head, which has none."""
    from ray.cluster_utils import Cluster

    small: Any = {"include_dashboard": False, "object_store_memory": 80 * 2**20}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
    for _ in range(2):
        made.add_node(num_cpus=2, **small)
    made.wait_for_nodes()
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


@pytest.fixture(autouse=True)
def reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python may not connect to the address of this machine in a network, which Ray has for the cluster, in tests."""
    monkeypatch.setattr("sim.base.cluster._reach", lambda address: None)


def shards() -> list[tuple[int, str]]:
    """Return the process and the machine of each shard that is alive."""
    return [
        (one["Pid"], one["Address"]["NodeID"])
        for one in ray._private.state.actors().values()
        if one["State"] == "ALIVE" and "ShardActor" in one["ActorClassName"]
    ]


def test_generated_worlds_have_the_hash_of_one_process(cluster: Any) -> None:
    """Ten generated worlds have the hash, metrics and events of one process, on 1 to 4 actors of two machines.
    In half of them, agents travel."""
    stay = join(cluster.address)  # so that each run need not join
    for number in range(10):
        scenario = (world, with_travel)[number % 2](number)
        count = 1 + number % len(scenario["islands"]["of"])
        one = sim.run(scenario, out=None)
        there = run_on_shards(scenario, f"{count}@ray", ray=cluster.address)
        assert (there.hash, there.events, there.metrics) == (one.hash, one.events, one.metrics), number
        assert there.services["shards"]["restarts"] == 0
    stay.leave()
    assert not ray.is_initialized(), "each run has left the cluster"


@pytest.mark.parametrize("number", [1, 2, 3])
def test_models_inside_the_run_answer_on_a_cluster(cluster: Any, number: int) -> None:
    """Worlds in which agents ask scripted and simulated models, with a ceiling of shares, have the hash and the
    bill of one process."""
    one = sim.run(with_models(number), out=None)
    there = run_on_shards(with_models(number), "2@ray", ray=cluster.address)
    assert (there.hash, there.models, there.unread) == (one.hash, one.models, one.unread)
    assert one.models["total"]["calls"]


def test_calls_of_endpoints_are_made_once_and_no_machine_gets_the_key(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator makes the calls of all actors. One that is killed while calls are under way gets the same answers
    again: each question is asked once, the hash and the bill are those of one process, and no actor gets the key."""
    asked, sent, orders = RayShard.ask, list[bytes](), 0

    def ask(shard: RayShard, order: Order) -> None:
        nonlocal orders
        sent.extend([as_sent(order), as_sent(shard.setup)])
        orders += 1
        if orders == 9:
            os.kill(shards()[0][0], signal.SIGKILL)
        asked(shard, order)

    monkeypatch.setattr(RayShard, "ask", ask)
    with Endpoint(_answer) as endpoint:
        one = sim.run(ISLES, out=None, access=_access(endpoint))
        endpoint.seen.clear()
        there = run_on_shards(ISLES, "3@ray", ray=cluster.address, out=tmp_path, access=_access(endpoint))
        assert max(_asked(endpoint).values()) == 1
    assert (there.hash, _figures(there)) == (one.hash, _figures(one))
    assert there.services["shards"]["restarts"] == 1
    assert not [part for part in sent if KEY.encode() in part or endpoint.url.encode() in part]
    assert sim.replay(str(there.run)).same


def test_a_run_on_a_cluster_is_stopped(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop of all agents reaches the actors, is on record, and is repeated by one process."""
    monkeypatch.setattr(watching, "CALLED_EVERY", 0.0)
    there = run_on_shards(with_travel(6), "2@ray", ray=cluster.address, out=tmp_path, progress=_stop_at(4))
    assert there.stopped_by == "all agents have stopped"
    assert sim.replay(str(there.run)).same


TABLE = "home,n\n" + "".join(f"i{number % 2},{number}\n" for number in range(9))


def test_tables_come_along_and_each_machine_has_a_shard(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine needs none of the files of a scenario: the table of a population comes with it. Shards are spread over
    the machines, and the record is replayed in one process."""
    (tmp_path / "crowd.csv").write_text(TABLE)
    scenario = {**world(3), "agents": [dict(entry) for entry in world(3)["agents"]]}
    crowd = scenario["agents"][-1]
    del crowd["count"]
    crowd |= {"table": "crowd.csv", "state": {}}
    file = tmp_path / "isles.json"
    file.write_text(json.dumps(scenario))
    one = sim.run(file, out=None)
    asked, machines = RayShard.ask, set[str]()

    def ask(shard: RayShard, order: Order) -> None:
        if order.what == "end":
            (tmp_path / "crowd.csv").unlink(missing_ok=True)
            machines.update(machine for _, machine in shards())
        asked(shard, order)

    monkeypatch.setattr(RayShard, "ask", ask)
    result = run_on_shards(file, "2@ray", ray=cluster.address, out=tmp_path)
    assert result.hash == one.hash
    assert len(machines) == 2
    assert result.run is not None
    with open_run(result.run) as run:
        run.verify()
    assert sim.replay(result.run).same


def test_a_killed_actor_and_a_lost_machine_change_nothing(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An actor is killed, then one of two machines is lost in the middle of a run: the shards repeat their orders
    elsewhere, and the hash is that of one process."""
    asked, orders, lost = RayShard.ask, 0, threading.Event()

    def ask(shard: RayShard, order: Order) -> None:
        nonlocal orders
        orders += 1
        if orders == 20:
            os.kill(shards()[0][0], signal.SIGKILL)
        if orders == 60:
            own = ray._private.worker.global_worker.node.node_id
            used = {machine for _, machine in shards()} - {own}
            cluster.remove_node(
                next(one for one in cluster.list_all_nodes() if one.node_id in used), allow_graceful=False
            )
            lost.set()
        asked(shard, order)

    monkeypatch.setattr(RayShard, "ask", ask)
    scenario = {**world(3), "until": "10m"}
    result = run_on_shards(scenario, "2@ray", ray=cluster.address, out=tmp_path)
    assert lost.is_set()
    assert result.hash == sim.run(scenario, out=None).hash
    assert result.services["shards"]["restarts"] >= 2
    assert sim.replay(str(result.run)).same


def test_a_cluster_without_room_is_named(cluster: Any, tmp_path: Path) -> None:
    """More shards than the cluster has cores are refused in one sentence, before anything is written."""
    many = {f"x{number}": [f"x{number}a"] for number in range(9)}
    agents = [{"name": f"x{number}a", "rules": [{"do": {"sleep": {"for": "5s"}}}]} for number in range(9)]
    scenario = {"name": "wide", "until": "20s", "islands": {"latency": "5s", "of": many}, "agents": agents}
    with pytest.raises(UsageError, match=r"has \d+ cores, and each of 9 shards needs one"):
        run_on_shards(scenario, "9@ray", ray=cluster.address, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_machine_with_other_code_is_refused(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose `sim` has other code ends the run before its first event."""
    monkeypatch.setattr("sim.runner.shards.ray_shards.package_hash", lambda: "other")
    with pytest.raises(RunError, match="a machine of the cluster has another version of sim"):
        run_on_shards(world(3), "1@ray", ray=cluster.address)


class Absent:
    """Stands for a class that a machine cannot import."""

    def __init__(self) -> None:
        raise ImportError("there is no sim here")

    def hello(self) -> bytes:
        """Is never called."""
        return b""

    def begin(self, setup: bytes) -> bytes:
        """Is never called."""
        return setup


def test_a_machine_without_sim_is_named(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that cannot import the code of a shard ends the run with its reason, and is not tried again."""
    monkeypatch.setattr("sim.runner.shards.ray_shards.ShardActor", Absent)
    with pytest.raises(RunError, match=r"a machine of the Ray cluster cannot make a shard: .*Error"):
        run_on_shards(world(3), "1@ray", ray=cluster.address)


def test_the_command_runs_on_a_cluster(cluster: Any, tmp_path: Path) -> None:
    """`sim run --shards 2@ray --ray ADDRESS` runs there, and its summary has the shards."""
    file = tmp_path / "isles.json"
    file.write_text(json.dumps(world(3)))
    code, out, err = command("run", file, "--no-record", "--shards", "2@ray", "--ray", cluster.address)
    assert code == 0, err
    assert "shards" in out
