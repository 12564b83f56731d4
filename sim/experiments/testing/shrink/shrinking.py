"""What is tried to make a scenario smaller: fewer entries at any depth, then simpler values, until nothing more helps.

Entries are removed by delta debugging (Zeller and Hildebrandt, Simplifying and isolating failure-inducing input, IEEE
Transactions on Software Engineering 28, 2002), level by level from the outside (Misherghi and Su, HDD: hierarchical
delta debugging, ICSE 2006). All changes are made to the text, over the positions of its parts, so that what stays is
unchanged.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import attrs

from sim.base.errors import UsageError
from sim.base.expressions import Expression
from sim.experiments.testing.shrink.still_fails import ENDLESS, SmallerScenarios
from sim.kernel.duration import to_ns, to_seconds, to_text
from sim.scenario.fields import plain
from sim.scenario.yaml_spans import Path, Span, joined, plain_value, replaced, spans, without
from sim.scenario.yaml_tree import read_tree

LONGEST_LINE: Final = 120
_DURATION: Final = re.compile(r"[0-9.]+ *[a-z]+[0-9a-z. ]*")
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")


@attrs.frozen
class Shrunk:
    """A scenario that was shrunk.

    Attributes:
        text: the smaller text.
        removed: what was removed, by kind of part: how many of how many.
        simplified: the values that are simpler, each as `place: before -> after`.
        runs: the number of runs that it took.
        complete: whether nothing more could be removed; False: the budget of runs was used up.
    """

    text: str
    removed: dict[str, tuple[int, int]]
    simplified: tuple[str, ...]
    runs: int
    complete: bool


class Shrinker:
    """Shrinks one text.

    Args:
        text: the text.
        judge: decides whether a smaller text still has the fault.
        keep: places that are not changed, such as `agents.clerk.rules`.
        progress: called with the number of lines and of runs after each success.
    """

    def __init__(
        self,
        text: str,
        judge: SmallerScenarios,
        keep: Sequence[str] = (),
        progress: Callable[[int, int], object] | None = None,
    ) -> None:
        self._first = self._text = text
        self._judge = judge
        self._progress = progress
        tree, _ = read_tree(text, "")
        self._locked = [("name",), ("properties", judge.fault.property), *(_path(tree, one) for one in keep)]
        if judge.fault.kind in ENDLESS:
            self._locked.append(("until",))  # how long the run has time is part of what the property says
        self._simplified: dict[str, tuple[str, str]] = {}
        self._tried: set[str] = set()
        self._complete = False

    def shrink(self) -> None:
        """Make the text smaller until nothing more helps, or the runs are used up. It may be interrupted."""
        self._complete = False
        self._shorten()
        before = ""
        while before != self._text and not self._judge.used_up:
            before = self._text
            self._remove_everywhere()
            self._simplify_everywhere()
        self._complete = not self._judge.used_up

    def result(self) -> Shrunk:
        """Return the smallest text that was found."""
        meaning = _meaning(self._text)
        self._text = joined(self._text, LONGEST_LINE, lambda new: _meaning(new) == meaning)
        if spans(self._text).at(("until",)) is None:
            self._simplified.pop("until", None)  # it was made shorter, and then removed
        pairs = self._simplified.items()  # a value that was changed twice may be the first one again
        simplified = tuple(f"{place}: {old} -> {new}" for place, (old, new) in pairs if old != new)
        removed = _removed(self._first, self._text)
        return Shrunk(self._text, removed, simplified, self._judge.runs, complete=self._complete)

    def _accept(self, text: str) -> bool:
        """Take a smaller text, if it still has the fault."""
        if text in self._tried or self._judge.used_up:
            return False
        self._tried.add(text)
        if not self._judge.still_fails(text):
            return False
        self._text = text
        if self._progress is not None:
            self._progress(text.count("\n"), self._judge.runs)
        return True

    # -- fewer entries

    def _remove_everywhere(self) -> None:
        """Remove entries of all mappings and lists, from the outside to the inside."""
        level: list[tuple[Span, Path]] = [(spans(self._text), ())]
        while level and not self._judge.used_up:
            paths = [path for _, path in level]
            following: list[tuple[Span, Path]] = []
            for path in paths:
                self._remove_in(path)
                part = spans(self._text).at(path)
                entries = () if part is None else part.entries
                following += [(one.value, (*path, one.key)) for one in entries if one.value.entries]
            level = [one for one in following if not self._is_locked(one[1])]

    def _remove_in(self, path: Path) -> None:
        """Remove entries of one mapping or list: halves of them first, then smaller and smaller parts."""
        part = spans(self._text).at(path)
        size = 0 if part is None else len(part.entries)
        while size > 0 and not self._judge.used_up:
            end = self._free(path)
            at = len(end)
            while at > 0:  # from the last to the first, since what comes later refers to what comes before
                chosen = end[max(0, at - size) : at]
                at -= size
                part = spans(self._text).at(path)
                if part is not None and len(chosen) < len(part.entries):
                    self._accept(without(self._text, part, chosen))
                elif part is not None and part.flow and part.entries:
                    self._accept(replaced(self._text, part, "{}" if part.kind == "map" else "[]"))
            size //= 2

    def _free(self, path: Path) -> list[int]:
        """Return the numbers of the entries that may be removed."""
        part = spans(self._text).at(path)
        entries = () if part is None else part.entries
        return [number for number, entry in enumerate(entries) if not self._holds_locked((*path, entry.key))]

    def _holds_locked(self, path: Path) -> bool:
        return any(lock[: len(path)] == path or path[: len(lock)] == lock for lock in self._locked)

    def _is_locked(self, path: Path) -> bool:
        return any(path[: len(lock)] == lock for lock in self._locked)

    # -- simpler values

    def _shorten(self) -> None:
        """End the runs soon after the violation: all that follows is faster then."""
        if not self._is_locked(("until",)):
            at = spans(self._text).at(("until",))
            until = to_text((math.floor(self._judge.fault.latest) + 1) * 1_000_000_000)
            if at is not None and self._accept(replaced(self._text, at, until)):
                self._simplified["until"] = (at.text, until)

    def _simplify_everywhere(self) -> None:
        for path, part in list(spans(self._text).walk()):
            if part.kind != "value" or self._is_locked(path):
                continue
            for new in _simpler(path, part):
                here = spans(self._text).at(path)
                if here is None or here.kind != "value" or self._judge.used_up:
                    break
                if self._accept(replaced(self._text, here, new)):
                    place = _place(path)
                    self._simplified[place] = (self._simplified.get(place, (part.text, ""))[0], new)
                    break


def _path(tree: object, place: str) -> Path:
    """Return the path of a place such as `agents.clerk.rules`; items of a list are found by name or number."""
    here, path = tree, list[str | int]()
    for step in place.split("."):
        if isinstance(here, list):
            named = [
                n for n, one in enumerate(here) if isinstance(one, dict) and one.get("name", one.get("id")) == step
            ]
            number = named[0] if named else int(step) if step.isdecimal() and int(step) < len(here) else None
            if number is None:
                raise UsageError(f"--keep {place}: there is no {step!r}")
            path.append(number)
            here = here[number]
        elif isinstance(here, dict) and step in here:
            path.append(step)
            here = here[step]
        else:
            raise UsageError(f"--keep {place}: there is no {step!r}")
    return tuple(path)


def _place(path: Path) -> str:
    return ".".join(map(str, path))


def _simpler(path: Path, part: Span) -> Iterator[str]:
    """Yield simpler values, the simplest first."""
    text = part.text
    if not part.quoted and _NUMBER.fullmatch(text):
        yield from _simpler_number(text)
    elif _DURATION.fullmatch(text) and (span := _ns(text)) is not None and span > 1_000_000_000:
        for part_of in (10, 2):
            yield to_text(max(1, round(to_seconds(span) / part_of)) * 1_000_000_000)
    elif path[-1] == "when" or text.startswith("="):
        sign = "=" if text.startswith("=") else ""
        for part_text in _parts_of(text.removeprefix("=")):
            yield plain_value(sign + part_text)


def _ns(text: str) -> int | None:
    try:
        return to_ns(text)
    except UsageError:
        return None


def _simpler_number(text: str) -> Iterator[str]:
    value = float(text)
    if "." not in text:
        whole = int(text)
        yield from (str(one) for one in dict.fromkeys((0, 1, 2, whole // 2)) if abs(one) < abs(whole))
    elif value not in (0.0, 1.0):
        yield from ("0", "1") if value > 1 else ("1",)


def _parts_of(text: str) -> Iterator[str]:
    """Yield the parts that `and` or `or` joins in an expression."""
    try:
        tree = Expression.parse(text).tree
    except UsageError:
        return
    values = getattr(tree, "values", None)
    if values is None or not hasattr(tree, "op"):
        return
    for value in values:
        yield text[value.col_offset : value.end_col_offset] if value.lineno == 1 else text


def _meaning(text: str) -> object:
    return plain(read_tree(text, "")[0])


def _removed(before: str, after: str) -> dict[str, tuple[int, int]]:
    """Return, by kind of part, how many were removed, of how many."""
    old, new = _counts(before), _counts(after)
    return {what: (count - new[what], count) for what, count in old.items() if count > new[what]}


def _counts(text: str) -> dict[str, int]:
    tree = _meaning(text)
    top = tree if isinstance(tree, dict) else {}
    agents = [one for one in top.get("agents") or [] if isinstance(one, dict)]
    rules = [rule for one in agents for rule in one.get("rules") or []]
    root = spans(text)
    return {
        "lines": len(text.splitlines()),
        "entries of agents": len(agents),
        "agents": sum(one.get("count", 1) for one in agents if isinstance(one.get("count", 1), int)),
        "rules": len(rules),
        "events": len(top.get("events") or []),
        "interventions": len(top.get("interventions") or []),
        "keys": sum(len(part.entries) for _, part in root.walk() if part.kind == "map"),
    }
