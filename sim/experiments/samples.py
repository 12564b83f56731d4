"""The samples of the metrics of one trial, over simulated time."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

MOST: Final = 2000
"""The most samples of a metric that are kept of a trial. Of more, every second, fourth, eighth, ... one is kept."""


@attrs.frozen
class Samples:
    """The samples of a trial.

    Attributes:
        times: when samples were taken, in simulated seconds.
        values: by metric, one value for each time; None where it had none.
        step: every `step`-th sample is kept, and the last one; 1: all are.
    """

    times: tuple[float, ...] = ()
    values: Mapping[str, tuple[float | None, ...]] = attrs.field(factory=dict)
    step: int = 1

    @classmethod
    def of(cls, metrics: Mapping[str, Sequence[Any]]) -> "Samples":
        """Return the samples in `RunResult.metrics`. What is no finite number is no value."""
        times = metrics.get("time", ())
        step = 1
        while len(times) > MOST * step:
            step *= 2  # so that trials of other lengths still have times in common
        kept = _kept(len(times), step)
        values = {
            name: tuple(_number(series[place]) for place in kept) for name, series in metrics.items() if name != "time"
        }
        return cls(tuple(float(times[place]) for place in kept), values, step)

    def thinned(self, factor: int) -> "Samples":
        """Return every `factor`-th of these samples, and the last one."""
        if factor == 1:
            return self
        kept = _kept(len(self.times), factor)
        values = {name: tuple(series[place] for place in kept) for name, series in self.values.items()}
        return Samples(tuple(self.times[place] for place in kept), values, self.step * factor)


def _kept(count: int, step: int) -> list[int]:
    """Return the places of the samples that are kept, of a number of samples: every `step`-th, and the last one."""
    return [place for place in range(count) if place % step == 0 or place == count - 1]


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


NO_SAMPLES: Final = Samples()
