"""Random streams, one for each (run seed, owner, purpose), and the draws of a run.

The seed of a stream is a hash of these three values. A further owner therefore changes no other stream. A stream is
created on first use, because a `random.Random` takes 2.5 KB. Keyed draws (see `draws`) take 100 bytes.
This is the only module that imports `random`.
"""

import hashlib
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Self

from sim.kernel.compiled import core
from sim.kernel.draws import Generator, Item, Seed, keys_of


def derive(*parts: object) -> int:
    """Return a 64-bit hash of the parts, which is the same in every process."""
    text = "\0".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def hash_order(named: Mapping[str, Item], *parts: object) -> list[Item]:
    """Return the items of a mapping in the order of `derive(*parts, name)`: one item more leaves the others in order.

    Args:
        named: the items by name.
        parts: what the order is for.
    """
    text = "".join(f"{part}\0" for part in parts).encode()
    if core is not None and named.__class__ is dict:
        ordered: list[Item] = core.hash_order(named, text)
        return ordered
    begun = hashlib.blake2b(text, digest_size=8).copy

    def place(name: str) -> bytes:
        hash = begun()
        hash.update(name.encode())
        return hash.digest()

    return [named[name] for name in sorted(sorted(named), key=place)]  # equal hashes: by name


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

    def at(self, *key: object) -> "Draws":
        """Return keyed draws: they depend on the origin of this stream and on `key` only, not on other draws.

        One more draw for one key does not change the draws for other keys. Runs that differ in one parameter therefore
        keep common random numbers (Law, Simulation Modeling and Analysis, section 11.2).

        Args:
            key: what the draws are for, such as `("infection", 12)`. Parts with equal text count as equal.
        """
        seed, *purpose = self._origin
        return Draws(_seed(seed), *keys_of(*purpose, *key))

    def renew(self, seed: int, *origin: object) -> None:
        """Restart the stream with another seed and origin."""
        self.seed(seed)
        self._origin = origin


class Draws(Generator):
    """The draws of one owner for one purpose: `random`, `randint`, `choice`, `sample`, `shuffle`, `gauss`, ...

    `Streams` makes them. They have no state beyond the present moment; see `moment`.
    """

    __slots__ = ()

    def at(self, *key: object) -> "Draws":
        """Return draws that depend on the seed, the owner, the purpose and `key` only, at whatever moment.

        Args:
            key: what the draws are for, such as `("infection", 12)`. Parts with equal text count as equal.
        """
        return Draws(self.seed, *keys_of(self.key, self.gamma, *key))

    def split(self) -> "Draws":
        """Return draws that continue from the next draw, whatever is drawn from this object later."""
        return Draws(Seed(0), self.next(), self.next() | 1)

    def getrandbits(self, k: int, /) -> int:
        """Return `k` random bits."""
        bits = 0
        for _ in range(0, k, 64):
            bits = bits << 64 | self.next()
        return bits >> (-k % 64)

    def sample(self, population: Sequence[Item], k: int) -> list[Item]:
        """Return `k` elements of `population` in random order, none of them twice.

        Raises:
            ValueError: if there are fewer.
        """
        size = len(population)
        if not 0 <= k <= size:
            raise ValueError(f"sample needs k from 0 to {size}, the number of items, not {k}")
        chosen, moved = [], dict[int, int]()  # the shuffle from the first to the last, without a copy of all places
        for place in range(k):
            other = place + self.below(size - place)
            chosen.append(population[moved.get(other, other)])
            moved[other] = moved.get(place, place)
        return chosen

    def expovariate(self, lambd: float = 1.0) -> float:
        """Return an exponentially distributed number with the rate `lambd`, as `random.Random.expovariate`."""
        return -math.log(1.0 - self.random()) / lambd

    def normalvariate(self, mu: float = 0.0, sigma: float = 1.0) -> float:
        """Return a normally distributed number; the same as `gauss`."""
        return self.gauss(mu, sigma)

    # Rare distributions, as `random.Random` computes them from the draws above. It has them as plain functions.
    _randbelow = Generator.below
    betavariate: Any = random.Random.betavariate
    choices: Any = random.Random.choices
    gammavariate: Any = random.Random.gammavariate
    lognormvariate: Any = random.Random.lognormvariate
    paretovariate: Any = random.Random.paretovariate
    randbytes: Any = random.Random.randbytes
    randrange: Any = random.Random.randrange
    triangular: Any = random.Random.triangular
    vonmisesvariate: Any = random.Random.vonmisesvariate
    weibullvariate: Any = random.Random.weibullvariate

    def __reduce__(self) -> NoReturn:
        """Raise `TypeError`: the draws follow from their key, so there is no state to save or copy."""
        raise TypeError("keyed draws have no state to save or copy: go to the same moment again")


def _seed(seed: object) -> Seed:
    return Seed(derive("seed", seed))


class Streams:
    """The random streams of one run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._base = _seed(seed)
        self._streams: dict[tuple[str, str], Stream] = {}
        self._draws: dict[tuple[str, str], Draws] = {}
        self._purposes: dict[str, None] = {}  # of draws, of any owner

    def get(self, owner: str, purpose: str = "") -> Stream:
        """Return the stream of `owner` for `purpose`, the same object at each call."""
        stream = self._streams.get((owner, purpose))
        if stream is None:
            origin = self.seed, owner, purpose
            stream = self._streams[owner, purpose] = Stream(derive("stream", *origin), *origin)
        return stream

    def draws(self, owner: str, purpose: str) -> Draws:
        """Return the draws of `owner` for `purpose`, the same object at each call. Go to a moment first."""
        draws = self._draws.get((owner, purpose))
        if draws is None:
            self._purposes[purpose] = None
            draws = self._draws[owner, purpose] = Draws(self._base, *keys_of(owner, purpose))
        return draws

    def at(self, owner: str, purpose: str, *key: object) -> Draws:
        """Return the draws of `owner` for `purpose` and `key`: those of `get(owner, purpose).at(*key)`."""
        return Draws(self._base, *keys_of(owner, purpose, *key))

    def forget(self, owner: str) -> None:
        """Forget the draws of an owner that has left."""
        for purpose in self._purposes:
            self._draws.pop((owner, purpose), None)

    def reseed(self, seed: int) -> None:
        """Restart all streams and draws as if the run had this seed. References to existing ones stay valid."""
        self.seed = seed
        self._base.value = _seed(seed).value
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
