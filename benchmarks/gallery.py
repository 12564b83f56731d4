"""Three models of docs/gallery.md beside a published table, and beside Mesa: its table is what this prints.

    uv run --group bench python -m benchmarks.gallery culture --seeds 20

Each model runs with the seeds 1, 2, ...; of Mesa it is the example of the same name that comes with it, with the same
settings. A `±` is half of the 95 % interval of a mean over seeds.
"""

from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from itertools import accumulate
from statistics import fmean
from typing import Any

import attrs

import sim
from benchmarks.tables import SCENARIOS, Measured, Run, Table, measure
from sim.experiments.estimate import Estimate

Series = Mapping[str, Sequence[float]]
"""By name, a value after each turn of a run."""

# -- Axelrod's culture: beside his table

AXELROD = {
    (5, 5): 1.0, (5, 10): 3.2, (5, 15): 20.0, (10, 5): 1.0, (10, 10): 1.0, (10, 15): 1.4, (15, 5): 1.0, (15, 10): 1.0,
    (15, 15): 1.2,
}  # fmt: skip
"""By features and traits, the mean number of stable regions over ten runs (Axelrod 1997, table 2)."""
RUNS = 10


def regions(features: int, traits: int, seed: int) -> float:
    """Return how many regions are left when no village of `scenarios/culture.yaml` can learn any more."""
    changed = [f"agents.village.state.{key}={value}" for key, value in (("features", features), ("traits", traits))]
    metrics = _run("culture", changed, seed)
    if metrics["open"][-1]:
        raise ValueError(f"{features} features of {traits} traits, seed {seed}: not stable at the end of the run")
    return metrics["regions"][-1]


def culture(seeds: int, run: Run, cells: Sequence[tuple[int, int]] = tuple(AXELROD)) -> Table:
    """Return the table of Axelrod beside ours."""
    jobs = [(*cell, seed) for cell in cells for seed in _seeds(seeds)]
    found = iter(list(run(regions, *zip(*jobs, strict=True))))
    rows = []
    for features, traits in cells:
        values = [next(found) for _ in _seeds(seeds)]
        low, high = predicted(values, RUNS)
        published = f"{AXELROD[features, traits]:.1f}"
        rows.append((str(features), str(traits), published, _shown(Estimate.of(values)), f"{low:.1f} to {high:.1f}"))
    return ("features", "traits", "published", f"{seeds} seeds", f"mean of {RUNS} runs"), rows


def predicted(values: Sequence[float], runs: int) -> tuple[float, float]:
    """Return where 95 % of the means of so many runs lie, if each run is as likely as each of `values`.

    The distribution of the mean is computed, not drawn. No interval of Student is asked, because numbers of regions are
    far from normally distributed: most runs with many features end with one, and few with two.
    """
    sums = {0.0: 1.0}
    for _ in range(runs):
        after = dict[float, float]()
        for total, share in sums.items():
            for value in values:
                after[total + value] = after.get(total + value, 0.0) + share / len(values)
        sums = after
    totals = sorted(sums)
    below = list(accumulate(sums[total] for total in totals))
    return totals[bisect(below, 0.025)] / runs, totals[bisect(below, 0.975)] / runs


# -- models that come with Mesa


@attrs.frozen
class Pair:
    """A scenario of the gallery, and the same model in Mesa.

    Args:
        title: the settings, for readers.
        scenario: the name of the scenario.
        changed: what is set in the scenario.
        model: the module in `mesa.examples.advanced` and the class.
        settings: the arguments of the class.
        series: by the name of a metric, what Mesa's model says of it after a step.
        measured: by their names, the numbers that are compared, from the series of a run.
        living: the series that are all 0 when a run is over before its time, because no agent lives any more.
    """

    title: str
    scenario: str
    changed: Sequence[str]
    model: tuple[str, str]
    settings: Mapping[str, Any]
    series: Mapping[str, Callable[[Any], float]]
    measured: Mapping[str, Callable[[Series], float]]
    living: Sequence[str] = ()

    def ours(self, turns: int, seed: int) -> list[float]:
        """Return what is measured of a run of the scenario."""
        metrics = _run(self.scenario, self.changed, seed, f"{turns + 1}s")
        # A sample is taken before the turns of its time: those after each turn begin with the third, at 2 s.
        after = {name: values[2:] for name, values in metrics.items()}
        assert self._over(after) or {len(values) for values in after.values()} == {turns}
        return [measure(after) for measure in self.measured.values()]

    def mesa(self, turns: int, seed: int) -> list[float]:
        """Return what is measured of a run of Mesa's model."""
        model, step = _mesa_model(self.model, self.settings, seed)
        after = {name: list[float]() for name in self.series}
        for _ in range(turns):
            step()
            for name, read in self.series.items():
                after[name].append(read(model))
            if self._over(after):
                break
        return [measure(after) for measure in self.measured.values()]

    def _over(self, after: Series) -> bool:
        return bool(self.living) and not any(after[name][-1] for name in self.living)


