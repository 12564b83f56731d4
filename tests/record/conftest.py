"""Fixtures of the run store's tests: a new run, and one that is recorded to its end."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sim.record import RunHeader, RunRecorder, create_run

Start = Callable[..., RunRecorder]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Start runs below `tmp_path / "runs"`; header fields by name."""

    def start(scenario: str = "name: town\n", **header: Any) -> RunRecorder:
        fields: dict[str, Any] = {
            "name": "town",
            "seed": 7,
            "mode": "autonomous",
            "backend": "asyncio",
        } | header
        return RunRecorder(create_run(tmp_path / "runs", RunHeader(**fields), scenario))

    return start


@pytest.fixture
def record(start: Start) -> Callable[..., Path]:
    """Record events (topic, data) of one actor to the end and return the run's folder."""

    def record(*events: tuple[str, Any], **header: Any) -> Path:
        recorder = start(**header)
        for position, (topic, data) in enumerate(events):
            recorder.event((position * 10**9, 0, 0, 3, position, "a1", topic, data, (3, position)))
        recorder.finish("finished", {"agents": len(events)}, 10**9, {"note": "done"})
        return recorder.folder

    return record
