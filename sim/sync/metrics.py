"""What is measured on the axis of service time: how long it all takes, and how many calls are in flight."""

from collections.abc import Mapping
from typing import Any

from sim.kernel import Kernel, to_seconds

_POINTS = 200  # of the curve that a summary holds


class ServiceMetrics:
    """Counts the calls that are being served.

    Args:
        kernel: the axis of service time.

    Attributes:
        in_flight: how many are being served now.
        calls: how many were begun.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.in_flight = 0
        self.calls = 0
        self._kernel = kernel
        self._changes: list[tuple[int, int]] = [(0, 0)]  # (time, calls from then on)

    def begins(self) -> None:
        """A call begins to be served."""
        self.calls += 1
        self.in_flight += 1
        self._changes.append((self._kernel.now, self.in_flight))

    def ends(self) -> None:
        """A call has been answered."""
        self.in_flight -= 1
        self._changes.append((self._kernel.now, self.in_flight))

    def summary(self, waited: float, path: float) -> Mapping[str, Any]:
        """Return the makespan and the rest, JSON-like.

        Args:
            waited: seconds that an agent stood ready without being allowed to begin, on average.
            path: seconds of the longest chain of calls that depend on each other, each served alone.
        """
        end = self._kernel.now
        makespan = to_seconds(end)
        curve = self._curve(end)
        mean = sum(calls for _, calls in curve) / len(curve) if curve else 0.0
        return {
            "makespan": makespan,
            "calls": self.calls,
            "in_flight_mean": mean,
            "in_flight": curve,
            "waiting": waited,
            "waits": waited / makespan if end else 0.0,
            "critical_path": path,
        }

    def _curve(self, end: int) -> list[list[float]]:
        """Return the mean number of calls in flight over equal pieces of the makespan, each with its beginning."""
        if not end:
            return []
        areas = [0.0] * _POINTS
        width = end / _POINTS
        for (begin, calls), (stop, _) in zip(self._changes, [*self._changes[1:], (end, 0)], strict=True):
            piece = begin
            while calls and piece < stop:
                index = min(int(piece / width), _POINTS - 1)
                upto = stop if index == _POINTS - 1 else min(stop, max(piece + 1, round((index + 1) * width)))
                areas[index] += calls * (upto - piece)
                piece = upto
        return [[round(index * width / 1e9, 3), round(area / width, 4)] for index, area in enumerate(areas)]
