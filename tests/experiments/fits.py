"""Fits whose runs are a formula instead of a simulation, so that many are tried in little time."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from sim.experiments.experiment import missing
from sim.experiments.fitting import Searching
from sim.experiments.folder import begin
from sim.experiments.measure import Measured
from sim.experiments.plan import Plan
from sim.experiments.results import Results
from sim.experiments.samples import Samples
from sim.experiments.trial import Trial

SCENARIO = """
name: growth
until: 6s
agents:
  - name: plant
    state: {rate: 1.0, start: 0.0, height: 0.0}
    loop: {min_loop_delay: 1s}
    rules: [{do: noop, set: {height: "=start + rate * now + gauss(0, 0.3)"}}]
metrics: {every: 1s, values: {height: "total('plant', 'height')"}}
"""
RATE, START = "agents.plant.state.rate=0.0..5.0", "agents.plant.state.start=0.0..8.0"

Formula = Callable[[Results, int, int], Measured]
"""Returns what a run of a candidate with a seed shows."""


def curve(rate: float, start: float, noise: float = 0.0) -> list[float]:
    """What the metric shows at 1 s to 5 s: the height of the step before."""
    return [start + rate * (second - 1) + noise for second in range(1, 6)]


def placed(folder: Path) -> Path:
    """Return a folder with the scenario, and data of a plant with the rate 2 and the start 3."""
    (folder / "growth.yaml").write_text(SCENARIO)
    rows = "".join(f"{second},{value}\n" for second, value in enumerate(curve(2, 3), 1))
    (folder / "data.csv").write_text(f"time,height\n{rows}")
    (folder / "end.csv").write_text("height\n13\n")
    return folder


def noise_of(point: int, seed: int) -> float:
    """A shift of a run that depends on its seed alone: random numbers in common."""
    return (seed * 7919 % 11 - 5) / 20


def run(point: int, seed: int, values: Sequence[float | None], step: int = 1) -> Measured:
    """Return a trial that was measured, and shows these values at 1 s, 2 s, ..."""
    series = Samples(tuple(map(float, range(1, len(values) + 1))), {"height": tuple(values)}, step)
    trial = Trial(
        point, seed, "autonomous", 0, outcomes={"height": values[-1]}, own=("height",), hash=f"{point} {seed}"
    )
    return Measured(trial, series=series)


def failed(point: int, seed: int) -> Measured:
    """Return a trial that failed."""
    return Measured(Trial(point, seed, "autonomous", 0, "failed", "the plant was eaten"))


def values_of(results: Results, point: int) -> tuple[float, ...]:
    """Return the values of a candidate."""
    return tuple(map(float, results.plan.points[point].values()))


def grown(results: Results, point: int, seed: int) -> Measured:
    """Return what a plant shows whose noise is that of its seed."""
    rate, start = values_of(results, point)
    return run(point, seed, curve(rate, start, noise_of(point, seed)))


def simulated(results: Results, wanted: list[tuple[int, int]], formula: Formula = grown) -> None:
    """Add trials that a formula has measured instead of a run."""
    results.add([formula(results, point, seed) for point, seed in wanted])


def carried_out(plan: Plan, folder: Path, batches: int = 1000, formula: Formula = grown) -> Results:
    """Return the results of a plan whose runs are a formula, after so many batches at most."""
    with ExitStack() as stack:
        results = stack.enter_context(closing(begin(plan, folder)))
        search = Searching(results)
        for _ in range(batches):
            while wanted := missing(results):
                simulated(results, wanted, formula)
            if not search.advance():
                break
        stack.pop_all()  # the caller closes them
        return results
