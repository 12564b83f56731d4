"""Experiments on a Ray cluster: the same results as on one machine, also if a machine is lost."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.base.errors import UsageError
from sim.experiments.experiment import carry_out, evaluate
from sim.experiments.folder import begin
from sim.experiments.plan import Plan, TrialHosting, make_sweep
from sim.experiments.pool import Inline
from sim.experiments.workers import workers_of
from tests.experiments.test_arms import SCENARIO
from tests.helpers import command

ray: Any = pytest.importorskip("ray", reason="Ray is not installed: uv run --extra ray pytest -m proof")
pytestmark = [
    pytest.mark.proof,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves its own sockets and files open
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

VARY = ["agents.bee.state.power=0.0..1.0:20"]


@pytest.fixture
def bees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scenario in the present folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "bees.yaml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A cluster of two machines with one core each, beside the head."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    made.add_node(num_cpus=1)
    made.add_node(num_cpus=1)
    made.wait_for_nodes()
    ray.init(address=made.address, log_to_driver=False, logging_level="error")
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def table(folder: Path) -> list[str]:
    """Return the lines of the table without what the machine decides."""
    lines = (folder / "results.csv").read_text().splitlines()
    heads = lines[0].split(",")
    kept = [place for place, name in enumerate(heads) if name not in ("wall_seconds", "cpu_seconds", "run")]
    return [",".join(line.split(",")[place] for place in kept) for line in lines]


def test_a_local_cluster_gives_the_same_rows(bees: Path) -> None:
    """`--on ray` has the plan, the rows and the hashes of processes of this machine; records come back."""
    given = ["sweep", bees, "--vary", VARY[0], "--seeds", 3, "--record"]
    for on, out in (([], "here"), (["--on", "ray"], "there")):
        code, _, err = command(*given, *on, "--to", out, "--json")
        assert code == 0, err
    assert table(Path("here")) == table(Path("there"))
    runs = sorted((Path("there") / "runs").iterdir())
    assert len(runs) == 60
    assert sim.replay(runs[0]).same


def test_without_an_address_no_other_cluster_is_joined(bees: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--on ray` begins a cluster on this machine, whatever the environment names: keys travel with trials."""
    from sim.experiments.ray_workers import RayWorkers

    monkeypatch.setenv("RAY_ADDRESS", "192.0.2.1:6379")
    with RayWorkers(make_sweep(bees, vary=VARY), None, None):
        assert not ray.get_runtime_context().gcs_address.startswith("192.0.2.1")
        assert len(ray.nodes()) == 1


def test_arms_on_a_cluster(bees: Path) -> None:
    """The past travels to the machines, and arms have the same differences."""
    run = Path(sim.run(bees, out="runs", seed=4).run or "")
    told = []
    for on in ([], ["--on", "ray"]):
        arm = ["--arm", "lazy:agents.bee.rules=[{do: noop}]"]
        code, out, err = command("branch", run.name, "--at", "4s", *arm, "--seeds", 6, *on, "--json")
        assert code == 0, err
        told.append(json.loads(out))
    here, there = told
    assert here["rows"] == there["rows"]
    assert here["differences"] == there["differences"]
    assert here["reached"] == there["reached"]


def test_recorded_arms_name_their_past(bees: Path) -> None:
    """A recorded arm that comes back says which run it comes from, and nothing else is left in the folder of runs."""
    run = Path(sim.run(bees, out="runs", seed=4).run or "")
    arm = ["--arm", "lazy:agents.bee.rules=[{do: noop}]"]
    code, out, err = command("branch", run.name, "--at", "4s", *arm, "--seeds", 2, "--record", "--on", "ray", "--json")
    assert code == 0, err
    found = sorted((Path(json.loads(out)["folder"]) / "runs").iterdir())
    assert len(found) == 4
    for path in found:
        with sim.open(path) as stored:
            assert (stored.info.origin or {})["run"] == run.name


def test_a_machine_that_is_lost_costs_no_row(bees: Path, cluster: Any) -> None:
    """One of two machines is killed in the middle: its trials are tried again, and the rows are the same."""
    from sim.experiments.ray_workers import RayWorkers

    plan = make_sweep(bees, vary=VARY, count=10)
    here = _rows(plan, Inline())
    results = begin(plan)
    done = 0
    for _ in carry_out(results, RayWorkers(plan, None, None), TrialHosting()):
        done += 1
        if done == 20:
            victim = next(node for node in cluster.list_all_nodes() if node is not cluster.head_node)
            cluster.remove_node(victim, allow_graceful=False)
    assert done == 200
    there = [(row.label, row.seeds, row.failed, row.outcomes) for row in evaluate(results)]
    results.close()
    assert here == there


def _rows(plan: Plan, workers: Inline) -> list[Any]:
    results = begin(plan)
    for _ in carry_out(results, workers, TrialHosting()):
        pass
    rows = [(row.label, row.seeds, row.failed, row.outcomes) for row in evaluate(results)]
    results.close()
    return rows


def test_machines_share_no_answers(bees: Path) -> None:
    """What needs files that all machines see is refused."""
    with pytest.raises(UsageError, match="machines share no answers"):
        workers_of(make_sweep(bees, vary=VARY, answers="all"), bees.parent, on="ray")
