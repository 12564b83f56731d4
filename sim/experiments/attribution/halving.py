"""Halving: which of many candidates the outcome of a run hangs on, with the draws on record.

A group of candidates is left out at once; what makes a difference is divided, and the group with the largest one first
(sequential bifurcation: Bettonvill and Kleijnen 1997). One of 500 is found after about 18 runs. If a group makes a
difference and neither of its halves does, its members can stand in for each other: then a smallest set is looked for
that makes it together (delta debugging: Zeller and Hildebrandt 2002). Candidates that offset each other make no
difference while they are in one group. So while nothing has been found, groups without a difference are divided as
well, down to a sixteenth of all: two that offset each other are then apart with a probability of 15/16. A few
are left out one by one before: without many of them, a run can become quite another one, so that a group says little
about its members.
"""

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

import attrs

Item = TypeVar("Item")

PARTS: Final = 16
"""A group without a difference is divided while it is larger than this part of all candidates: 30 runs at most."""

FEW: Final = 1 / 3
"""Candidates are left out one by one if there are at most so many, as a share of the runs."""


@attrs.frozen
class Found(Generic[Item]):
    """Candidates without which the outcome is another one.

    Attributes:
        items: one; or several, each of which makes no difference alone.
        effect: the outcome of the run, minus the outcome without them.
    """

    items: tuple[Item, ...]
    effect: float


@attrs.frozen(eq=False)
class _Part(Generic[Item]):
    """A group, and the outcome of the run minus that without it."""

    group: tuple[Item, ...]
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
        silent: how many candidates are in groups of several that make no difference together, and were not divided:
            some of them could offset each other.
        complete: whether all with an effect were found. Not if effects are not known, or if nothing was found, and some
            could offset each other.
    """

    effects: Callable[[list[tuple[Item, ...]]], list[float | None]]
    runs: int
    most: int = 5
    tried: int = 0
    whole: float | None = None
    unknown: int = 0
    silent: int = 0
    complete: bool = True

    def search(self, items: Sequence[Item]) -> list[Found[Item]]:
        """Return the candidates with an effect, the largest first."""
        if not items:
            return []
        (self.whole,) = self._try([tuple(items)])
        alone = self._alone(items) if 1 < len(items) <= self.runs * FEW else []
        if alone and abs(alone[0].effect) >= abs(self.whole or 0.0) / 2:
            self.complete = not self.unknown
            return alone[: self.most]
        part = _Part(tuple(items), self.whole or 0.0)
        waiting = [part] if self.whole else []
        silent = [part] if self.whole == 0 and len(items) > 1 else []
        found: list[Found[Item]] = []
        while len(found) < self.most:
            waiting.sort(key=lambda one: -abs(one.effect))  # of equal ones, the first stays the first
            large = [] if found else [one for one in silent if len(one.group) > -(-len(items) // PARTS)]
            if not waiting and not large:
                break
            part = (waiting or large)[0]
            if len(part.group) > 1 and self.tried + 2 > self.runs:
                break
            (waiting or silent).remove(part)
            if len(part.group) == 1:
                found.append(Found(part.group, part.effect))
                continue
            middle = len(part.group) // 2
            halves = [part.group[:middle], part.group[middle:]]
            known = self._try(halves)
            if part.effect and None not in known and not any(known):
                found.append(Found(self._smallest(part.group, part.effect), part.effect))
                continue
            waiting += [_Part(half, own) for half, own in zip(halves, known, strict=True) if own]
            silent += [_Part(half, 0.0) for half, own in zip(halves, known, strict=True) if own == 0 and len(half) > 1]
        self.silent = sum(len(one.group) for one in silent)
        self.complete = not (waiting or self.unknown or (self.silent and not found))
        known_alone = {one.items for one in found}
        return [*found, *(one for one in alone if one.items not in known_alone)][: self.most]

    def _alone(self, items: Sequence[Item]) -> list[Found[Item]]:
        """Return those that make a difference alone, the largest first."""
        known = self._try([(one,) for one in items])
        found = [Found((one,), own) for one, own in zip(items, known, strict=True) if own]
        return sorted(found, key=lambda one: -abs(one.effect))

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
