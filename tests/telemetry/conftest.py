from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest

from sim.inspect.telemetry import Exporter
from sim.record import HashRecorder
from sim.runner import RunController
from sim.scenario.assembly.build import build
from sim.scenario.loading import loads
from tests.helpers import exposition

EVERYTHING = Path(__file__).with_name("everything.yaml").read_text(encoding="utf-8")


@attrs.frozen
class Watched:
    """A run with its exporter."""

    runner: RunController
    exporter: Exporter
    keeper: HashRecorder

    def text(self) -> str:
        """What is exposed now, in the text format."""
        return exposition(self.exporter)[0].decode()

    def run(self) -> "Watched":
        """Run to the end."""
        assert anyio.run(self.runner.run) == "finished"
        return self


@pytest.fixture
def watch() -> Callable[..., Watched]:
    """Build a scenario, and watch what becomes of it."""

    def make(text: str, *overrides: str, agents: tuple[str, ...] = (), mode: Any = "autonomous", **how: Any) -> Watched:
        keeper = HashRecorder()
        simulation = build(loads(text, "test.yaml", overrides), recorder=keeper)
        runner = RunController(simulation, until_ns=simulation.scenario.end_ns, mode=mode, **how)
        exporter = Exporter(agents)
        exporter.begun(runner)
        return Watched(runner, exporter, keeper)

    return make


@pytest.fixture
def everything() -> str:
    """A scenario that has nearly all there is to measure."""
    return EVERYTHING
