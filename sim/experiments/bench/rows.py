"""The results of a bench: one row for each combination of varied values and each mode."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations
from statistics import fmean
from typing import Any, Final, TypeVar

import attrs

from sim.experiments.bench.outcome_distance import distance, outcome_distance, relative, value_of
from sim.experiments.estimate import FEW, Estimate
from sim.experiments.modes import MODES, ORACLE, PARALLEL, BenchMode
from sim.experiments.plan import BenchPlan, Plan
from sim.experiments.points import MODE, Point
from sim.experiments.results import Results
from sim.experiments.trial import Basis, Trial
from sim.kernel.codec import JsonObject

T = TypeVar("T")


@attrs.frozen
class Figure:
    """A figure of a row.

    Attributes:
        heading: the heading of its column.
        unit: its unit, or empty.
        says: its description, for the page.
    """

    heading: str
    unit: str
    says: str


FIGURES: Final = {
    "makespan": Figure("makespan", "s", "Duration of the whole run."),
    "speed_up": Figure("speed-up", "×", "Makespan of tick-parallel with the same seed, divided by that of this mode."),
    "of_oracle": Figure("of oracle", "%", "Makespan of the oracle with the same seed, divided by that of this mode."),
    "actions_rate": Figure("actions/s", "", "Actions done per second of makespan."),
    "calls_rate": Figure("calls/s", "", "Calls of language models per second of makespan."),
    "in_flight": Figure("in flight", "", "Calls of language models in flight, mean over the makespan."),
    "waiting": Figure("waiting", "s", "Time that an agent waited at barriers, mean over agents."),
    "waits": Figure("waiting", "%", "Waiting as a share of the makespan."),
    "outcome_distance": Figure(
        "outcomes differ", "%", "Mean distance of the outcomes from those of tick-parallel with the same seed."
    ),
    "critical_path": Figure("critical path", "s", "Longest chain of dependent calls, without other load."),
    "events": Figure("events", "", "Recorded events."),
    "cpu_seconds": Figure("CPU", "s", "CPU time."),
    "actions_cpu_rate": Figure("actions/CPU s", "", "Actions done per second of CPU time."),
    "calls_cpu_rate": Figure("calls/CPU s", "", "Calls of language models per second of CPU time."),
    "cpu_call": Figure("CPU/call", "µs", "CPU time per call of a language model."),
    "cpu_iteration": Figure("CPU/iteration", "µs", "CPU time per iteration of an agent."),
}


@attrs.frozen
class OutcomeDifference:
    """One outcome, compared with tick-parallel with the same seed.

    Attributes:
        value: its value.
        relative: its relative difference; None if the value of tick-parallel is always 0.
        distance: its distance, as defined in `outcome_distance`.
        singles: its values for single seeds, if there are fewer than `FEW`.
    """

    value: Estimate
    relative: Estimate | None
    distance: Estimate | None
    singles: Sequence[float] = ()


@attrs.frozen
class BenchRow:
    """One mode with one combination of varied values, over all seeds.

    Attributes:
        point: the index of the combination.
        mode: the name of the mode.
        basis: the time axis of the makespan; None if nothing was measured, or if it differs between seeds.
        measured: the number of measured seeds.
        problems: the problems, without duplicates.
        figures: the values of `FIGURES`; unknown figures are missing.
        singles: of the figures, the values for single seeds, if there are fewer than `FEW`.
        compared: the number of seeds that were measured in tick-parallel, too.
        equal: the number of these seeds with the same hash.
        outcomes: the outcomes by name.
        concurrency: the calls in flight over time, for the first seed that has them.
    """

    point: int
    mode: str
    basis: Basis | None
    measured: int
    problems: tuple[str, ...]
    figures: Mapping[str, Estimate]
    singles: Mapping[str, Sequence[float]]
    compared: int
    equal: int
    outcomes: Mapping[str, OutcomeDifference]
    concurrency: tuple[tuple[float, float], ...]


@attrs.frozen
class Bench:
    """The results of a bench.

    Attributes:
        plan: the plan.
        points: the combinations of values.
        trials: the runs by combination, seed and mode; their `point` is that of `points`.
        missing: the number of runs that are not done.
        rows: the results by combination, then by mode.
        noise: by combination: the mean distance of the outcomes of two seeds in tick-parallel; None if unknown.
        sessions: when and on which machine they were measured; see `Results.sessions`.
    """

    plan: Plan
    points: tuple[Point, ...]
    trials: tuple[Trial, ...]
    missing: int
    rows: tuple[BenchRow, ...]
    noise: tuple[float | None, ...]
    sessions: Sequence[Mapping[str, Any]]

    @property
    def modes(self) -> tuple[BenchMode, ...]:
        """The modes that are compared."""
        return tuple(MODES[name] for name in bench_of(self.plan).modes)

    @property
    def seeds(self) -> Sequence[int]:
        """The seeds, those first that were to be run first."""
        done = {trial.seed for trial in self.trials}
        return [*dict.fromkeys((*self.plan.some_seeds(self.plan.seeds[1]), *sorted(done)))]

    @property
    def planned(self) -> int:
        """The number of runs that are done or missing."""
        return len(self.trials) + self.missing

    @property
    def complete(self) -> bool:
        """Whether all planned runs were done."""
        return not self.missing

    @property
    def failures(self) -> list[Trial]:
        """The failed runs. A refused run counts as failed if the user named its mode."""
        bad = {"failed", "refused"} if bench_of(self.plan).named else {"failed"}
        return [trial for trial in self.trials if trial.status in bad]

    def of_point(self, point: int) -> list[BenchRow]:
        """Return the rows of one combination."""
        return [row for row in self.rows if row.point == point]


def problems_of(rows: Iterable[BenchRow]) -> dict[str, list[str]]:
    """Return the modes that have a problem, by problem."""
    modes_by_problem: dict[str, list[str]] = {}
    for row in rows:
        for problem in row.problems:
            if row.mode not in modes_by_problem.setdefault(problem, []):
                modes_by_problem[problem].append(row.mode)
    return modes_by_problem


def bench_of(plan: Plan) -> BenchPlan:
    """Return what a plan compares, if it is that of a bench."""
    assert plan.bench is not None, "it is the plan of a bench"
    return plan.bench


def _combinations(plan: Plan) -> tuple[Point, ...]:
    """Return the combinations of the plan of a bench, without modes."""
    return tuple({key: value for key, value in point.items() if key != MODE} for point in plan.points[:: plan.together])


def read(results: Results, missing: int) -> Bench:
    """Return the results of a bench as far as it is.

    Args:
        results: the results on record.
        missing: the number of runs that are not done.
    """
    size = results.plan.together
    trials = (attrs.evolve(trial, point=trial.point // size) for trial in results.bench_trials())
    return evaluate(results.plan, trials, missing, results.sessions())


def evaluate(plan: Plan, trials: Iterable[Trial], missing: int, sessions: Sequence[JsonObject]) -> Bench:
    """Return the results of the runs of a plan.

    Args:
        plan: the plan.
        trials: the runs that are done, with the index of their combination as `point`.
        missing: the number of the others.
        sessions: when and where they were measured.
    """
    modes, points = bench_of(plan).modes, _combinations(plan)
    seeds = {seed: number for number, seed in enumerate(plan.some_seeds(plan.seeds[1]))}
    ordered = sorted(
        trials, key=lambda trial: (trial.point, seeds.get(trial.seed, trial.seed), modes.index(trial.mode))
    )
    by_point: list[dict[str, dict[int, Trial]]] = [{mode: {} for mode in modes} for _ in points]
    for trial in ordered:
        by_point[trial.point][trial.mode][trial.seed] = trial
    rows, noise = [], []
    for point, by_mode in enumerate(by_point):
        base, oracle = _measured(by_mode.get(PARALLEL, {})), _measured(by_mode.get(ORACLE, {}))
        rows += [_row(point, mode, ours, base, oracle) for mode, ours in by_mode.items() if ours]
        noise.append(_noise(list(base.values())))
    return Bench(
        plan=plan,
        points=points,
        trials=tuple(ordered),
        missing=missing,
        rows=tuple(rows),
        noise=tuple(noise),
        sessions=sessions,
    )


Seeds = Mapping[int, Trial]


def _measured(trials: Seeds) -> dict[int, Trial]:
    return {seed: trial for seed, trial in trials.items() if trial.status == "measured"}


def _noise(base: Sequence[Trial]) -> float | None:
    pairs = list(combinations(base[:20], 2))  # 20 seeds give 190 pairs, which is enough
    return fmean(outcome_distance(one.outcomes, other.outcomes) for one, other in pairs) if pairs else None


def _row(point: int, mode: str, trials: Seeds, base: Seeds, oracle: Seeds) -> BenchRow:
    measured = _measured(trials)
    bases = {trial.basis for trial in measured.values()}
    basis = next(iter(bases)) if len(bases) == 1 else None
    own = {name: [figure(trial) for trial in measured.values()] for name, figure in _OWN.items()}
    if basis is None:
        own |= {name: [] for name in ("makespan", "actions_rate", "calls_rate")}
    against: dict[str, Sequence[float | None]] = {
        "speed_up": _paired(measured, base, _quicker),
        "of_oracle": _paired(measured, oracle, lambda trial, best: _times(_quicker(trial, best), 100)),
        "outcome_distance": [] if mode == PARALLEL else _paired(measured, base, _apart),
    }
    values = {name: _floats([*own.get(name, ()), *against.get(name, ())]) for name in FIGURES}
    figures = {name: Estimate.of(numbers) for name, numbers in values.items()}
    if figures["cpu_call"] is not None:
        del figures["cpu_iteration"]
    same = _paired(measured, base, lambda trial, other: trial.hash == other.hash)
    return BenchRow(
        point=point,
        mode=mode,
        basis=basis,
        measured=len(measured),
        problems=tuple(dict.fromkeys(c.problem for c in trials.values() if c.problem)),
        figures={name: estimate for name, estimate in figures.items() if estimate is not None},
        singles={name: numbers for name, numbers in values.items() if 0 < len(numbers) < FEW},
        compared=len(same),
        equal=sum(same),
        outcomes=_outcomes(measured, base),
        concurrency=next((trial.concurrency for trial in measured.values() if trial.concurrency), ()),
    )


def _paired(trials: Seeds, others: Seeds, compare: Callable[[Trial, Trial], T]) -> list[T]:
    """Compare runs with the same seed."""
    return [compare(trial, others[seed]) for seed, trial in trials.items() if seed in others]


def _quicker(trial: Trial, other: Trial) -> float | None:
    """Return the makespan of `other` divided by that of `trial`; None if their time axes differ."""
    return _ratio(other.makespan, trial.makespan) if trial.basis == other.basis else None


def _apart(trial: Trial, base: Trial) -> float:
    return outcome_distance(trial.outcomes, base.outcomes) * 100


def _outcomes(trials: Seeds, base: Seeds) -> dict[str, OutcomeDifference]:
    names = dict.fromkeys(name for trial in (*base.values(), *trials.values()) for name in trial.outcomes)
    outcomes = {}
    for name in names:
        values = _floats([value_of(trial.outcomes, name) for trial in trials.values()])
        value = Estimate.of(values)
        if value is not None:
            shares = _paired(trials, base, partial(_share, name))
            apart = _paired(trials, base, partial(_distance, name))
            singles = values if len(values) < FEW else []
            outcomes[name] = OutcomeDifference(
                value, Estimate.of(_floats(shares)), Estimate.of(_floats(apart)), singles
            )
    return outcomes


def _share(name: str, trial: Trial, base: Trial) -> float | None:
    return relative(base.outcomes, trial.outcomes, name)


def _distance(name: str, trial: Trial, base: Trial) -> float | None:
    one, other = value_of(trial.outcomes, name), value_of(base.outcomes, name)
    return None if one is None or other is None else distance(one, other)


def _floats(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _some(count: int | None) -> int | None:
    """Return a count of model calls; None for 0, so that scenarios without models have no figures of calls."""
    return count or None


_OWN: Final[Mapping[str, Callable[[Trial], float | None]]] = {
    "makespan": lambda trial: trial.makespan,
    "actions_rate": lambda trial: _ratio(trial.actions, trial.makespan),
    "calls_rate": lambda trial: _ratio(_some(trial.calls), trial.makespan),
    "in_flight": lambda trial: trial.in_flight,
    "waiting": lambda trial: trial.waiting,
    "waits": lambda trial: _times(trial.waits, 100),
    "critical_path": lambda trial: trial.critical_path,
    "events": lambda trial: trial.events,
    "cpu_seconds": lambda trial: trial.cpu_seconds,
    "actions_cpu_rate": lambda trial: _ratio(trial.actions, trial.cpu_seconds),
    "calls_cpu_rate": lambda trial: _ratio(_some(trial.calls), trial.cpu_seconds),
    "cpu_call": lambda trial: _times(_ratio(trial.cpu_seconds, _some(trial.calls)), 1e6),
    "cpu_iteration": lambda trial: _times(_ratio(trial.cpu_seconds, trial.iterations), 1e6),
}
