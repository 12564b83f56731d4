"""How many events of each kind there were over a run, what actions were done, and what was measured."""

from array import array
from collections import Counter
from collections.abc import Mapping
from typing import Any

from sim.events.coerce import figure, mapping
from sim.report.bins import Bins
from sim.runner import Distribution

_TOPICS = 12
"""Kinds of event that get a line of their own; the rest are one."""

_KINDS = 10_000
"""Kinds that are told apart while counting: topics are made by agents."""

_SAMPLES = 1000
"""Points of a sampled series; of a longer one every n-th is shown."""

_STEPS = 24
"""Bars of a histogram."""

REST = "(others)"


class Topics:
    """Counts events by topic, for each part of the run, and actions by kind and outcome."""

    def __init__(self, bins: Bins) -> None:
        self.total = 0
        self.actions: dict[str, list[int]] = {}  # kind: done, refused
        self._bins = bins
        self._counts: dict[str, list[int]] = {}

    def add(self, part: int, topic: str, data: Any) -> None:
        """Take in an event."""
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
        """Return the commonest topics with their counts, and the rest summed up."""
        ordered = sorted(self._counts.items(), key=lambda item: (-sum(item[1]), item[0]))
        shown, rest = ordered[:_TOPICS], ordered[_TOPICS:]
        found = [{"name": name, "total": sum(counts), "counts": counts} for name, counts in shown]
        if rest:
            counts = [sum(column) for column in zip(*(counts for _, counts in rest), strict=True)]
            found.append({"name": f"{len(rest)} others", "total": sum(counts), "counts": counts})
        return found

    def kinds(self) -> list[dict[str, Any]]:
        """Return the kinds of action, the commonest first."""
        ordered = sorted(self.actions.items(), key=lambda item: (-sum(item[1]), item[0]))
        return [{"kind": kind, "done": done, "refused": refused} for kind, (done, refused) in ordered]


class Measures:
    """What the scenario sampled and what agents observed."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._series: dict[str, list[float | None]] = {}
        self._observed: dict[str, array[float]] = {}

    def sample(self, time_ns: int, data: Mapping[str, Any]) -> None:
        """Take in a sample of the scenario's metrics."""
        for name in data:
            self._series.setdefault(name, [None] * len(self._times))
        self._times.append(time_ns / 1e9)
        for name, values in self._series.items():
            values.append(figure(data.get(name)))

    def observe(self, data: Mapping[str, Any]) -> None:
        """Take in a number that an agent observed."""
        value = figure(data.get("value"))
        if value is not None:
            self._observed.setdefault(str(data.get("name")), array("d")).append(value)

    def samples(self) -> dict[str, Any]:
        """Return the sampled series; long ones thinned out."""
        step = -(-len(self._times) // _SAMPLES) or 1
        return {
            "time": self._times[::step],
            "step": step,
            "series": {name: values[::step] for name, values in self._series.items()},
            "ends": {name: values[-1] for name, values in self._series.items()},
        }

    def observations(self) -> list[dict[str, Any]]:
        """Return how the observed numbers are distributed."""
        return [{"name": name, **spread(values)} for name, values in sorted(self._observed.items())]


def spread(values: "array[float]") -> dict[str, Any]:
    """Return how numbers are distributed, with the bars of a histogram from the least to the greatest."""
    known = Distribution.of(values)
    low, high = known.minimum, known.maximum
    steps = Counter(
        min(_STEPS - 1, int((value - low) / (high - low) * _STEPS)) if high > low else 0 for value in values
    )
    return {
        "n": known.n, "mean": known.mean, "deviation": known.deviation, "minimum": low, "median": known.median,
        "p95": known.p95, "maximum": high, "bars": [steps[step] for step in range(_STEPS)],
    }  # fmt: skip
