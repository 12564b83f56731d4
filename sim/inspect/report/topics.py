"""Counts of events and actions over a run, and its metrics and observations."""

from array import array
from collections import Counter
from collections.abc import Mapping
from typing import Any

from sim.events.coerce import figure, mapping
from sim.inspect.report.bins import Bins
from sim.runner import Distribution

_TOPICS = 12
"""The most topics with their own line; the rest is one line."""

_KINDS = 10_000
"""The most topics that are counted separately. There must be a bound, because agents can invent topics."""

_SAMPLES = 1000
"""The most points of a sampled series. Of a longer series, every n-th point is shown."""

_STEPS = 24
"""The number of bars of a histogram."""

REST = "(others)"


class Topics:
    """Counts events by topic, for each part of the run, and actions by kind and outcome."""

    def __init__(self, bins: Bins) -> None:
        self.total = 0
        self.actions: dict[str, list[int]] = {}  # kind: done, refused
        self._bins = bins
        self._counts: dict[str, list[int]] = {}

    def add(self, part: int, topic: str, data: Any) -> None:
        """Count an event."""
        self.total += 1
        counts = self._counts.get(topic)
        if counts is None:
            if len(self._counts) >= _KINDS:
                topic = REST
            counts = self._counts.setdefault(topic, self._bins.zeros())
        counts[part] += 1
        if topic.startswith("action."):
            done = self.actions.setdefault(topic[7:], [0, 0])
            done[not mapping(data).get("success")] += 1

    def to_json(self) -> list[dict[str, Any]]:
        """Return the most frequent topics with their counts, and the sum of the rest."""
        ordered = sorted(self._counts.items(), key=lambda item: (-sum(item[1]), item[0]))
        shown, rest = ordered[:_TOPICS], ordered[_TOPICS:]
        found = [{"name": name, "total": sum(counts), "counts": counts} for name, counts in shown]
        if rest:
            counts = [sum(column) for column in zip(*(counts for _, counts in rest), strict=True)]
            found.append({"name": f"{len(rest)} others", "total": sum(counts), "counts": counts})
        return found

    def kinds(self) -> list[dict[str, Any]]:
        """Return the kinds of action, the most frequent first."""
        ordered = sorted(self.actions.items(), key=lambda item: (-sum(item[1]), item[0]))
        return [{"kind": kind, "done": done, "refused": refused} for kind, (done, refused) in ordered]


class Measures:
    """The metrics of the scenario and the observations of agents."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._latest_ns = -1  # the time of the latest sample
        self._series: dict[str, list[float | None]] = {}
        self._observed: dict[str, array[float]] = {}

    def sample(self, time_ns: int, data: Mapping[str, Any]) -> None:
        """Add a sample of the metrics. At the time of the latest one it replaces it, at the end of a run."""
        again, self._latest_ns = time_ns == self._latest_ns, time_ns
        if again:
            self._times.pop()
            for values in self._series.values():
                values.pop()
        for name in data:
            self._series.setdefault(name, [None] * len(self._times))
        self._times.append(time_ns / 1e9)
        for name, values in self._series.items():
            values.append(figure(data.get(name)))

    def observe(self, data: Mapping[str, Any]) -> None:
        """Add an observation of an agent."""
        value = figure(data.get("value"))
        if value is not None:
            self._observed.setdefault(str(data.get("name")), array("d")).append(value)

    def series(self) -> dict[str, list[Any]]:
        """Return all samples by metric, and `time` in seconds."""
        return {"time": self._times, **self._series}

    def samples(self) -> dict[str, Any]:
        """Return the sampled series. Long series are thinned out."""
        step = -(-len(self._times) // _SAMPLES) or 1
        shown = sorted({*range(0, len(self._times), step), *range(len(self._times))[-1:]})  # with the final state
        return {
            "time": [self._times[at] for at in shown],
            "step": step,
            "series": {name: [values[at] for at in shown] for name, values in self._series.items()},
            "ends": {name: values[-1] for name, values in self._series.items()},
        }

    def observations(self) -> list[dict[str, Any]]:
        """Return the distributions of the observations."""
        return [{"name": name, **spread(values)} for name, values in sorted(self._observed.items())]


def spread(values: "array[float]") -> dict[str, Any]:
    """Return the distribution of numbers, with the bars of a histogram from minimum to maximum."""
    known = Distribution.of(values)
    low, high = known.minimum, known.maximum
    steps = Counter(
        min(_STEPS - 1, int((value - low) / (high - low) * _STEPS)) if high > low else 0 for value in values
    )
    return {
        "n": known.n, "mean": known.mean, "deviation": known.deviation, "minimum": low, "median": known.median,
        "p95": known.p95, "maximum": high, "bars": [steps[step] for step in range(_STEPS)],
    }  # fmt: skip
