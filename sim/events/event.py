"""An event of the bus."""

from typing import Any

from sim.kernel.codec import Raw, Record, decode


class Event(Record, frozen=True, gc=False):
    """A record of something that happened.

    Attributes:
        sequence: its number on its bus, from 1.
        time: the time in simulated nanoseconds.
        source: the name of the actor that published it.
        topic: its dotted name.
        raw: its data as canonical JSON.
        identity: (source ordinal, source counter), its identity in the record.
    """

    sequence: int
    time: int
    source: str
    topic: str
    raw: Raw
    identity: tuple[int, int]

    @property
    def data(self) -> Any:
        """The data, decoded at each access, so that one receiver cannot change the data of another."""
        return decode(self.raw)
