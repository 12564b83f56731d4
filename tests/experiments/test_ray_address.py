"""Which Ray cluster is joined, without Ray."""

import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sim.base import cluster
from sim.base.cluster import join
from sim.base.errors import UsageError
from sim.experiments.plan import make_sweep
from sim.experiments.ray_workers import RayWorkers
from tests.experiments.test_arms import SCENARIO


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The addresses that Ray is told to join, beginning with none; `silent` is one that never answers."""
    addresses: list[Any] = []

    def init(*, address: str | None, **_: object) -> None:
        addresses.append((address, ray._private.utils.get_entrypoint_name()))
        if address == "auto":
            raise ConnectionError("Could not find any running Ray instance.\nMore of it.")
        if "silent" in str(address):
            threading.Event().wait()

    private = SimpleNamespace(utils=SimpleNamespace(get_entrypoint_name=lambda: "sim run --header X:secret"))
    ray = SimpleNamespace(init=init, is_initialized=lambda: False, shutdown=lambda: None, _private=private)
    monkeypatch.setitem(sys.modules, "ray", ray)
    return addresses


@pytest.fixture
def head() -> Iterator[str]:
    """The address of something that listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def test_only_a_named_cluster_is_joined(tmp_path: Path, asked: list[Any], head: str) -> None:
    """Without an address, Ray is told to begin a cluster on this machine, and not to look for one. It does not get the
    command line of the run, which can hold a key.
    """
    (tmp_path / "bees.yaml").write_text(SCENARIO)
    for given in (None, head):
        with RayWorkers(make_sweep(tmp_path / "bees.yaml"), given, None):
            pass
    assert asked == [("local", "sim"), (head, "sim")]


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("127.0.0.1:1", "there is no Ray cluster at 127.0.0.1:1: "),
        ("127.0.0.1:99999", "there is no Ray cluster at 127.0.0.1:99999: "),
        ("auto", "there is no Ray cluster at auto: Could not find any running Ray instance."),
        ("ray://127.0.0.1:1", "an address that begins with ray:// is one of Ray's client server, not of a cluster"),
        ("silent", "nothing at silent answers as a Ray cluster within 0.01 seconds"),
    ],
)
def test_an_address_without_a_cluster_is_named(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch, address: str, sentence: str
) -> None:
    """Where no cluster is, or nothing that answers as one, one sentence says so, and what to give instead."""
    monkeypatch.setattr(cluster, "_JOINED", 0.01 if address == "silent" else 60.0)
    with pytest.raises(UsageError) as found:
        join(address)
    assert str(found.value).startswith(sentence)
    assert "\n" not in str(found.value)
    assert "HOST:PORT" in str(found.value.hint)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Ray as it says itself whether it runs, and where."""
    ray: Any = SimpleNamespace(
        at=None,
        downs=0,
        late=threading.Event(),
        _private=SimpleNamespace(utils=SimpleNamespace(get_entrypoint_name=lambda: "sim run")),
        get_runtime_context=lambda: SimpleNamespace(gcs_address=ray.at),
        is_initialized=lambda: ray.at is not None,
    )

    def init(*, address: str, **_: object) -> None:
        if address == "late":
            ray.late.wait()
        ray.at = "127.0.0.1:6379"

    def shutdown() -> None:
        ray.at, ray.downs = None, ray.downs + 1
        ray.down.set()

    ray.init, ray.shutdown, ray.down = init, shutdown, threading.Event()
    monkeypatch.setitem(sys.modules, "ray", ray)
    yield ray
    cluster._STAYS.clear()


def test_the_last_member_leaves(running: Any) -> None:
    """Ray ends when all that have joined have left, and a second leave of one counts once."""
    first, second = join(None), join("127.0.0.1:6379")
    first.leave()
    first.leave()
    assert running.is_initialized()
    second.leave()
    assert (running.at, running.downs) == (None, 1)
    join(None).leave()
    assert running.downs == 2


def test_a_cluster_of_the_host_program_is_not_left(running: Any) -> None:
    """What the program has joined itself, it leaves itself."""
    running.at = "127.0.0.1:6379"
    join("auto").leave()
    assert running.is_initialized()


def test_another_cluster_than_the_joined_one_is_refused(running: Any) -> None:
    """An address is not ignored because this process is in a cluster already; its other names are the same one."""
    membership = join(None)
    with pytest.raises(
        UsageError, match=r"is in the Ray cluster at 127\.0\.0\.1:6379, and cannot join the one at"
    ) as found:
        join("127.0.0.1:6380")
    assert "ray.shutdown()" in str(found.value.hint)
    join("localhost:6379").leave()
    join("auto").leave()
    assert running.is_initialized()
    membership.leave()
    assert not running.is_initialized()


def test_who_joins_too_late_leaves(running: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """If Ray joins after the time for it, it is ended again, as no member would do so."""
    monkeypatch.setattr(cluster, "_JOINED", 0.01)
    with pytest.raises(UsageError, match=r"answers as a Ray cluster within"):
        join("late")
    running.late.set()
    assert running.down.wait(30)
    assert not running.is_initialized()
