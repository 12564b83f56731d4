"""Holds events of agents that run ahead until everything earlier has happened, and releases them in key order."""

from collections.abc import Iterable

from sim.kernel.ports import Durable, Recorder
from sim.kernel.rows import ClosedRow, EventRow, InputRow, IntentRow, ResultRow


class ReorderBuffer:
    """A recorder that releases events in the order of their keys to another one.

    Args:
        inner: gets them.
    """

    def __init__(self, inner: Recorder) -> None:
        self.inner = inner
        self._rows: dict[int, list[EventRow]] = {}

    @property
    def events(self) -> int:
        """How many events have been released."""
        return getattr(self.inner, "events", 0)

    def event(self, row: EventRow) -> None:
        """Keep an event until it is released."""
        rows = self._rows.get(row[0])
        if rows is None:
            self._rows[row[0]] = [row]
        else:
            rows.append(row)

    def release(self, before: int | None = None) -> None:
        """Hand over all events before a simulated time in nanoseconds, or all there are."""
        times: Iterable[int] = self._rows if before is None else [time for time in self._rows if time < before]
        for time in sorted(times):
            rows = self._rows.pop(time)
            rows.sort(key=_key)
            for row in rows:
                self.inner.event(row)

    def input(self, row: InputRow) -> None:
        """Hand on."""
        self.inner.input(row)

    def intent(self, row: IntentRow) -> None:
        """Hand on."""
        self.inner.intent(row)

    def result(self, row: ResultRow) -> None:
        """Hand on."""
        self.inner.result(row)

    def closed(self, row: ClosedRow) -> None:
        """Hand on."""
        self.inner.closed(row)

    def flush(self) -> None:
        """Hand on; what is kept back stays."""
        self.inner.flush()

    def durable(self, done: Durable) -> None:
        """Hand on."""
        self.inner.durable(done)


def _key(row: EventRow) -> tuple[int, int, int, int]:
    return row[1:5]
