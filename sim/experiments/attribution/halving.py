"""Halving: which of many candidates the outcome of a run hangs on, with the draws on record.

A group of candidates is left out at once; what makes a difference is divided, and the group with the largest one first
(sequential bifurcation: Bettonvill and Kleijnen 1997). One of 500 is found after about 18 runs. If a group makes a
difference and neither of its halves does, its members can stand in for each other: then a smallest set is looked for
that makes it together (delta debugging: Zeller and Hildebrandt 2002).
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import attrs

Item = TypeVar("Item")


@attrs.frozen
class Found(Generic[Item]):
    """Candidates without which the outcome is another one.

    Attributes:
        items: one; or several, each of which makes no difference alone.
        effect: the outcome of the run, minus the outcome without them.
    """

    items: tuple[Item, ...]
    effect: float


@attrs.define
class Halving(Generic[Item]):
    """The search among candidates of one kind.

    Args:
        effects: returns the effect of leaving out each of some groups; None: it is not known.
        runs: the most groups that are tried.
        most: the most findings.

    Attributes:
        tried: how many groups were tried.
        whole: the effect of leaving out all candidates; None: it is not known.
        unknown: how many effects are not known.
        complete: whether all with an effect were found. Not if effects are not known, or if that of all together is 0:
            single ones could offset each other, and are not looked for.
    """

    effects: Callable[[list[tuple[Item, ...]]], list[float | None]]
    runs: int
    most: int = 5
    tried: int = 0
    whole: float | None = None
    unknown: int = 0
    complete: bool = True

    def search(self, items: Sequence[Item]) -> list[Found[Item]]:
        """Return the candidates with an effect, the largest first."""
        if not items:
            return []
        (self.whole,) = self._try([tuple(items)])
        waiting: list[tuple[float, int, tuple[Item, ...]]] = []
        if self.whole:
            waiting.append((abs(self.whole), 0, tuple(items)))
        found: list[Found[Item]] = []
        signs = {0: self.whole or 0.0}
        number = 0
        while waiting and len(found) < self.most:
            waiting.sort(key=lambda one: (-one[0], one[1]))
            _, own, group = waiting.pop(0)
            if len(group) == 1:
                found.append(Found(group, signs[own]))
                continue
            if self.tried + 2 > self.runs:
                break
            middle = len(group) // 2
            halves = [group[:middle], group[middle:]]
            known = self._try(halves)
            if None not in known and not any(known):
                found.append(Found(self._smallest(group, signs[own]), signs[own]))
                continue
            for half, effect in zip(halves, known, strict=True):
                if effect:
                    number += 1
                    signs[number] = effect
                    waiting.append((abs(effect), number, half))
        offset = len(items) > 1 and self.whole == 0
        self.complete = not (waiting or self.unknown or offset)
        return found

    def _try(self, groups: list[tuple[Item, ...]]) -> list[float | None]:
        self.tried += len(groups)
        known = self.effects(groups)
        self.unknown += known.count(None)
        return known

    def _smallest(self, group: tuple[Item, ...], effect: float) -> tuple[Item, ...]:
        """Return a smallest part of a group, without which the effect is at least half as large."""
        size = 2
        while len(group) > 1 and self.tried + size <= self.runs:
            length = -(-len(group) // size)
            parts = [group[start : start + length] for start in range(0, len(group), length)]
            rests = [tuple(one for one in group if one not in part) for part in parts]
            known = self._try(rests)
            kept = next((rest for rest, own in zip(rests, known, strict=True) if _alike(own, effect)), None)
            if kept is not None:
                group, size = kept, max(2, size - 1)
            elif size >= len(group):
                break
            else:
                size = min(len(group), 2 * size)
        return group


def _alike(own: float | None, effect: float) -> bool:
    return own is not None and own * effect > 0 and abs(own) >= abs(effect) / 2
