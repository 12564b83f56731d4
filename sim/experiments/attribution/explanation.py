"""What `why` has found about the outcome of a run, in words, tables and a chart."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from sim.base.text import number, plain
from sim.experiments.attribution.curve import Jump, Point
from sim.experiments.attribution.turning import jump_json, jump_text, point_json, rows_of
from sim.experiments.estimate import Estimate
from sim.kernel import to_seconds

if TYPE_CHECKING:
    from sim.base.pages import Chart, Table

KINDS: Final = {
    "event": ("message or published event", "messages and published events"),
    "state": ("initial value in which an agent differs", "initial values in which an agent differs"),
    "agent": ("agent", "agents"),
    "intervention": ("intervention", "interventions"),
}
"""One of each kind, and several."""

MOST_LISTED: Final = 12
"""The most candidates that are tested with new draws."""

_MOST_NAMED: Final = 4  # members of a group in a text
_ALIKE: Final = 1e-9  # sums of effects that differ by less, as a share, do so by rounding

IN_THE_MODEL: Final = (
    "Effects that were found by leaving something out hold in the model: they say what the model does without it."
)


@attrs.frozen
class Cause:
    """Something without which the outcome of the run would be another one, or might be.

    Attributes:
        kind: what it is: `event`, `state`, `agent` or `intervention`.
        names: what it is, in a few words; several, if they make a difference together.
        here: the outcome of the run, minus that without it with the draws on record; None: it is not known.
        effect: the mean difference in futures with new draws; None: it was not tested, or no pair is known.
        p_value: of the sign test of the pairs; None: it was not tested with new draws.
        significant: whether it is, among all that were tested (Holm).
        minimal: of several: whether it is known that all but one of them make less than half of the difference.
        redundant: of several: whether each was left out alone, and made no difference.
    """

    kind: str
    names: tuple[str, ...]
    here: float | None
    effect: Estimate | None
    p_value: float | None
    significant: bool
    minimal: bool = True
    redundant: bool = False

    @property
    def text(self) -> str:
        """What it is, in one line."""
        shown = "; ".join(self.names[:_MOST_NAMED])
        more = len(self.names) - _MOST_NAMED
        return f"{shown}; and {more} more" if more > 0 else shown

    @property
    def sure(self) -> str:
        """Whether it holds with new draws, in a few words."""
        if self.p_value is None:
            return "not tested with new draws"
        if self.effect is None:
            return "with new draws this is not known"
        return "also with new draws" if self.significant else "with new draws this is not significant"

    def row(self) -> tuple[str, ...]:
        """Return it as a row of a table."""
        here = "unknown" if self.here is None else f"{self.here:+.4g}"
        if self.p_value is None:
            return self.text, here, "not tested", "", "not tested"
        if self.effect is None:
            return self.text, here, "unknown", "", "unknown"
        among = "" if self.effect.half is None else f"{self.effect.low:.3g} to {self.effect.high:.3g}"
        return self.text, here, f"{self.effect.mean:+.4g}", among, "yes" if self.significant else "no"


@attrs.frozen
class Hunt:
    """What the outcome hangs on among candidates of one kind, with the draws on record.

    Attributes:
        kind: the kind.
        count: how many candidates there are.
        whole: the outcome of the run, minus that without all of them; None: it is not known.
        tried: how many groups were tried.
        unknown: how many of these are not known.
        silent: how many candidates were not found, and were left out only in groups that make no difference.
        undivided: the largest effect of a group that was not divided, as there were no more runs or enough findings.
        complete: whether it is known that all that make a difference alone were found, that no fewer of a group that
            was found make it, and that all others together make none.
        singles, groups: how many were found, alone and as groups that make a difference together.
        cut: whether the time limit ended the search.
        unchecked: whether something was found, and all others together were not left out.
    """

    kind: str
    count: int
    whole: float | None
    tried: int
    unknown: int
    silent: int
    undivided: float
    complete: bool
    singles: int
    groups: int
    cut: bool = False
    unchecked: bool = False

    def sentence(self, value: float) -> str:
        """Return what was tried, as a sentence.

        Args:
            value: the outcome of the run.
        """
        one, several = KINDS[self.kind]
        what = f"all {self.count:,} {several}" if self.count > 1 else f"the one {one}"
        if not self.tried:
            return f"There was no time to leave out {what}."
        if self.whole is None:
            same = "the outcome is not known"
        else:
            same = f"it is {number(value - self.whole)}" if self.whole else "the outcome is the same"
        rest = "1 group was left out" if self.tried == 1 else f"{self.tried:,} groups were left out"
        if self.cut:
            rest += "; there was no time for more"
        if self.undivided:
            rest += "; others with an effect are not divided further"
        if self.unknown:
            rest += f"; the effect of {self.unknown:,} of them is not known"
        if self.silent:
            rest += (
                f"; {self.silent:,} {several if self.silent > 1 else one} {'were' if self.silent > 1 else 'was'} left"
                " out only in groups that make no difference, in which some could offset each other"
            )
        return f"Without {what}, {same}; {rest}."

    @property
    def open(self) -> str:
        """What is not known, as the end of a sentence; empty: everything is."""
        text = "; others with an effect were not divided" if self.undivided else ""
        if self.unknown:
            text += f"; the effect of {self.unknown:,} {'group' if self.unknown == 1 else 'groups'} is not known"
        if self.unchecked:
            why = "there was no time to leave" if self.cut else "no future was left to leave"
            text += f"; {why} out all others together, so that others may have an effect as well"
        elif self.cut:
            text += "; there was no time to leave out or divide more, so that others may have an effect as well"
        return text


@attrs.frozen(repr=False)
class Explanation:
    """Why a run came out as it did.

    Attributes:
        run: the name of the run.
        outcome: what was explained.
        value: its value in the run.
        points: what was expected at moments of the run.
        jumps: the steps at which that changed most, tested again with fresh seeds.
        hunts: the searches with the draws on record.
        causes: the short list: all that was found, and events of the largest jumps. Those with the largest effect in
            the run come first. They are tested with new draws, but for the last ones if the budget does not suffice or
            there are more than 12.
        verdict: what follows, as a sentence.
        lacks: which messages and events were not left out, and why, as sentences; empty: none.
        futures, unknown, way, answers, cut: as in `TurningPoints`.
    """

    run: str
    outcome: str
    value: float
    points: tuple[Point, ...]
    jumps: tuple[Jump, ...]
    hunts: tuple[Hunt, ...]
    causes: tuple[Cause, ...]
    verdict: str
    lacks: str
    futures: int
    unknown: dict[str, int]
    way: str
    answers: str
    cut: str = ""

    def sentences(self) -> list[str]:
        """Return what was found, a sentence each."""
        start = self.points[0] if len(self.points) > 1 else None  # the last one is the end
        expected = "it is not known what" if start is None or start.p is None else number(start.p)
        sentences = [f"In {self.run}, {self.outcome} is {number(self.value)}; at the start {expected} was expected."]
        sentences += [jump_text(jump, "the expected outcome") for jump in self.jumps]
        sentences += [hunt.sentence(self.value) for hunt in self.hunts]
        sentences += [self.lacks] if self.lacks else []
        sentences += [self.verdict, IN_THE_MODEL]
        tested = sum(one.p_value is not None for one in self.causes)
        if tested < len(self.causes):
            sentences.append(
                f"{tested:,} of {len(self.causes):,} on the list were tested with new draws: those with the largest"
                f" effect, four futures each at least, and at most {MOST_LISTED}; a larger budget tests more of them."
                if not self.cut
                else f"{tested:,} of {len(self.causes):,} on the list were tested with new draws."
            )
        if self.unknown:
            sentences.append(
                f"{sum(self.unknown.values())} of {self.futures} futures are unknown, for example:"
                f" {plain(next(iter(self.unknown)))}."
            )
        return sentences + [one for one in (self.cut, self.answers) if one]

    def table(self) -> "Table":
        """Return the short list as a table."""
        from sim.base.pages import Table  # a command needs no page

        return Table(("without it", "here", "new draws", "95 %", "significant"), [one.row() for one in self.causes])

    def curve(self) -> "Table":
        """Return what was expected at moments of the run, as a table."""
        from sim.base.pages import Table

        return Table(("moment", "expected", "95 %", "futures", "unknown"), list(rows_of(self.points)))

    def plot(self) -> "Chart":
        """Return a chart of what was expected over simulated time."""
        from sim.base.pages import line_chart

        times = [to_seconds(point.moment.time_ns) for point in self.points]
        return line_chart(f"expected {self.outcome}", times, {self.outcome: [point.p for point in self.points]})

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON-like mapping."""
        return {
            "run": self.run,
            "outcome": self.outcome,
            "value": self.value,
            "points": [point_json(point) for point in self.points],
            "jumps": [jump_json(jump) for jump in self.jumps],
            "hunts": [attrs.asdict(one) for one in self.hunts],
            "causes": [attrs.asdict(one) for one in self.causes],
            "verdict": self.verdict,
            "lacks": self.lacks,
            "note": IN_THE_MODEL,
            "futures": self.futures,
            "unknown": self.unknown,
            "way": self.way,
            "answers": self.answers,
            "cut": self.cut,
        }

    def __repr__(self) -> str:
        return "\n".join((*self.sentences(), self.table().text()))

    def _repr_html_(self) -> str:
        from sim.base.pages.markup import tag

        return tag("div", [self.plot().svg, [tag("p", one) for one in self.sentences()], self.table().html()])


