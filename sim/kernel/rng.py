"""Random streams: one for each (run seed, owner, purpose), derived by hash.

The only module that imports `random`. Adding an owner never shifts another's draws, because no stream is cut
from another. A stream is made when it is first drawn from: a `random.Random` takes 2.5 KB.
"""

import hashlib
import random

Stream = random.Random
"""A stream of draws; `random`, `randint`, `choice`, `sample`, `shuffle` and `gauss` agree on CPython 3.11 to
3.13.
"""


def derive(*parts: object) -> int:
    """Return 64 bits that depend on the parts alone, the same in every process."""
    text = "\0".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


class Streams:
    """The random streams of one run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[tuple[str, str], Stream] = {}

    def get(self, owner: str, purpose: str = "") -> Stream:
        """Return the stream of `owner` for `purpose`, the same object at each call."""
        stream = self._streams.get((owner, purpose))
        if stream is None:
            stream = self._streams[owner, purpose] = Stream(derive("stream", self.seed, owner, purpose))
        return stream

    def reseed(self, seed: int) -> None:
        """From now on draw as if the run had this seed; whoever holds a stream goes on with it."""
        self.seed = seed
        for (owner, purpose), stream in self._streams.items():
            stream.seed(derive("stream", seed, owner, purpose))

    def fingerprints(self) -> dict[str, int]:
        """Return a number for each stream that is equal only if equally much was drawn from it.

        The draw counters of the final digest, without a counter on every draw: the next draw of a copy, and
        the second half of a pair of `gauss` that is kept.
        """
        result = {}
        for (owner, purpose), stream in sorted(self._streams.items()):
            copy = Stream(0)
            state = stream.getstate()
            copy.setstate(state)
            result[f"{owner}/{purpose}"] = derive(copy.random(), state[2])
        return result
