"""A check of what the recorders of all tests record: each event fits its event type, to the byte."""

from collections.abc import Callable, Sequence

import sim.record.recorder as recorders
from sim.events.event_type import EventData, Malformed, OpenData, read_data, type_of
from sim.kernel.codec import Raw, decode, encode
from sim.kernel.rows import EventRow

Encoding = Callable[[Sequence[EventRow]], bytes]


class EventChecks:
    """Compares the events that this process records with their event types, while a test runs.

    Attributes:
        active: whether to compare. Tests that measure time do not.
        faults: what did not fit, as a sentence each.
    """

    def __init__(self) -> None:
        self.active = False
        self.faults: list[str] = []
        self._encode: Encoding = vars(recorders)["encode_events"]

    def install(self) -> None:
        """Compare from now on what recorders encode."""
        vars(recorders)["encode_events"] = self.encode_events

    def encode_events(self, rows: Sequence[EventRow]) -> bytes:
        """Return rows as `sim.record.hashing.encode_events` does."""
        encoded = self._encode(rows)
        if self.active:
            for row in rows:
                self.compare(row[6], row[7])
        return encoded

    def compare(self, topic: str, data: object) -> None:
        """Note if data are not those of their event type: a field is missing, unknown, or has another type."""
        if type_of(topic) is None or not isinstance(data, EventData | Raw):
            return  # agents publish it, or a test has made the row: the simulation emits no mappings but samples
        raw = encode(data)
        read = read_data(topic, decode(raw))
        if isinstance(read, Malformed):
            self.faults.append(f"{topic}: {read.problem}: {raw[:500].decode()}")
            return
        plain = read.values if isinstance(read, OpenData) else read  # type: ignore[attr-defined]  # all of them have it
        again = encode(plain)
        if again != raw:
            self.faults.append(f"{topic}: recorded as {raw[:500].decode()}, and read as {again[:500].decode()}")


CHECKS = EventChecks()
