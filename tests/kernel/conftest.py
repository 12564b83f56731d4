"""For the tests of the kernel: a recorder that keeps rows in lists."""

from collections.abc import Callable

import pytest

from sim.kernel import Kernel
from sim.kernel.ports import NullRecorder
from sim.kernel.rows import ClosedRow, EventRow, InputRow, IntentRow, ResultRow


class Rows(NullRecorder):
    """Keeps every row, each kind in its own list, and all of them in `all`."""

    def __init__(self) -> None:
        self.events: list[EventRow] = []
        self.inputs: list[InputRow] = []
        self.intents: list[IntentRow] = []
        self.results: list[ResultRow] = []
        self.endings: list[ClosedRow] = []

    def event(self, row: EventRow, /) -> None:
        self.events.append(row)

    def input(self, row: InputRow, /) -> None:
        self.inputs.append(row)

    def intent(self, row: IntentRow, /) -> None:
        self.intents.append(row)

    def result(self, row: ResultRow, /) -> None:
        self.results.append(row)

    def closed(self, row: ClosedRow, /) -> None:
        self.endings.append(row)

    def seen(self) -> list[tuple[int, int, str, str, object]]:
        """Return (time_ns, delta, actor, topic, data) of each event."""
        return [(row[0], row[1], row[5], row[6], row[7]) for row in self.events]

    def names(self, topic: str | None = None) -> list[str]:
        """Return the actors of the events, in order."""
        return [row[5] for row in self.events if topic in (None, row[6])]

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
