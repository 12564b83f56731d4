"""Stocks of places: something that grows at each place up to its capacity, and that agents gather, such as food."""

import math
from collections.abc import Callable, Mapping, Sequence

from sim.kernel import Kernel
from sim.resources.amounts import Amount, exact, minus, plus, times


class Stocks:
    """The stock of each place. It is full at first. A stock is computed when it is read: growing costs nothing.

    Amounts are exact, as those of a `Container` are.

    Args:
        kernel: the clock.
        capacities: the most that there is at each place, in units.
        growth: how many units grow at each place in a period, as long as it is below its capacity.
        every_ns: the length of a period, in simulated nanoseconds.
    """

    def __init__(self, kernel: Kernel, capacities: Mapping[str, float], growth: float, every_ns: int) -> None:
        self._kernel = kernel
        self._capacities = dict(capacities)
        self._growth = _exact(growth)
        self._every_ns = every_ns
        self._left: dict[str, tuple[Amount, int]] = {}  # where agents gathered: what was left in which period

    def level(self, place: str) -> float:
        """Return how much there is at a place now; 0 if there is no such place."""
        most = self._capacities.get(place, 0.0)
        left = self._left.get(place)
        if left is None:
            return most
        amount, periods = left[0], self._kernel.now // self._every_ns - left[1]
        if amount.__class__ is int and self._growth.__class__ is int:  # the hot path; `plus` and `times` say the same
            grown = float(amount + self._growth * periods)
        else:
            grown = float(plus(amount, times(self._growth, periods)))
        return grown if grown < most else most

    def richest(self, here: str, rings: Sequence[Sequence[str]], is_free: Callable[[str], bool]) -> list[str]:
        """Return the place with most, or of several the nearest ones: `here`, or a free place in one of the rings.

        Args:
            here: the first place; it need not be free.
            rings: the other places, by their distance.
            is_free: whether a place may be chosen.
        """
        capacities, gathered, level = self._capacities, self._left, self.level
        most, best = level(here), [here]
        for ring in rings:
            nearer = most  # of what is nearer; a place of the ring has to have more
            for place in ring:
                there = capacities.get(place, 0.0)
                if there <= nearer:
                    continue  # it can hold no more; this saves most computations of a level
                if place in gathered:
                    there = level(place)
                if there > nearer and there >= most and is_free(place):
                    if there > most:
                        most, best = there, [place]
                    else:
                        best.append(place)
        return best

    def take(self, place: str, most: float | None = None) -> float:
        """Remove all that there is at a place, or at most `most` units; return how much that is."""
        if self._kernel.current is None:
            self._kernel.acting()  # it refuses a call from outside before anything changes
        there = self.level(place)
        taken = there if most is None else min(there, most)
        if taken:
            self._left[place] = (minus(_exact(there), _exact(taken)), self._period())
        return taken

    def total(self) -> float:
        """Return how much there is at all places together."""
        return math.fsum(self.level(place) for place in self._capacities)

    def state(self) -> Mapping[str, float]:
        """Return the stock of each place, for the final digest."""
        return {place: self.level(place) for place in self._capacities}

    def _period(self) -> int:
        return self._kernel.now // self._every_ns


def _exact(value: float) -> Amount:
    """Return a number as an exact amount; as an int if it is whole, because ints are added faster."""
    return int(value) if value == int(value) else exact(value)
