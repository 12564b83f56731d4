"""What those see who watch a run on shards: figures that its shards report now and then while it is under way (edge).

A reading changes nothing: it is part of the order of a window, and what a shard does in the window does not depend on
it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from sim.runner.figures import Figures, added
from sim.runner.runner import RunSink
from sim.runner.shards.protocol import Report

EVERY: Final = 1.0
"""Real seconds between two readings, at least."""

SHARE: Final = 50
"""Readings take at most about 1/50 of the time of a shard."""

CALLED_EVERY: Final = 0.1
"""Real seconds between two calls of what shows the progress, at least."""


class Watching:
    """A run on shards as those see it who watch it. Other threads can read it at any time.

    Args:
        keeper: records the events.
        shards: the number of shards.
        asked: whether anything shows figures; without it, shards are asked for them at the end only.
        clock: returns monotonic real time in seconds.

    Attributes:
        keeper: as given.
        now: the simulated seconds before which everything has happened.
        figures: the latest figures of all shards together.
        show: called between windows, for progress; None: nothing shows it.
        numbers: returns figures of the shards themselves.
    """

    def __init__(
        self, keeper: RunSink, shards: int, *, asked: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.keeper = keeper
        self.now = 0.0
        self.figures: Figures = added([])
        self.show: Callable[[], object] | None = None
        self.numbers: Callable[[], Mapping[str, float]] = dict
        self._latest: list[Figures | None] = [None] * shards
        self._asked, self._clock = asked, clock
        self._due = self._call = 0.0

    def due(self) -> bool:
        """Return whether the shards are to report their figures with the next window."""
        return self._asked and self._clock() >= self._due

    def seen(self, reached: int, reports: Sequence[Report]) -> None:
        """Take what shards have reported.

        Args:
            reached: the time before which everything has happened, in simulated nanoseconds.
            reports: the reports of all shards.
        """
        self.now = reached / 1e9
        if any(report.figures is not None for report in reports):
            self._latest = [report.figures or old for report, old in zip(reports, self._latest, strict=True)]
            self.figures = added([one for one in self._latest if one is not None])
            slowest = max(report.reading_ns for report in reports) / 1e9
            self._due = self._clock() + max(EVERY, SHARE * slowest)
        if self.show is not None and self._clock() >= self._call:
            self.show()
            self._call = self._clock() + CALLED_EVERY

    def metrics(self) -> Mapping[str, float]:
        """Return figures of the shards themselves, by name."""
        return self.numbers()
