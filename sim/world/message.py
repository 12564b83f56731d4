"""Messages: what one agent addresses to another."""

from typing import Any

from sim.kernel.codec import Raw, Record, decode


class Message(Record, frozen=True):
    """A message.

    Attributes:
        sender: the id of the agent that sent it.
        to: the id of the agent that gets it.
        topic: a word for what it is about, or empty.
        raw: its data as canonical JSON.
        time: when it was sent, simulated nanoseconds.
    """

    sender: str
    to: str
    topic: str
    raw: Raw
    time: int

    @property
    def data(self) -> Any:
        """The data, made anew at each call."""
        return decode(self.raw)
