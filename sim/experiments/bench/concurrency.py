"""Calls of language models in flight, over simulated time."""

from itertools import pairwise

from sim.kernel import to_seconds
from sim.llm.counts import Counts
from sim.runner import RunController

PARTS = 200
"""The number of equal parts of the time."""


class Concurrency(Counts):
    """Counts the calls of one run, and notes each change of the number in flight.

    Args:
        runner: the runner, before its first step.
    """

    def __init__(self, runner: RunController) -> None:
        self._kernel = runner.simulation.world.kernel
        self._calls = 0
        self._changes: list[tuple[int, int]] = [(self._kernel.now, 0)]
        super().__init__()

    @property
    def in_flight(self) -> int:
        """The number of calls in flight."""
        return self._calls

    @in_flight.setter
    def in_flight(self, calls: int) -> None:
        self._calls = calls
        self._changes.append((self._kernel.now, calls))

    def over_time(self) -> tuple[float, tuple[tuple[float, float], ...]]:
        """Return the mean number of calls in flight until now, and (start in seconds, mean) for each part."""
        begin, end = self._changes[0][0], self._kernel.now
        if end <= begin:
            return 0.0, ()
        width = (end - begin) / PARTS
        areas = [0.0] * PARTS
        for (since, calls), (until, _) in pairwise([*self._changes, (end, 0)]):
            _spread(areas, (since - begin) / width, (until - begin) / width, calls)
        parts = tuple((to_seconds(round(part * width)), round(area, 4)) for part, area in enumerate(areas))
        return sum(areas) / PARTS, parts


def _spread(areas: list[float], since: float, until: float, calls: int) -> None:
    """Add calls to the parts of a time span. Times are in units of parts."""
    while calls and since < until:
        part = min(int(since), len(areas) - 1)
        end = until if part == len(areas) - 1 else min(until, part + 1)
        areas[part] += calls * (end - since)
        since = end
