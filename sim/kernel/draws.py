"""Keyed draws: random numbers that depend on the seed, an owner, a purpose and a moment, and on no other draw.

Two worlds that differ in one message therefore share all draws that both make at equal moments (common random numbers:
Law, Simulation Modeling and Analysis, section 11.2).

The generator is SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): the n-th
draw of a moment is `mix(start + n * gamma)`. The start depends on seed, owner, purpose and moment. Each owner and
purpose has a `gamma` of its own, so that the draws of one are never those of another in a shifted place.

`compiled/draws.c` has the same generator, equal to the bit. Each distribution is defined here by its operations, in
double precision and in this order, because `random.Random` may change its own between versions of Python.
"""

import hashlib
import math
import operator
from collections.abc import MutableSequence, Sequence
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from sim.kernel.compiled import core

_MASK: Final = 2**64 - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15
_FIRST: Final = 0xBF58476D1CE4E5B9
_SECOND: Final = 0x94D049BB133111EB
_TURNS: Final = 0xAAAAAAAAAAAAAAAA
_TO_UNIT: Final = 2.0**-53
_FULL_CIRCLE: Final = 2.0 * math.pi

Item = TypeVar("Item")


def keys_of(*parts: object) -> tuple[int, int]:
    """Return the key and the gamma for draws: two hashes of the text of `parts`, the same in every process."""
    digest = hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=16).digest()
    gamma = int.from_bytes(digest[8:], "big") | 1
    if (
        gamma ^ gamma >> 1
    ).bit_count() < 24:  # too regular: the draws would not be independent (section 5 of the paper)
        gamma ^= _TURNS
    return int.from_bytes(digest[:8], "big"), gamma


class Seed:
    """The seed of a run, which all its draws share, so that a branch can replace it.

    Args:
        value: 64 bits.
    """

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value


class Generator:
    """The generator of `Draws`, and the distributions that rules use.

    Args:
        seed: the seed of the run.
        key: 64 bits that stand for owner and purpose.
        gamma: an odd number of 64 bits, the step between two draws.

    Attributes:
        seed, key, gamma: the same.
    """

    __slots__ = ("_count", "_drawn", "_fresh", "_state", "_time", "_turn", "gamma", "key", "seed")

    def __init__(self, seed: Seed, key: int, gamma: int, /) -> None:
        self.seed = seed
        self.key = key
        self.gamma = gamma
        self._state = 0
        self._time = 0
        self._turn = 0
        self._drawn: int | None = None  # the time of the last moment with a draw
        self._count = 0  # how many moments with a draw preceded the present one at this time
        self._fresh = True  # whether no draw was made at the present moment yet

    def moment(self, time: int, turn: int | None = None, /) -> Self:
        """Go to a moment, and return this object. It costs nothing until the first draw there.

        Args:
            time: the simulated time in nanoseconds.
            turn: separates the moments of one time. The same time and turn again continue the present moment; None is
                a moment of its own. Only moments with a draw count: the second one of a time has other draws than the
                first one, however many moments without a draw lie between.
        """
        if turn is None:
            self._turn = -1
        elif turn == self._turn and time == self._time:
            return self
        else:
            self._turn = turn
        self._time = time
        self._fresh = True
        return self

    def next(self) -> int:
        """Return 64 random bits."""
        state = self._start() if self._fresh else self._state
        self._state = state = (state + self.gamma) & _MASK
        return _mix(state)

    def _start(self) -> int:
        self._fresh = False
        time = self._time
        self._count = self._count + 1 if time == self._drawn else 0
        self._drawn = time
        state = _mix(((self.key ^ self.seed.value) + time * _GOLDEN) & _MASK)
        return _mix((state + self._count * _GOLDEN) & _MASK) if self._count else state

    def random(self) -> float:
        """Return a random number in [0, 1): 53 random bits."""
        return (self.next() >> 11) * _TO_UNIT

    def below(self, n: int, /) -> int:
        """Return a random integer from 0 to n - 1, each with the same probability (Lemire, 2019).

        Raises:
            ValueError: if `n` is not above 0.
        """
        n = operator.index(n)
        if n <= 0:
            raise ValueError(f"a random integer below {n} does not exist")
        if n > _MASK:
            return self._below_large(n)
        product = self.next() * n
        if product & _MASK < n:
            least = (_MASK + 1 - n) % n
            while product & _MASK < least:
                product = self.next() * n
        return product >> 64

    def _below_large(self, n: int) -> int:
        bits = n.bit_length()
        while True:
            number = 0
            for _ in range(0, bits, 64):
                number = number << 64 | self.next()
            number >>= -bits % 64
            if number < n:
                return number

    def randint(self, low: int, high: int, /) -> int:
        """Return a random integer from `low` to `high`, both included.

        Raises:
            ValueError: if there is none.
        """
        first, last = operator.index(low), operator.index(high)
        if first > last:
            raise ValueError(f"randint needs low <= high, not {first} and {last}")
        return first + self.below(last - first + 1)

    def uniform(self, low: float, high: float, /) -> float:
        """Return a uniformly distributed number between `low` and `high`."""
        return low + (high - low) * self.random()

    def chance(self, probability: float, /) -> bool:
        """Return True with this probability."""
        return self.random() < probability

    def exponential(self, mean: float, /) -> float:
        """Return an exponentially distributed number with this mean."""
        return -math.log(1.0 - self.random()) * mean

    def gauss(self, mu: float = 0.0, sigma: float = 1.0, /) -> float:
        """Return a normally distributed number (Box and Muller, 1958; two draws, of which the sine is not used)."""
        angle = self.random() * _FULL_CIRCLE
        radius = math.sqrt(-2.0 * math.log(1.0 - self.random()))
        return mu + math.cos(angle) * radius * sigma

    def choice(self, items: Sequence[Item], /) -> Item:
        """Return a random element of `items`.

        Raises:
            IndexError: if there is none.
        """
        if not len(items):
            raise IndexError("choice needs at least one item")
        return items[self.below(len(items))]

    def shuffle(self, items: MutableSequence[Any], /) -> None:
        """Put the items in random order (Fisher and Yates, from the last to the first)."""
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]


def _mix(bits: int) -> int:
    bits = (bits ^ bits >> 30) * _FIRST & _MASK
    bits = (bits ^ bits >> 27) * _SECOND & _MASK
    return bits ^ bits >> 31


if core is not None and not TYPE_CHECKING:
    Seed, Generator = core.Seed, core.Generator
