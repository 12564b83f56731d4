"""The span of a run in equal parts, over which everything is counted."""

import attrs

BINS = 240
"""Parts of a span: about as many as a chart has room for."""


@attrs.frozen
class Bins:
    """Equal parts of the time from 0 to `end_ns` (at least one nanosecond each).

    Attributes:
        end_ns: simulated nanoseconds.
        count: how many parts.
    """

    end_ns: int
    count: int = BINS

    @classmethod
    def until(cls, end_ns: int) -> "Bins":
        """Return the parts of a run that ended then."""
        return cls(max(end_ns, BINS))

    def at(self, time_ns: int) -> int:
        """Return the part that a time lies in; the end belongs to the last one."""
        return min(self.count - 1, max(0, time_ns) * self.count // self.end_ns)

    def begin(self, part: int) -> int:
        """Return the first nanosecond of a part."""
        return -(-part * self.end_ns // self.count)

    def zeros(self) -> list[int]:
        """Return a count of nothing for each part."""
        return [0] * self.count
