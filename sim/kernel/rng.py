"""Random streams: one for each (run seed, owner, purpose), derived by hash, and draws keyed by what they are for.

The only module that imports `random`. Adding an owner never shifts another's draws, because no stream is cut
from another. A stream is made when it is first drawn from: a `random.Random` takes 2.5 KB.
"""

import hashlib
import random
from typing import Any, Final, Self

_MASK: Final = 2**64 - 1
_GAMMA: Final = 0x9E3779B97F4A7C15


def derive(*parts: object) -> int:
    """Return 64 bits that depend on the parts alone, the same in every process."""
    text = "\0".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


class Stream(random.Random):
    """A stream of draws, one after the other: `random`, `randint`, `choice`, `sample`, `shuffle`, `gauss`, ...

    They agree on CPython 3.11 to 3.13.

    Args:
        seed: where it begins (64 bits); None is different each time, for the edge alone.
        origin: what `at` derives its draws from: the run's seed, the owner, the purpose. By default the seed.
    """

    def __new__(cls, seed: int | None, *origin: object) -> Self:
        """Hand on the seed alone."""
        return super().__new__(cls, seed)  # type: ignore[call-arg]  # typeshed leaves it out

    def __init__(self, seed: int | None, *origin: object) -> None:
        super().__init__(seed)
        self._origin = origin or (seed,)

    def at(self, *key: object) -> "KeyedStream":
        """Return draws for one thing: they depend on this stream's origin and on `key` only, not on other draws.

        Whoever draws once more for one thing moves the draws for no other: runs that differ in a parameter keep common
        random numbers (Law, Simulation Modeling and Analysis, section 11.2).

        Args:
            key: what the draws are for, such as `("infection", 12)`; its parts are told apart by their text.
        """
        return KeyedStream(derive("at", *self._origin, *key), *self._origin, *key)

    def renew(self, seed: int, *origin: object) -> None:
        """Begin anew elsewhere."""
        self.seed(seed)
        self._origin = origin


class KeyedStream(Stream):
    """Draws for one thing. To begin one takes no time, which a new `random.Random` does.

    The generator is SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
    """

    def seed(self, a: Any = 0, version: int = 2) -> None:
        """Begin at a number of 64 bits."""
        self._state = int(a) & _MASK
        self.gauss_next = None

    def random(self) -> float:
        """Return a number from 0 to below 1."""
        return (self._next() >> 11) * 2.0**-53

    def getrandbits(self, k: int, /) -> int:
        """Return `k` random bits."""
        bits = 0
        for _ in range(0, k, 64):
            bits = bits << 64 | self._next()
        return bits >> (-k % 64)

    def getstate(self) -> Any:
        """Refuse: what it draws next is known from its key."""
        raise NotImplementedError("keyed draws have no state to keep: ask for the same key again")

    def _next(self) -> int:
        self._state = mixed = (self._state + _GAMMA) & _MASK
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
        return mixed ^ mixed >> 31


class Streams:
    """The random streams of one run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[tuple[str, str], Stream] = {}

    def get(self, owner: str, purpose: str = "") -> Stream:
        """Return the stream of `owner` for `purpose`, the same object at each call."""
        stream = self._streams.get((owner, purpose))
        if stream is None:
            origin = self.seed, owner, purpose
            stream = self._streams[owner, purpose] = Stream(derive("stream", *origin), *origin)
        return stream

    def at(self, owner: str, purpose: str, *key: object) -> KeyedStream:
        """Return the draws of `owner` for `purpose` and `key`: those of `get(owner, purpose).at(*key)`."""
        origin = self.seed, owner, purpose, *key
        return KeyedStream(derive("at", *origin), *origin)

    def reseed(self, seed: int) -> None:
        """From now on draw as if the run had this seed; whoever holds a stream goes on with it."""
        self.seed = seed
        for (owner, purpose), stream in self._streams.items():
            stream.renew(derive("stream", seed, owner, purpose), seed, owner, purpose)

    def fingerprints(self) -> dict[str, int]:
        """Return a number for each stream that is equal only if equally much was drawn from it.

        The draw counters of the final digest, without a counter on every draw: the next draw of a copy, and
        the second half of a pair of `gauss` that is kept. Keyed draws leave no state.
        """
        result = {}
        copy = Stream(0)
        for (owner, purpose), stream in sorted(self._streams.items()):
            state = stream.getstate()
            copy.setstate(state)
            result[f"{owner}/{purpose}"] = derive(copy.random(), state[2])
        return result
