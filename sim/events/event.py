"""What happened: a frozen record."""

from typing import Any

from sim.kernel.codec import Raw, Record, decode


class Event(Record, frozen=True, gc=False):
    """One thing that happened.

    Attributes:
        sequence: its number on its bus, from 1.
        time: simulated nanoseconds.
        source: the name of who caused it.
        topic: what happened, dotted.
        raw: its data as canonical JSON.
        identity: (source ordinal, source counter), which names it in the record.
    """

    sequence: int
    time: int
    source: str
    topic: str
    raw: Raw
    identity: tuple[int, int]

    @property
    def data(self) -> Any:
        """The data, made anew at each call: a receiver cannot change what another receives."""
        return decode(self.raw)
