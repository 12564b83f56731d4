"""Metrics over time: means over seeds at each sampled time, with intervals, and for arms the differences."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

import attrs

from sim.experiments.estimate import FEW, Estimate
from sim.experiments.plan import Plan
from sim.experiments.results import Results
from sim.experiments.samples import Samples

Trials = Mapping[int, Mapping[int, Samples]]
"""The samples by combination and seed."""

MOST_MOMENTS: Final = 120
"""The most times of a line in a chart."""


@attrs.frozen
class Band:
    """A metric over time, over the seeds of a combination or an arm; or its difference from the baseline.

    A time that only one of several seeds has sampled, such as the end of a run that stopped early, is left out. Seeds
    that have no value at a time are not part of its estimate, whose `n` says how many are.

    Attributes:
        point: the index of the combination or arm.
        metric: the name of the metric.
        moments: the simulated seconds, and the estimate at that time.
        singles: if there are fewer seeds than `FEW`: for each, the seconds and its values.
    """

    point: int
    metric: str
    moments: tuple[tuple[float, Estimate], ...]
    singles: tuple[tuple[tuple[float, float], ...], ...] = ()

    def drawn(self, most: int = MOST_MOMENTS) -> "Band":
        """Return the band as charts have it.

        Those moments are left out that have values of fewer than half as many seeds as others: the few runs that are
        left at the end say little about all. Of many moments, at most `most` stay, evenly chosen.
        """
        fewest = max(one.n for _, one in self.moments) / 2
        moments = [(time, one) for time, one in self.moments if one.n >= fewest]
        singles = tuple(_spread(one, most) for one in self.singles)
        return attrs.evolve(self, moments=_spread(moments, most), singles=singles)


_T = TypeVar("_T")


def _spread(sequence: Sequence[_T], most: int) -> tuple[_T, ...]:
    """Return at most a number of items of a sequence, evenly chosen, with the first and the last."""
    count = len(sequence)
    places = (
        sorted({round(place * (count - 1) / (most - 1)) for place in range(most)}) if count > most else range(count)
    )
    return tuple(sequence[place] for place in places)


def trials_of(results: Results) -> Trials:
    """Return the samples of all trials."""
    trials: dict[int, dict[int, Samples]] = {}
    for point, seed, samples in results.series():
        trials.setdefault(point, {})[seed] = samples
    most = max((one.step for by_seed in trials.values() for one in by_seed.values()), default=1)
    # all trials to the same times: otherwise every second mean would be that of the short runs alone
    return {
        point: {seed: one.thinned(most // one.step) for seed, one in by_seed.items()}
        for point, by_seed in trials.items()
    }


def metrics_of(plan: Plan, trials: Trials) -> list[str]:
    """Return the metrics that matter: those that outcomes are about; all if no outcome is chosen, or about none."""
    every = dict.fromkeys(name for by_seed in trials.values() for one in by_seed.values() for name in one.values)
    calls = [call for one in plan.definitions for call in one.measurement.calls]
    used = {call.what for call in calls if call.condition is None} | set(plan.outcomes)
    used |= {name for call in calls if call.condition is not None for name in call.condition.names}
    return [name for name in every if name in used] or list(every)


def bands(plan: Plan, trials: Trials, metrics: Sequence[str]) -> Iterator[Band]:
    """Yield the means of metrics over time, by metric and combination or arm."""
    for metric in metrics:
        for point in range(len(plan.points)):
            values = {seed: _by_time(one, metric) for seed, one in trials.get(point, {}).items()}
            if band := _band(point, metric, values):
                yield band


def difference_bands(plan: Plan, trials: Trials, metrics: Sequence[str]) -> Iterator[Band]:
    """Yield the differences of arms or combinations from the baseline over time, seed by seed, by metric and arm."""
    start = plan.compared_with
    base = {} if start is None else trials.get(start, {})
    for metric in metrics if start is not None else ():
        for point in range(len(plan.points)):
            if point == start:
                continue
            values = {}
            for seed, one in trials.get(point, {}).items():
                before = _by_time(base[seed], metric) if seed in base else {}
                values[seed] = {
                    time: value - before[time] for time, value in _by_time(one, metric).items() if time in before
                }
            if band := _band(point, metric, values):
                yield band


def _by_time(samples: Samples, metric: str) -> dict[float, float]:
    """Return the values of a metric by time, without those times at which it has none."""
    values = samples.values.get(metric, ())
    return {time: value for time, value in zip(samples.times, values, strict=False) if value is not None}


def _band(point: int, metric: str, by_seed: Mapping[int, Mapping[float, float]]) -> Band | None:
    by_time: dict[float, list[float]] = {}
    for seed in sorted(by_seed):
        for time, value in by_seed[seed].items():
            by_time.setdefault(time, []).append(value)
    fewest = min(2, len(by_seed))
    moments = []
    for time in sorted(by_time):
        estimate = Estimate.of(by_time[time]) if len(by_time[time]) >= fewest else None
        if estimate is not None:
            moments.append((time, estimate))
    if not moments:
        return None
    singles = [tuple(sorted(one.items())) for _, one in sorted(by_seed.items()) if one]
    return Band(point, metric, tuple(moments), tuple(singles) if len(singles) < FEW else ())


def thinning(trials: Trials) -> str:
    """Return which samples are kept of long series, in one sentence; empty if all are."""
    return kept_text([one.step for by_seed in trials.values() for one in by_seed.values()])


def kept_text(steps: Sequence[int]) -> str:
    """Return the same from the `Samples.step` of each trial."""
    count = sum(step > 1 for step in steps)
    return f"Of {count} of {len(steps)} trials every {max(steps)}th sample is kept, at most." if count else ""
