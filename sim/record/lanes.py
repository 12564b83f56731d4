"""Lanes: which part of the hash of a run covers an agent. This is the only place that decides it.

The events and effects of one agent are all in one lane, so most other agents do not affect it. Code that hashes only
some of the agents passes other lanes to `RunHash`, for example those of one island.
"""

import hashlib
from typing import Final

from sim.kernel.codec import encode


class Lanes(dict[bytes, int]):
    """The lanes of a run, by the name of an agent.

    A key is the name as encoded in an event, up to its first quotation mark: the closing one, or one that is escaped.

    Attributes:
        count: the number of lanes; the hash of a run covers all of them in order.
    """

    count: Final = 256

    def __missing__(self, name: bytes) -> int:
        lane = self[name] = self.decide(name)
        return lane

    def decide(self, name: bytes) -> int:
        """Return the lane for an encoded name: its hash, one byte."""
        return hashlib.blake2b(name, digest_size=1).digest()[0]

    def of(self, actor: str) -> int:
        """Return the lane of an agent, by its name."""
        return self[encode(actor).split(b'"', 2)[1]]
