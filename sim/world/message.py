"""Messages from one agent to another."""

from typing import Any

from sim.kernel.codec import Raw, Record, decode


class Message(Record, frozen=True):
    """A message.

    Attributes:
        sender: the id of the agent that sent it.
        to: the id of the agent that receives it.
        topic: the topic, or empty.
        raw: the data as canonical JSON.
        time: when it was sent, in simulated nanoseconds.
    """

    sender: str
    to: str
    topic: str
    raw: Raw
    time: int

    @property
    def data(self) -> Any:
        """The data, decoded at each call: a change of the value does not change the message."""
        return decode(self.raw)
