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

If the effect of a group is not known, as without it the run fails, its halves are tried all the same: first where the
group of which it is a half has an effect that the other half does not explain.
"""

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

import attrs

Item = TypeVar("Item")

PARTS: Final = 16
"""A group without a difference is divided while it is larger than this part of all candidates: 30 runs at most."""

FEW: Final = 1 / 3
"""Candidates are left out one by one if they are at most this share of the runs."""


@attrs.frozen
class Decisive(Generic[Item]):
    """Candidates without which the outcome is another one.

    Attributes:
        items: one, or several that make a difference together.
        effect: the outcome of the run, minus the outcome without them; None: it is not known.
        minimal: whether it is known that all but one of them make less than half of the difference, or it is one.
        redundant: whether each of several was left out alone, and made no difference.
    """

    items: tuple[Item, ...]
    effect: float | None
    minimal: bool = True
    redundant: bool = False


_Group = tuple[int, ...]
"""Candidates, by their places."""


@attrs.frozen
class _Part:
    """A group, and the outcome of the run minus that without it.

    Attributes:
        group: the group.
        effect: its effect; None: it is not known.
        expected: if it is not known, what the other half leaves of the effect of both. Otherwise, the effect itself.
        minimal: whether it is known that fewer make less than half of the difference.
    """

    group: _Group
    effect: float | None
    expected: float
    minimal: bool = True

    @classmethod
    def of(cls, group: _Group, effect: float | None, expected: float = 0.0) -> "_Part":
        """Return the part of a group."""
        return cls(group, effect, expected if effect is None else effect)


@attrs.define
class Halving(Generic[Item]):
    """The search among candidates of one kind.

    Args:
        effects: returns the effect of leaving out each of some groups; None: it is not known. It returns fewer if there
            is no more time.
        runs: the most groups that are tried.
        most: the most findings.

    Attributes:
        tried: how many groups were tried.
        whole: the effect of leaving out all candidates; None: it is not known.
        unknown: how many effects are not known.
        silent: how many candidates were not found, and were left out only in groups of several of which the smallest
            makes no difference: some of them could offset each other.
        undivided: the largest effect of a group that was not divided, as there were no more runs or enough findings.
        cut: whether there was no time to try a group.
        unchecked: whether something was found, and all others together were not left out, as no runs were left.
        complete: whether it is known that all that make a difference alone are among what was found, that each group
            that was found is `minimal`, and that all others together make no difference.
    """

    effects: Callable[[list[tuple[Item, ...]]], list[float | None]]
    runs: int
    most: int = 5
    tried: int = 0
    whole: float | None = None
    unknown: int = 0
    silent: int = 0
    undivided: float = 0.0
    cut: bool = False
    unchecked: bool = False
    complete: bool = True
    _items: tuple[Item, ...] = attrs.field(default=(), init=False)
    _effect_of: dict[frozenset[int], float | None] = attrs.field(factory=dict, init=False)

    def search(self, items: Sequence[Item]) -> list[Decisive[Item]]:
        """Return the candidates with an effect, the largest first."""
        if not items:
            return []
        self._items, every = tuple(items), tuple(range(len(items)))
        (self.whole,) = self._try([every])
        few = 1 < len(every) <= self.runs * FEW
        findings = self._alone(every) if few else []
        if not findings or abs(findings[0].expected) < abs(self.whole or 0.0) / 2:
            groups = {one.group for one in findings}
            more = self._divided(_Part.of(every, self.whole), even=not few)
            findings += [one for one in more if one.group not in groups]
        nothing_else = self._beside(every, findings)
        ungrouped = self._ungrouped(every, findings)
        self.silent = sum(effect == 0 for effect in ungrouped)
        left = self.undivided or self.cut or len(findings) > self.most or not all(one.minimal for one in findings)
        self.complete = nothing_else and not (left or self.unknown or ungrouped)
        findings.sort(key=lambda one: -abs(one.expected))  # of equal ones, the first stays the first
        return [self._finding(one) for one in findings[: self.most]]

    def _finding(self, part: _Part) -> Decisive[Item]:
        alone = [self._effect_of.get(frozenset({place})) for place in part.group]
        return Decisive(self._members(part.group), part.effect, part.minimal, all(own == 0 for own in alone))

    def _alone(self, group: _Group) -> list[_Part]:
        """Return those that make a difference alone, the largest first."""
        effects = self._try([(place,) for place in group])
        findings = [_Part.of((place,), own) for place, own in zip(group, effects, strict=True) if own]
        return sorted(findings, key=lambda one: -abs(one.expected))

    def _beside(self, every: _Group, findings: list[_Part]) -> bool:
        """Add what makes a difference beside what was found: several that stand in for each other may hide there.

        Returns:
            Whether it is known that all others together make no difference.
        """
        if not findings:
            return self.whole == 0
        while not self.undivided and len(findings) <= self.most:
            rest = _without(every, findings)
            if not rest:
                return True
            if not self._affords([rest]):
                self.unchecked = True
                return False
            (effect,) = self._try([rest])
            if not effect:
                self.unchecked = self.cut
                return effect == 0
            if len(findings) == self.most:
                self.undivided = abs(effect)
                return False
            more = self._divided(_Part.of(rest, effect), most=self.most - len(findings))
            if not more:
                return False
            findings += more
        return False

    def _ungrouped(self, every: _Group, findings: Sequence[_Part]) -> list[float | None]:
        """Return, for each that was neither found nor left out alone, the effect of the smallest group it was in."""
        smallest = dict[int, tuple[int, float | None]]()
        for group, effect in sorted(self._effect_of.items(), key=lambda item: (-len(item[0]), item[1] != 0)):
            smallest |= dict.fromkeys(group, (len(group), effect))
        own = [smallest[place] for place in _without(every, findings) if place in smallest]
        return [effect for length, effect in own if length > 1]

    def _divided(self, whole: _Part, *, even: bool = False, most: int | None = None) -> list[_Part]:
        """Divide a group, and return what makes a difference.

        Args:
            whole: the group.
            even: whether groups are divided even if they are not known to make a difference, while nothing is found.
            most: the most findings.
        """
        waiting, silent, findings, undivided = [whole], list[_Part](), list[_Part](), list[_Part]()
        least = -(-len(whole.group) // PARTS)
        while len(findings) < (self.most if most is None else most):
            silent += [one for one in waiting if not one.expected]
            waiting = [one for one in waiting if one.expected]
            waiting.sort(key=lambda one: (-abs(one.expected), one.effect is None))
            large = [one for one in silent if len(one.group) > least] if even and not findings else []
            if not waiting and not large:
                break
            part = waiting.pop(0) if waiting else large[0]
            if len(part.group) == 1:
                findings += [part] if part.effect else []
                continue
            middle = len(part.group) // 2
            halves = [part.group[:middle], part.group[middle:]]
            if not self._affords(halves):
                undivided.append(part)
                if not part.expected:
                    break
                continue
            silent = [one for one in silent if one is not part]
            first, second = self._try(halves)
            if part.effect and first == second == 0:
                findings.append(self._smallest(part))
                continue
            guess = part.effect is not None or part.expected
            waiting += [
                _Part.of(halves[0], first, part.expected - (second or 0.0) if guess else 0.0),
                _Part.of(halves[1], second, part.expected - (first or 0.0) if guess else 0.0),
            ]
        self.undivided = max((abs(one.effect or 0.0) for one in [*waiting, *undivided]), default=0.0)
        return findings

    def _members(self, group: _Group) -> tuple[Item, ...]:
        return tuple(self._items[place] for place in group)

    def _try(self, groups: list[_Group]) -> list[float | None]:
        """Return the effects of groups; what is known is not tried again. None: it is not known, or not tried."""
        new = [group for group in groups if frozenset(group) not in self._effect_of]
        effects = self.effects([self._members(group) for group in new]) if new and not self.cut else []
        self.cut = self.cut or len(effects) < len(new)
        self.tried += len(effects)
        self.unknown += effects.count(None)
        self._effect_of |= zip(map(frozenset, new), effects, strict=False)
        return [self._effect_of.get(frozenset(group)) for group in groups]

    def _affords(self, groups: list[_Group]) -> bool:
        """Return whether there are runs and time enough to try groups."""
        new = sum(frozenset(group) not in self._effect_of for group in groups)
        return not new or (not self.cut and self.tried + new <= self.runs)

    def _smallest(self, whole: _Part) -> _Part:
        """Return a smallest part of a group, without which the effect is at least half as large.

        If there are not enough runs, or effects are not known, it is the smallest that was found, and not `minimal`.
        """
        smallest, size = whole, 2
        while len(smallest.group) > 1:
            group = smallest.group
            length = -(-len(group) // size)
            parts = [group[start : start + length] for start in range(0, len(group), length)]
            rests = [tuple(one for one in group if one not in part) for part in parts]
            if not self._affords(rests):
                return attrs.evolve(smallest, minimal=False)
            remainders = [_Part.of(rest, own) for rest, own in zip(rests, self._try(rests), strict=True)]
            kept = next((one for one in remainders if _alike(one.expected, whole.expected)), None)
            if kept is not None:
                smallest, size = kept, max(2, size - 1)
            elif size >= len(group):
                return attrs.evolve(smallest, minimal=all(one.effect is not None for one in remainders))
            else:
                size = min(len(group), 2 * size)
        return smallest


def _without(every: _Group, findings: Sequence[_Part]) -> _Group:
    """Return those that were not found."""
    named = {place for one in findings for place in one.group}
    return tuple(place for place in every if place not in named)


def _alike(own: float, effect: float) -> bool:
    return own * effect > 0 and abs(own) >= abs(effect) / 2
