"""Benches made up trial by trial."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from sim.experiments.bench.plan import make_bench
from sim.experiments.bench.rows import Bench, bench_of, evaluate
from sim.experiments.trial import Trial
from tests.viewer.conftest import browser as browser  # the same Chromium

SCENARIO = """
name: made
description: Made up.
seed: 1
agents: [{name: a, count: 2, state: {x: 1}, rules: [{do: noop}]}]
"""
SESSION: Mapping[str, Any] = {
    "began": "2026-01-02T03:04:05.678Z", "seconds": 1.5, "jobs": 2,
    "machine": {"processor": "P", "cores": 2, "system": "S", "release": "R"}, "versions": {"sim": "1"},
}  # fmt: skip

Made = Callable[..., Bench]


def cell_of(point: int, seed: int, mode: str, **figures: Any) -> Trial:
    """Return a run with plain figures, some of them changed."""
    plain: dict[str, Any] = {
        "basis": "service", "makespan": 100.0, "wall_seconds": 2.0, "cpu_seconds": 1.0, "agents": 2, "iterations": 50,
        "actions": 40, "events": 90, "errors": 0, "calls": 20, "in_flight": 2.0,
        "concurrency": ((0.0, 1.0), (50.0, 3.0)),
        "waiting": 10.0, "waits": 0.1, "hash": "h", "outcomes": {"m": 5.0},
    }  # fmt: skip
    return attrs.evolve(Trial(point, seed, mode, 0), **(plain | figures))


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Evaluate made-up runs of a plan: `figures(point, seed, mode)` says what differs from plain ones."""

    def make(
        modes: tuple[str, ...], figures: Callable[[int, int, str], Mapping[str, Any]], *, text: str = SCENARIO,
        sessions: Sequence[Mapping[str, Any]] = (SESSION,), count: int = 3, **options: Any,
    ) -> Bench:  # fmt: skip
        file = tmp_path / "made.yaml"
        file.write_text(text, encoding="utf-8")
        plan = make_bench(file, modes=modes, count=count, **options)
        trials = [
            cell_of(point, seed, mode, **figures(point, seed, mode))
            for point in range(len(plan.points) // plan.together)
            for seed in plan.some_seeds(count)
            for mode in bench_of(plan).modes
        ]
        return evaluate(plan, reversed(trials), 0, sessions)

    return make
