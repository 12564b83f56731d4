"""Halving: which of many candidates the outcome of a run hangs on, with the draws on record.

A group of candidates is left out at once; what makes a difference is divided, and the group with the largest one first
(sequential bifurcation: Bettonvill and Kleijnen 1997). One of 500 is found after about 20 runs. If a group makes a
difference and neither of its halves does, its members can stand in for each other: then a smallest set is looked for
that makes it together (delta debugging: Zeller and Hildebrandt 2002). Candidates that offset each other make no
difference while they are in one group. So while nothing has been found, groups without a difference are divided as
well, down to a sixteenth of all: two that offset each other are then apart with a probability of 15/16. A few
are left out one by one before: without many of them, a run can become quite another one, so that a group says little
about its members. In the end, all that was not found is left out at once: beside one that is needed, there can be
several that stand in for each other.
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


_Group = tuple[int, ...]
"""Candidates, by their places."""


@attrs.frozen
class _Part:
    """A group, and the outcome of the run minus that without it."""

    group: _Group
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
        undivided: the largest effect of a group that was not divided, as there were no more runs or enough findings.
        complete: whether all with an effect were found. Not if effects are not known, groups with an effect were not
            divided, or nothing was found, and some could offset each other.
    """

    effects: Callable[[list[tuple[Item, ...]]], list[float | None]]
    runs: int
    most: int = 5
    tried: int = 0
    whole: float | None = None
    unknown: int = 0
    silent: int = 0
    undivided: float = 0.0
    complete: bool = True
    _items: tuple[Item, ...] = attrs.field(default=(), init=False)
    _known: dict[frozenset[int], float | None] = attrs.field(factory=dict, init=False)

    def search(self, items: Sequence[Item]) -> list[Found[Item]]:
        """Return the candidates with an effect, the largest first."""
        if not items:
            return []
        self._items, every = tuple(items), tuple(range(len(items)))
        (self.whole,) = self._try([every])
        few = 1 < len(every) <= self.runs * FEW
        found = self._alone(every) if few else []
        if not found or abs(found[0].effect) < abs(self.whole or 0.0) / 2:
            found += [one for one in self._divided(every, self.whole, even=not few) if one not in found]
        while found and not self.undivided and self.tried < self.runs and len(found) < self.most:
            more = self._beside(every, found)
            if not more:
                break
            found += more
        self.silent = 0 if few else self.silent
        left = self.undivided or len(found) > self.most
        self.complete = not (left or self.unknown or (self.silent and not found))
        found.sort(key=lambda one: -abs(one.effect))  # of equal ones, the first stays the first
        return [Found(self._members(one.group), one.effect) for one in found[: self.most]]

    def _alone(self, group: _Group) -> list[_Part]:
        """Return those that make a difference alone, the largest first."""
        known = self._try([(place,) for place in group])
        found = [_Part((place,), own) for place, own in zip(group, known, strict=True) if own]
        return sorted(found, key=lambda one: -abs(one.effect))

    def _beside(self, every: _Group, found: Sequence[_Part]) -> list[_Part]:
        """Return what makes a difference beside what was found: several that stand in for each other may hide there."""
        named = {place for one in found for place in one.group}
        rest = tuple(place for place in every if place not in named)
        if len(rest) < 2:  # one has been tried alone
            return []
        (effect,) = self._try([rest])
        return self._divided(rest, effect, most=self.most - len(found)) if effect else []

    def _divided(
        self, group: _Group, effect: float | None, *, even: bool = False, most: int | None = None
    ) -> list[_Part]:
        """Divide a group, and return what makes a difference.

        Args:
            group: the group.
            effect: its effect; None: it is not known.
            even: whether it is divided even if it makes no difference.
            most: the most findings.
        """
        waiting = [_Part(group, effect)] if effect else []
        silent = [group] if effect == 0 and len(group) > 1 else []
        found: list[_Part] = []
        while len(found) < (self.most if most is None else most):
            waiting.sort(key=lambda one: -abs(one.effect))
            large = [one for one in silent if len(one) > -(-len(group) // PARTS)] if even and not found else []
            if not waiting and not large:
                break
            part = waiting[0] if waiting else _Part(large[0], 0.0)
            if len(part.group) > 1 and self.tried + 2 > self.runs:
                break
            if part.effect:
                del waiting[0]
            else:
                silent.remove(part.group)
            if len(part.group) == 1:
                found.append(part)
                continue
            middle = len(part.group) // 2
            halves = [part.group[:middle], part.group[middle:]]
            known = self._try(halves)
            if part.effect and None not in known and not any(known):
                found.append(self._smallest(part))
                continue
            waiting += [_Part(half, own) for half, own in zip(halves, known, strict=True) if own]
            silent += [half for half, own in zip(halves, known, strict=True) if own == 0 and len(half) > 1]
        self.undivided = max((abs(one.effect) for one in waiting), default=0.0)
        self.silent = sum(map(len, silent))
        return found

    def _members(self, group: _Group) -> tuple[Item, ...]:
        return tuple(self._items[place] for place in group)

    def _try(self, groups: list[_Group]) -> list[float | None]:
        """Return the effects of groups; what is known is not tried again."""
        new = [group for group in groups if frozenset(group) not in self._known]
        self.tried += len(new)
        effects = self.effects([self._members(group) for group in new]) if new else []
        self.unknown += effects.count(None)
        self._known |= zip(map(frozenset, new), effects, strict=True)
        return [self._known[frozenset(group)] for group in groups]

    def _smallest(self, whole: _Part) -> _Part:
        """Return a smallest part of a group, without which the effect is at least half as large."""
        smallest, size = whole, 2
        while len(smallest.group) > 1 and self.tried + size <= self.runs:
            group = smallest.group
            length = -(-len(group) // size)
            parts = [group[start : start + length] for start in range(0, len(group), length)]
            rests = [tuple(one for one in group if one not in part) for part in parts]
            known = [_Part(rest, own or 0.0) for rest, own in zip(rests, self._try(rests), strict=True)]
            kept = next((one for one in known if _alike(one.effect, whole.effect)), None)
            if kept is not None:
                smallest, size = kept, max(2, size - 1)
            elif size >= len(group):
                break
            else:
                size = min(len(group), 2 * size)
        return smallest


def _alike(own: float, effect: float) -> bool:
    return own * effect > 0 and abs(own) >= abs(effect) / 2
