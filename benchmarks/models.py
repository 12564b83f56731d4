"""Models that people leave other tools for, as scenario files and as classes of agents: what W12 to W14 share.

All peers step their agents in a new order at each tick, and sample the same metric in each tenth tick. What is
measured is the run alone, from its first step until its record is closed and checked; loading and building are not.
"""

import random
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from benchmarks.workload import MASK, MULTIPLIER, Meter, Workload

EVERY = 10
"""Ticks between two samples."""

HEAD = """\
name: model
until: {times}s
execution: {{use_autonomous_loops: false, tick: {{period: 1s, order: shuffled}}}}
metrics: {{every: 10s, values: {metrics}}}
"""


def compare(workload: Workload, text: Callable[[int], str], kinds: Mapping[str, Any], speed: float) -> None:
    """Register a scenario as peers: with rules and with a class, each recorded and with samples only.

    Args:
        workload: the workload.
        text: returns the scenario for a number of agents; `BEHAVIOUR` in it stands for how the agents act.
        kinds: `rules`, which is that in YAML; `class`, which returns a class of agents; and `metrics`.
        speed: rough turns a second.
    """
    for form in ("yaml", "class"):
        for level in ("all", "samples"):
            name = f"sim, {form}" + ("" if level == "all" else ", samples")

            def program(meter: Meter, lib: Any, agents: int, times: int, form: str = form, level: Any = level) -> None:
                head = HEAD.format(times=times, metrics=kinds["metrics"])
                behaviour = kinds["rules"] if form == "yaml" else "kind: model"
                made = {"model": kinds["class"]()} if form == "class" else {}
                run(meter, head + text(agents).replace("BEHAVIOUR", behaviour), level, made)

            program.__doc__ = f"The scenario with {form}, recorded at the level `{level}`."
            workload.peer(name, speed=speed)(program)


def run(meter: Meter, text: str, level: Literal["all", "samples"], kinds: Mapping[str, Any]) -> None:
    """Measure one run of a scenario."""
    import sim

    with tempfile.TemporaryDirectory(prefix="sim-benchmark-") as folder:
        file = Path(folder) / "model.yaml"
        file.write_text(text, encoding="utf-8")
        result = sim.run(
            file, seed=1, recording=level, out=folder, kinds=kinds, begun=lambda runner: meter.begin(),
        )  # fmt: skip
        meter.end(result.iterations)


def mesa(meter: Meter, lib: Any, model: Any, agents: int, times: int, sample: Callable[[Any], object]) -> None:
    """Measure the steps of a Mesa model: its agents in a shuffled order, and a sample in each tenth step."""
    samples = []
    meter.begin()
    for tick in range(times):
        model.agents.shuffle_do("step")
        if tick % EVERY == 0:
            samples.append(sample(model))
    meter.end(agents * times)


def steps(meter: Meter, agents: list[Any], times: int, sample: Callable[[], object]) -> None:
    """Measure plain Python: a method of each object, in a shuffled order, and a sample in each tenth step."""
    draw, samples = random.Random(1), []
    meter.begin()
    for tick in range(times):
        draw.shuffle(agents)
        for one in agents:
            one.step()
        if tick % EVERY == 0:
            samples.append(sample())
    meter.end(len(agents) * times)


def network(agents: int) -> list[tuple[int, int]]:
    """Return the edges of a network in which each node has about four neighbours; the same for all peers."""
    state, edges = 1, dict[tuple[int, int], None]()
    for node in range(agents):
        state = state * MULTIPLIER + 1 & MASK
        for other in ((node + 1) % agents, state % agents):
            if other != node:
                edges[min(node, other), max(node, other)] = None
    return list(edges)


def side(agents: int) -> int:
    """Return the columns and rows of a grid of which one place in five is free."""
    return next(size for size in range(2, 10_000) if size * size * 0.8 >= agents)
