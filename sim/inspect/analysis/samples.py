"""The samples of the metrics of a scenario."""

from collections.abc import Mapping
from typing import Any

from sim.events.coerce import figure


class Samples:
    """The samples of the metrics of a scenario, of a run that has no summary of them."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._latest_ns = -1  # the time of the latest sample
        self._series: dict[str, list[float | None]] = {}

    def add(self, time_ns: int, data: Mapping[str, Any]) -> None:
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

    def series(self) -> dict[str, list[Any]]:
        """Return all samples by metric, and `time` in seconds."""
        return {"time": self._times, **self._series}
