"""W9: a run made, made and recorded, and made again from its record. An operation is one action of an agent.

Each action is one event. The replay compares every event with the record.
"""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.workload import Meter, Workload

W9 = Workload("W9", "actions of a run", (1_000,), full=(10_000,), bases=("sim, nothing kept",))

_SCENARIO = """
name: replay
until: {times}s
agents:
  - name: a
    count: {agents}
    loop: {{min_loop_delay: 1s}}
    rules: [{{do: {{write: {{artifact: "=me", content: "=now"}}}}}}]
"""


@contextmanager
def _scenario(agents: int, times: int) -> Any:
    root = Path(tempfile.mkdtemp(prefix="sim-benchmark-"))
    try:
        path = root / "replay.yaml"
        path.write_text(_SCENARIO.format(agents=agents, times=times))
        yield path
    finally:
        shutil.rmtree(root)


def _run(kept: bool) -> Callable[[Meter, Any, int, int], None]:
    def program(meter: Meter, lib: Any, agents: int, times: int) -> None:
        with _scenario(agents, times) as path:
            meter.begin()
            found = lib.run(path, out=path.parent / "runs" if kept else None)
            meter.end(found.actions)

    return program


W9.peer("sim, nothing kept", speed=25_000)(_run(kept=False))
W9.peer("sim, recorded", speed=25_000)(_run(kept=True))


@W9.peer("sim, replay", speed=25_000)
def replay(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """The run is recorded first, which is not measured."""
    with _scenario(agents, times) as path:
        made = lib.run(path, out=path.parent / "runs")
        meter.begin()
        found = lib.replay(made.run)
        meter.end(made.actions)
        if not found.same:
            raise RuntimeError(found.difference)
