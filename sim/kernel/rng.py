"""Random streams, one for each (run seed, owner, purpose), and keyed draws.

The seed of a stream is a hash of these three values. A further owner therefore changes no other stream. A stream is
created on first use, because a `random.Random` takes 2.5 KB. This is the only module that imports `random`.
"""

import hashlib
import random
from typing import Any, Final, Self

_MASK: Final = 2**64 - 1
_GAMMA: Final = 0x9E3779B97F4A7C15


def derive(*parts: object) -> int:
    """Return a 64-bit hash of the parts, which is the same in every process."""
    text = "\0".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


class Stream(random.Random):
    """A sequence of random draws: `random`, `randint`, `choice`, `sample`, `shuffle`, `gauss`, ...

    The draws are equal on CPython 3.11 to 3.13.

    Args:
        seed: the seed (64 bits). None gives a different stream each time; only the edge may use it.
        origin: the values from which `at` derives keyed draws: seed of the run, owner, purpose. By default the seed.
    """

    def __new__(cls, seed: int | None, *origin: object) -> Self:
        """Pass on the seed only, because `random.Random` takes no further arguments."""
        return super().__new__(cls, seed)  # type: ignore[call-arg]  # missing in typeshed

    def __init__(self, seed: int | None, *origin: object) -> None:
        super().__init__(seed)
        self._origin = origin or (seed,)

    def at(self, *key: object) -> "KeyedStream":
        """Return keyed draws: they depend on the origin of this stream and on `key` only, not on other draws.

        One more draw for one key does not change the draws for other keys. Runs that differ in one parameter therefore
        keep common random numbers (Law, Simulation Modeling and Analysis, section 11.2).

        Args:
            key: what the draws are for, such as `("infection", 12)`. Parts with equal text count as equal.
        """
        return KeyedStream(derive("at", *self._origin, *key), *self._origin, *key)

    def renew(self, seed: int, *origin: object) -> None:
        """Restart the stream with another seed and origin."""
        self.seed(seed)
        self._origin = origin


class KeyedStream(Stream):
    """The draws for one key. Creating this object is much cheaper than creating a `random.Random`.

    The generator is SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
    """

    def seed(self, a: Any = 0, version: int = 2) -> None:
        """Set the state to a 64-bit number."""
        self._state = int(a) & _MASK
        self.gauss_next = None

    def random(self) -> float:
        """Return a random number in [0, 1)."""
        return (self._next() >> 11) * 2.0**-53

    def getrandbits(self, k: int, /) -> int:
        """Return `k` random bits."""
        bits = 0
        for _ in range(0, k, 64):
            bits = bits << 64 | self._next()
        return bits >> (-k % 64)

    def getstate(self) -> Any:
        """Raise `NotImplementedError`: the draws follow from the key, so there is no state to save."""
        raise NotImplementedError("keyed draws have no state to save: call `at` with the same key again")

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
        """Restart all streams as if the run had this seed. References to existing streams stay valid."""
        self.seed = seed
        for (owner, purpose), stream in self._streams.items():
            stream.renew(derive("stream", seed, owner, purpose), seed, owner, purpose)

    def fingerprints(self) -> dict[str, int]:
        """Return a fingerprint of the state of each stream, for the digest of the run.

        A fingerprint is a hash of the next draw of a copy and of the stored second value of `gauss`. It detects a
        different number of draws without a counter at each draw. Keyed draws have no state.
        """
        result = {}
        copy = Stream(0)
        for (owner, purpose), stream in sorted(self._streams.items()):
            state = stream.getstate()
            copy.setstate(state)
            result[f"{owner}/{purpose}"] = derive(copy.random(), state[2])
        return result
