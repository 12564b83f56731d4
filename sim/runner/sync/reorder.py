"""A buffer for events of agents that run ahead: it releases them in key order, after all earlier events."""

from collections.abc import Iterable

from sim.kernel.ports import Durable, Recorder
from sim.kernel.rows import ClosedRow, EventRow, InputRow, IntentRow, ResultRow


class ReorderBuffer:
    """A recorder that holds events and passes them to another recorder in the order of their order keys.

    Args:
        inner: the recorder that gets the released events.
    """

    def __init__(self, inner: Recorder) -> None:
        self.inner = inner
        self._rows: dict[int, list[EventRow]] = {}

    @property
    def events(self) -> int:
        """The number of released events."""
        return getattr(self.inner, "events", 0)

    def event(self, row: EventRow) -> None:
        """Hold an event until it is released."""
        rows = self._rows.get(row[0])
        if rows is None:
            self._rows[row[0]] = [row]
        else:
            rows.append(row)

    def release(self, before: int | None = None) -> None:
        """Release all events before a simulated time (nanoseconds); None: all events."""
        times: Iterable[int] = self._rows if before is None else [time for time in self._rows if time < before]
        for time in sorted(times):
            rows = self._rows.pop(time)
            rows.sort(key=_key)
            for row in rows:
                self.inner.event(row)

    def input(self, row: InputRow) -> None:
        """Pass to the inner recorder."""
        self.inner.input(row)

    def intent(self, row: IntentRow) -> None:
        """Pass to the inner recorder."""
        self.inner.intent(row)

    def result(self, row: ResultRow) -> None:
        """Pass to the inner recorder."""
        self.inner.result(row)

    def closed(self, row: ClosedRow) -> None:
        """Pass to the inner recorder."""
        self.inner.closed(row)

    def flush(self) -> None:
        """Flush the inner recorder; held events stay held."""
        self.inner.flush()

    def durable(self, done: Durable) -> None:
        """Pass to the inner recorder."""
        self.inner.durable(done)


def _key(row: EventRow) -> tuple[int, int, int, int]:
    return row[1:5]
