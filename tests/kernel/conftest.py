"""For the tests of the kernel: a recorder that keeps rows in lists."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from sim.kernel import Kernel
from sim.kernel.ports import NullRecorder
from sim.kernel.rows import ClosedRow, EventRow, InputRow, IntentRow, RecordedEvent, ResultRow


class Seen(NamedTuple):
    """What most tests compare of an event."""

    time_ns: int
    delta: int
    actor: str
    topic: str
    data: Any


class Rows(NullRecorder):
    """Keeps every row, each kind in its own list, and all of them in `all`."""

    def __init__(self) -> None:
        self.events: list[RecordedEvent] = []
        self.inputs: list[InputRow] = []
        self.intents: list[IntentRow] = []
        self.results: list[ResultRow] = []
        self.endings: list[ClosedRow] = []

    def event(self, row: EventRow, /) -> None:
        self.events.append(RecordedEvent(*row))

    def input(self, row: InputRow, /) -> None:
        self.inputs.append(row)

    def intent(self, row: IntentRow, /) -> None:
        self.intents.append(row)

    def result(self, row: ResultRow, /) -> None:
        self.results.append(row)

    def closed(self, row: ClosedRow, /) -> None:
        self.endings.append(row)

    def seen(self) -> list[Seen]:
        """Return time, delta, actor, topic and data of each event."""
        return [Seen(row.time_ns, row.delta, row.actor, row.topic, row.data) for row in self.events]

    def names(self, topic: str | None = None) -> list[str]:
        """Return the actors of the events, in order."""
        return [row.actor for row in self.events if topic in (None, row.topic)]

    def all(self) -> list[object]:
        """Return everything that was kept."""
        return [self.events, self.inputs, self.intents, self.results, self.endings]


@pytest.fixture
def rows() -> Rows:
    """A recorder that keeps rows."""
    return Rows()


@pytest.fixture
def kernel(rows: Rows) -> Kernel:
    """A kernel that records in `rows`."""
    return Kernel(recorder=rows)


@pytest.fixture
def make_kernel() -> Callable[..., tuple[Kernel, Rows]]:
    """Make kernels, each with a recorder of its own."""

    def make(seed: int = 0, **options: object) -> tuple[Kernel, Rows]:
        rows = Rows()
        return Kernel(seed, recorder=rows, **options), rows  # type: ignore[arg-type]

    return make