def _mesa_model(where: tuple[str, str], settings: Mapping[str, Any], seed: int) -> tuple[Any, Callable[[], Any]]:
    """Return a model of Mesa, and what does a step of it."""
    module, name = where
    made = getattr(import_module(f"mesa.examples.advanced.{module}.model"), name)
    if name != "WolfSheep":
        model = made(seed=seed, **settings)
        model.datacollector = import_module("mesa").DataCollector()  # without its own, which has a row for each agent
        return model, model.step
    simulator = import_module("mesa.experimental.devs").ABMSimulator()
    return made(seed=seed, simulator=simulator, **settings), partial(simulator.run_for, 1)


def _collected(name: str, model: Any) -> float:
    """Return what the model has collected at the end of the step, before grass grows again."""
    return float(model.datacollector.model_vars[name][-1])


def _mean(name: str, series: Series) -> float:
    return fmean(series[name])


def _most(name: str, series: Series) -> float:
    return max(series[name])


def _calm(series: Series) -> float:
    return fmean(active < 10 for active in series["active"])


def _died_out(series: Series) -> float:
    return float(series["sheep"][-1] == 0)


def _wolves(title: str, changed: Sequence[str], settings: Mapping[str, Any]) -> Pair:
    return Pair(
        title=title, scenario="wolf_sheep", changed=changed, model=("wolf_sheep", "WolfSheep"),
        settings={"width": 30, "height": 30, **settings},
        living=["sheep", "wolves"],
        series={
            "sheep": partial(_collected, "Sheep"), "wolves": partial(_collected, "Wolves"),
            "grass": partial(_collected, "Grass"),
        },
        measured={
            "sheep, mean": partial(_mean, "sheep"), "wolves, mean": partial(_mean, "wolves"),
            "grass, mean": partial(_mean, "grass"), "most sheep": partial(_most, "sheep"),
            "most wolves": partial(_most, "wolves"), "runs without sheep in the end": _died_out,
        },
    )  # fmt: skip


PAIRS = {
    "wolf_sheep": [
        _wolves(
            "as shipped",
            [],
            {"initial_wolves": 20, "sheep_reproduce": 0.08, "wolf_gain_from_food": 8, "grass_regrowth_time": 15},
        ),
        _wolves(
            "of NetLogo",
            [
                "agents.wolf.count=50", "agents.wolf.state.gain=20", "agents.sheep.state.birth=0.04",
                "agents.sheep.state.regrowth=30",
            ],
            {},
        ),
    ],
    "civil_violence": [
        Pair(
            title="as shipped",
            scenario="civil_violence",
            changed=[],
            model=("epstein_civil_violence", "EpsteinCivilViolence"),
            settings={"cop_density": 0.04, "legitimacy": 0.82, "max_jail_term": 30},
            series={"active": lambda model: float(model.ACTIVE), "jailed": lambda model: float(model.ARRESTED)},
            measured={
                "active, mean": partial(_mean, "active"),
                "jailed, mean": partial(_mean, "jailed"),
                "most active at once": partial(_most, "active"),
                "turns with fewer than 10 active": _calm,
            },
        )
    ],
}  # fmt: skip
TURNS = {"wolf_sheep": 200, "civil_violence": 60}


def beside_mesa(model: str, seeds: int, run: Run, turns: int | None = None) -> Table:
    """Return the means of a model in Mesa beside ours."""
    rows = []
    for place, pair in enumerate(PAIRS[model]):
        jobs = [(model, place, ours, turns or TURNS[model], seed) for ours in (False, True) for seed in _seeds(seeds)]
        found = list(run(trial, *zip(*jobs, strict=True)))
        theirs, ours = found[:seeds], found[seeds:]
        for number, name in enumerate(pair.measured):
            both = [Estimate.of([values[number] for values in side]) for side in (theirs, ours)]
            rows.append((pair.title, name, *map(_shown, both)))
    return ("settings", "measured", f"Mesa, {seeds} seeds", f"here, {seeds} seeds"), rows


def trial(model: str, place: int, ours: bool, turns: int, seed: int) -> list[float]:
    """Return what is measured of one run of a pair: of the scenario, or of Mesa's model."""
    pair = PAIRS[model][place]
    return pair.ours(turns, seed) if ours else pair.mesa(turns, seed)


# -- what they share


def _run(scenario: str, changed: Sequence[str], seed: int, until: str | None = None) -> Series:
    file = SCENARIOS / f"{scenario}.yaml"
    return sim.run(file, seed=seed, until=until, overrides=changed, recording="samples").metrics


def _seeds(number: int) -> range:
    return range(1, number + 1)


def _shown(one: Estimate | None) -> str:
    assert one is not None
    digits = 2 if abs(one.mean) < 10 else 1
    return f"{one.mean:.{digits}f}" + ("" if one.half is None else f" ± {one.half:.{digits}f}")


def main() -> None:
    """Measure one model, and print its table."""
    tables: dict[str, Measured] = {"culture": culture, **{model: partial(beside_mesa, model) for model in PAIRS}}
    measure("benchmarks.gallery", "Compare a model of the gallery.", tables, seeds=20)


if __name__ == "__main__":
    main()
