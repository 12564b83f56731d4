"""Curves over the whole of a run, of which a bounded number of points is kept."""

from collections.abc import Sequence
from typing import Final

import attrs

from sim.kernel.codec import Json

MOST_POINTS: Final = 4_000
"""The most points of a curve. If there are more, only one of each two, four, ... is kept."""


def _chosen(group: int, size: int) -> int:
    """Return which point of a group is kept: the first one of the first group.

    It differs from group to group. The same place in each group would show only one side of what goes to and fro, such
    as agents that wake and fall asleep in turn, as a flat line.
    """
    return ((group * 0x9E3779B1 & 0xFFFFFFFF) >> 16) % size  # Knuth's multiplicative hash


@attrs.define
class Series:
    """Values at times, thinned out evenly: one of each `stride` points, and the last one.

    Attributes:
        names: the names of the values of a point.
        stride: of how many points one is kept.
    """

    names: list[str]
    stride: int = 1
    _points: list[tuple[float, Sequence[float | None]]] = attrs.field(factory=list)
    _last: tuple[float, Sequence[float | None]] | None = None
    _count: int = 0

    def add(self, seconds: float, values: Sequence[float | None]) -> None:
        """Add a point, not before the last one. At the time of the last one it replaces it."""
        before, self._last = self._last, (seconds, values)
        if before is not None and before[0] == seconds:
            if self._points[-1] is before:
                self._points[-1] = self._last
            return
        if self._count == MOST_POINTS * self.stride:
            pairs = range(0, MOST_POINTS, 2)
            self._points = [self._points[at + _chosen(at // 2, 2)] for at in pairs]
            self.stride *= 2
        group, place = divmod(self._count, self.stride)
        if place == _chosen(group, self.stride):
            self._points.append(self._last)
        self._count += 1

    def to_json(self) -> dict[str, Json]:
        """Return the times, and for each name its values."""
        points = list(self._points)
        if self._last is not None and points[-1] is not self._last:
            points.append(self._last)
        columns = [
            [values[place] if place < len(values) else None for _, values in points] for place in range(len(self.names))
        ]
        times = [seconds for seconds, _ in points]
        return {"names": self.names, "stride": self.stride, "times": times, "values": columns}
