"""Worker processes for model calls on a Ray cluster: the same run, no key in the cluster, and nothing billed twice."""

import os
import re
import secrets
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.base.errors import UsageError
from sim.llm.access import Access
from tests.helpers import command
from tests.llm.endpoint import Endpoint, Seen
from tests.llm.test_worker_kills import AGENTS, TEXT, Caller, _on_record, answer

ray: Any = pytest.importorskip("ray", reason="Ray is not installed: uv run --extra ray pytest -m proof")
pytestmark = [
    pytest.mark.proof,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves its own sockets and files open
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

KEY = f"sk-{secrets.token_hex(16)}"  # in no file: Ray copies the tree of trials, which has these tests
ROUNDS = 12
CONTROL = b"what can be found, is found"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of two machines with two cores each, beside the head."""
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


def scenario(folder: Path) -> Path:
    """Write a scenario whose agents make calls."""
    file = folder / "callers.yaml"
    text = TEXT.replace("UNTIL", f"{ROUNDS * 100}ms").replace("LATENCY", "latency: 80ms,")
    file.write_text(text.replace("AGENTS", str(AGENTS)))
    return file


def run(folder: Path, endpoint: Endpoint, **workers: Any) -> Any:
    """Run it, with the requests of this run alone in the log of the endpoint."""
    endpoint.seen.clear()
    access = Access(("openai:m",), base_url=endpoint.url, api_key=KEY)
    return sim.run(scenario(folder), access=access, out=folder / "runs", kinds={"caller": Caller}, **workers)


def actors() -> dict[str, tuple[int, str]]:
    """Return the process and the machine of each worker that is alive, by the name that Ray gives it."""
    found = ray._private.state.actors()
    return {
        name: (one["Pid"], one["Address"]["NodeID"])
        for name, one in found.items()
        if one["State"] == "ALIVE" and "WorkerActor" in one["ActorClassName"]
    }


def holders(cluster: Any, texts: tuple[bytes, ...]) -> dict[bytes, list[str]]:
    """Return by text who has it: files of the session, and the scheduler, store and tables of each machine."""
    found: dict[bytes, list[str]] = {text: [] for text in texts}

    def look(where: str, content: bytes) -> None:
        for text in texts:
            if text in content:
                found[text].append(where)

    for path in Path(cluster.head_node.get_session_dir_path()).rglob("*"):
        if path.is_file():
            look(str(path), path.read_bytes())
    for node in cluster.list_all_nodes():
        for kind in {"raylet", "gcs_server"} & node.all_processes.keys():
            for one in node.all_processes[kind]:
                for content in (*private(one.process.pid), *stored(one.process.pid)):
                    look(kind, content)
    return found


def private(pid: int) -> Iterator[bytes]:
    """Yield what a process of this machine has in memory of its own."""
    with Path(f"/proc/{pid}/maps").open() as maps, Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in maps:
            area = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw-p", line)
            if area is not None:
                start, end = (int(number, 16) for number in area.groups())
                with suppress(OSError):  # what is mapped there cannot be read
                    memory.seek(start)
                    yield memory.read(end - start)


def stored(pid: int) -> Iterator[bytes]:
    """Yield what is in the files that a process has open without a name, as those of its store of objects."""
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            if "plasma" in str(path.readlink()):
                with path.open("rb", 0) as file:
                    at, end = 0, os.fstat(file.fileno()).st_size
                    while at < end:
                        at = os.lseek(file.fileno(), at, os.SEEK_DATA)  # an error: there is no more
                        hole = os.lseek(file.fileno(), at, os.SEEK_HOLE)
                        yield os.pread(file.fileno(), hole - at, at)
                        at = hole


def test_a_cluster_gives_the_same_run_and_sees_no_key(tmp_path: Path, cluster: Any) -> None:
    """Workers on two machines give the hash of a run without workers. Neither a file of the session nor the memory of
    a process of the cluster (store of objects, scheduler, tables) has the key, the address, or the command line.
    """
    seen: set[str] = set()
    with Endpoint(answer) as endpoint:
        plain = run(tmp_path, endpoint)

        def look(seen_: Seen) -> Any:
            if seen_.number == AGENTS * ROUNDS // 2:
                places.update(actors())
                kept.append(ray.put(CONTROL * 10_000))
                found.update(holders(cluster, (KEY.encode(), CONTROL)))
                jobs.extend(one["Entrypoint"] for one in ray._private.state.jobs())
            return answer(seen_)

        places: dict[str, tuple[int, str]] = {}
        kept: list[Any] = []
        found: dict[bytes, list[str]] = {}
        jobs: list[str] = []
        endpoint.script = look
        result = run(tmp_path, endpoint, edge_workers="2@ray", ray=cluster.address)
        seen = {one.headers["authorization"] for one in endpoint.seen}
    assert (result.status, result.hash) == ("finished", plain.hash)
    assert result.models["edge_workers"] == {
        "processes": 2, "on_ray": True, "replaced": 0, "missing": 0, "interrupted": 0, "counted_late": 0,
    }  # fmt: skip
    assert len({machine for _, machine in places.values()}) == 2, "each machine has one"
    assert seen == {f"Bearer {KEY}"}
    assert found[KEY.encode()] == []
    assert found[CONTROL] != [], "the search finds what is there"
    assert set(jobs) == {"sim"}
    assert not ray.is_initialized(), "the run has left the cluster"


def test_a_killed_worker_and_a_lost_machine_bill_nothing_twice(tmp_path: Path, cluster: Any) -> None:
    """A worker is killed, then one of two machines is lost. The hash is that of a run without workers; by the log of
    the endpoint, each request is the answer of its call, or an interrupted one on record. The summary counts both.
    """
    lost = threading.Event()

    def kill() -> None:
        machine = victim().node_id
        os.kill(next(process for process, other in actors().values() if other != machine), signal.SIGKILL)

    def lose() -> None:
        machine = victim()
        there = [process for process, other in actors().values() if other == machine.node_id]
        cluster.remove_node(machine, allow_graceful=False)
        for process in there:  # here it outlives its machine for a while, and could answer all that is left
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        lost.set()

    def victim() -> Any:
        """Return the machine that is lost: not that of the run itself."""
        own = ray._private.worker.global_worker.node.node_id
        used = {machine for _, machine in actors().values()} - {own}
        return next(one for one in cluster.list_all_nodes() if one.node_id in used)

    at = {AGENTS * 2: kill, AGENTS * 5: lose}

    def script(seen: Seen) -> Any:
        if (act := at.pop(seen.number, None)) is not None:
            threading.Thread(target=act).start()
        if seen.number > AGENTS * 8:
            lost.wait(20)
        return answer(seen)

    with Endpoint(answer) as endpoint:
        plain = run(tmp_path, endpoint)
        endpoint.script = script
        result = run(tmp_path, endpoint, edge_workers="2@ray", ray=cluster.address)
        received = Counter(seen.body["messages"][0]["content"] for seen in endpoint.seen)
    assert lost.is_set()
    assert (result.status, result.hash) == ("finished", plain.hash)
    figures = result.models["edge_workers"]
    assert figures["replaced"] + figures["missing"] >= 2, figures
    calls, again = _on_record(Path(result.run))
    assert set(calls.values()) == {1}, "each call has one answer"
    assert calls.keys() == received.keys()
    assert not {text: number for text, number in received.items() if number > 1 + again[text]}
    assert figures["interrupted"] == again.total()
    assert sim.replay(Path(result.run), kinds={"caller": Caller}).same


def test_a_cluster_without_room_is_named(tmp_path: Path, cluster: Any) -> None:
    """More workers than the cluster has cores are refused before the run begins, in one sentence."""
    with (
        Endpoint(answer) as endpoint,
        pytest.raises(UsageError, match=r"has \d+ cores, and each of 9 worker processes"),
    ):
        run(tmp_path, endpoint, edge_workers="9@ray", ray=cluster.address)
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def test_the_command_runs_on_a_cluster(tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sim run --edge-workers 1@ray --ray ADDRESS` makes its calls there, and its summary says so."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    file = tmp_path / "asker.yaml"
    file.write_text(ASKER)
    with Endpoint(answer) as endpoint:
        given = ["run", file, "--no-record", "--model", "openai:m", "--base-url", endpoint.url]
        code, out, err = command(*given, "--edge-workers", "1@ray", "--ray", cluster.address)
    assert code == 0, err
    assert "calls were made by 1 worker process on a Ray cluster" in out


ASKER = """
name: asker
until: 10s
models: {latency: 1s, max_tokens: 20}
agents: [{name: asker, loop: {min_loop_delay: 5s}, rules: [{do: {ask: {prompt: hello}}}]}]
"""
