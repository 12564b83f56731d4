"""Measurements in service time: the makespan, and the number of calls in flight."""

from sim.kernel import Kernel, to_seconds
from sim.kernel.codec import JsonObject

_POINTS = 200  # number of points of the curve in a summary


class ServiceMetrics:
    """Counts the calls that the modelled server serves.

    Args:
        kernel: the kernel whose time is service time.

    Attributes:
        in_flight: number of calls that are being served now.
        calls: number of calls so far.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.in_flight = 0
        self.calls = 0
        self._kernel = kernel
        self._changes: list[tuple[int, int]] = [(0, 0)]  # (time, calls from then on)

    def begins(self) -> None:
        """Report that the service of a call begins."""
        self.calls += 1
        self.in_flight += 1
        self._changes.append((self._kernel.now, self.in_flight))

    def ends(self) -> None:
        """Report that a call is answered."""
        self.in_flight -= 1
        self._changes.append((self._kernel.now, self.in_flight))

    def summary(self, waited: float, path: float) -> JsonObject:
        """Return all measurements, JSON-like.

        Args:
            waited: mean time in seconds for which an agent was ready but was not allowed to begin.
            path: length in seconds of the critical path: the longest chain of dependent calls, each served alone.
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
        """Return pairs (begin, mean number of calls in flight) for equal intervals of the makespan."""
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