def verdict(hunts: Sequence[Hunt], causes: Sequence[Cause]) -> str:
    """Return what follows from what was found, as a sentence."""
    if not any(hunt.whole or hunt.singles or hunt.groups for hunt in hunts):
        return _without_difference(hunts)
    sentences = []
    for hunt in hunts:
        own = [one for one in causes if one.kind == hunt.kind and one.here]
        if hunt.whole:
            sentences.append(_verdict_of(hunt, hunt.whole, own) + hunt.open + ".")
        elif hunt.whole is None or hunt.singles + hunt.groups:
            sentences.append(_apart(hunt, own) + hunt.open + ".")
    return " ".join(sentences)


def _without_difference(hunts: Sequence[Hunt]) -> str:
    """Return what follows if no kind of candidates is known to make a difference when all of it is left out."""
    if any(hunt.whole is None for hunt in hunts):
        return "It is not known what decided it."
    several = " or all ".join(KINDS[hunt.kind][1] for hunt in hunts if not hunt.complete)
    if not several:
        return "Nothing that can be left out makes a difference here."
    return (
        f"Leaving out all {several} together makes no difference here; single ones that offset each other can have"
        " been missed."
    )


def _apart(hunt: Hunt, own: Sequence[Cause]) -> str:
    """Return what follows if candidates of one kind make a difference, and all of them together are not known to."""
    _, what = KINDS[hunt.kind]
    shown = " and ".join(f"{one.text} ({one.here:+.4g})" for one in own[:_MOST_NAMED])
    if len(own) > _MOST_NAMED:
        shown += f" and {len(own) - _MOST_NAMED} more"
    if hunt.whole is None:
        if not own:
            return f"Among the {what}, it is not known what decided it"
        return f"Among the {what}, leaving out {shown} makes a difference; without all of them it is not known"
    same = f"Leaving out all {what} together makes no difference"
    if not own:
        return f"{same}, but leaving out a part of them does"
    apart = [one.here or 0.0 for one in own]
    if len(apart) > 1 and abs(sum(apart)) < max(map(abs, apart)) * _ALIKE:
        return f"{same}, as they offset each other: {shown}"
    return f"{same}, but leaving out {'one of these' if len(own) > 1 else 'only this'} does: {shown}"


