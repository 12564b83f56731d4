"""Equal parts of the simulated time of a run, for counts over time."""

import attrs

BINS = 240
"""The number of parts: about the resolution of a chart."""


@attrs.frozen
class Bins:
    """Equal parts of the time from 0 to `end_ns`.

    Attributes:
        end_ns: the end in simulated nanoseconds.
        count: the number of parts.
    """

    end_ns: int
    count: int = BINS

    @classmethod
    def until(cls, end_ns: int) -> "Bins":
        """Return the parts of a run that ended at `end_ns`. Each has at least one nanosecond."""
        return cls(max(end_ns, BINS))

    def at(self, time_ns: int) -> int:
        """Return the index of the part of a time. The end belongs to the last part."""
        return min(self.count - 1, max(0, time_ns) * self.count // self.end_ns)

    def begin(self, part: int) -> int:
        """Return the first nanosecond of a part."""
        return -(-part * self.end_ns // self.count)

    def zeros(self) -> list[int]:
        """Return a zero for each part."""
        return [0] * self.count
