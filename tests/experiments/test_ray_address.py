"""Which Ray cluster runs trials, without Ray."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sim.experiments.plan import make_sweep
from sim.experiments.ray_workers import RayWorkers
from tests.experiments.test_arms import SCENARIO


@pytest.mark.parametrize(("given", "asked"), [(None, "local"), ("auto", "auto"), ("head:6379", "head:6379")])
def test_only_a_named_cluster_is_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None, asked: str
) -> None:
    """Without an address, Ray is told to begin a cluster on this machine, and not to look for one."""
    addresses: list[Any] = []

    def init(*, address: str | None, **_: object) -> None:
        addresses.append(address)

    ray = SimpleNamespace(init=init, is_initialized=lambda: False, shutdown=lambda: None)
    monkeypatch.setitem(sys.modules, "ray", ray)
    (tmp_path / "bees.yaml").write_text(SCENARIO)
    with RayWorkers(make_sweep(tmp_path / "bees.yaml"), given, None):
        assert addresses == [asked]