def _verdict_of(hunt: Hunt, whole: float, own: Sequence[Cause]) -> str:
    """Return what follows from what was found among candidates of one kind, which make a difference together."""
    _, what = KINDS[hunt.kind]
    large = [one for one in own if abs(one.here or 0) >= abs(whole) / 2]
    singles, groups = ([one for one in large if (len(one.names) == 1) is alone] for alone in (True, False))
    if not large:
        if hunt.open:
            return f"Among the {what} it is not known which decided it"
        return f"Among the {what} there is no single decider: the effect is spread over several"
    if not singles:
        return f"Among the {what}{_together(groups[0])}"
    largest = max(singles, key=lambda one: abs(one.here or 0))
    if groups and groups[0].minimal:
        return (
            f"Among the {what}, {largest.text} is needed for it ({largest.sure}), and so is one of {groups[0].text},"
            " which can stand in for each other"
        )
    if groups:
        return (
            f"Among the {what}, {largest.text} is needed for it ({largest.sure}), and so are {groups[0].text} together;"
            " it is not known whether fewer of them are"
        )
    if len(singles) > 1:
        return (
            f"Among the {what}, each of {len(singles)} or more is needed for it, such as {largest.text}"
            f" ({largest.sure})"
        )
    return f"Among the {what}, {largest.text} decided it ({largest.sure})"


def _together(group: Cause) -> str:
    """Return what is known of several that make a difference together, as the rest of a sentence."""
    if not group.minimal:
        return f", {group.text} decided it together; it is not known whether fewer of them did"
    one = "leaving out one changes nothing, leaving out all does" if group.redundant else "leaving out all changes it"
    return f" there is no single decider: {group.text} can stand in for each other; {one}"
