"""`why`: what decided the outcome of a recorded run.

Three steps. What the outcome hangs on with the draws on record: which messages, events and certain inputs, left out,
make it another one (`halving`). How the expected outcome changed from step to step (it is a martingale: its changes sum
to the outcome minus what was expected at the start). And a short list of both, each left out in futures with new
draws, in pairs with the same draws, with intervals, and as one list of tests (Holm).
"""

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

import attrs

from sim.base.text import number, plain
from sim.experiments.attribution.analysis import Analysis, AttributionOptions, session
from sim.experiments.attribution.candidates import Candidate, EventCandidates, inputs_of
from sim.experiments.attribution.curve import Jump, Point, TurningSearch
from sim.experiments.attribution.halving import Decisive, Halving
from sim.experiments.attribution.significance import holm, sign_test
from sim.experiments.attribution.task import LATE, SAME, Future, FutureChange, FuturesTask
from sim.experiments.attribution.turning import jump_json, jump_text, point_json, problems_of, rows_of
from sim.experiments.estimate import Estimate
from sim.experiments.pool import Deadline
from sim.kernel import to_seconds
from sim.kernel.levels import level_of
from sim.record.reader import StoredRun
from sim.runner.event_loop import with_definitions
from sim.runner.options import ReplayOptions, taking
from sim.runner.plain import StepMoment
from sim.tools.rights import Rights, part_of

if TYPE_CHECKING:
    from sim.base.pages import Chart, Table

_KINDS: Final = {
    "event": ("message or published event", "messages and published events"),
    "state": ("initial value in which an agent differs", "initial values in which an agent differs"),
    "agent": ("agent", "agents"),
    "intervention": ("intervention", "interventions"),
}
"""One of each kind, and several."""

_MOST_LISTED: Final = 12
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
        one, several = _KINDS[self.kind]
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
                f" effect, four futures each at least, and at most {_MOST_LISTED}; a larger budget tests more of them."
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


@attrs.frozen(kw_only=True)
class WhyOptions(AttributionOptions):
    """How what decided an outcome is looked for."""


@taking(WhyOptions)
@with_definitions
def why(run: str | PathLike[str], outcome: str, options: WhyOptions) -> "Explanation | None":
    """Find what decided the outcome of a recorded run.

    Args:
        run: the run: its folder, or its name in the folder `runs`.
        outcome: an outcome, such as `last('R')`, or one compared with a number, such as `last('R') > 20`.
        options: see `WhyOptions`. A third of the budget, and of the time, is for each of the three steps; what one
            leaves is for the next.

    Returns:
        What decided it, or that nothing single did; None if `confirm` refused.

    Raises:
        UsageError: if the outcome is none of the run, or its agents are at different times (`execution.sync`).
        RunError: if the run has not finished, or cannot be repeated.
    """
    with session(run, outcome, options, condition=False) as open_:
        if open_ is None:
            return None
        events = EventCandidates.of(open_.stored, open_.futures.patterns)
        return _Why(open_, options, events).carry_out()


@attrs.define
class _Why:
    """One search for what decided an outcome."""

    open: Analysis
    options: AttributionOptions
    events: EventCandidates
    problems: list[list[Future]] = attrs.field(factory=list)
    tests_cut: bool = False  # whether there was no time for a test

    def carry_out(self) -> Explanation:
        open_, futures, budget = self.open, self.open.futures, self.options.budget
        cut = []
        with self._within(1 / 3):
            hunts, findings = self._hunt(budget // 3)
            cut += ["the leaving out of groups"] * any(hunt.cut for hunt in hunts)
        search = TurningSearch(
            futures,
            open_.instants,
            open_.stored.info.seed,
            budget - budget // 3 - futures.carried_out,
            open_.start,
            open_.target.is_condition,
        )
        with self._within(1 / 2):
            search.explore()
            jumps = search.jumps()
            cut += ["the search for steps"] * search.cut
        self.problems += [*search.futures_at.values(), *search.fresh.values()]
        listed = self._listed(findings, jumps)
        causes = self._tested(search, listed, budget - futures.carried_out)
        cut += ["the tests with new draws"] * self.tests_cut
        assert futures.own.value is not None, "checked before"
        return Explanation(
            run=open_.stored.path.name,
            outcome=open_.target.text,
            value=futures.own.value,
            points=tuple(search.points()),
            jumps=tuple(jumps),
            hunts=tuple(hunts),
            causes=tuple(causes),
            verdict=verdict(hunts, causes),
            lacks=_lacks(open_.stored, self.events),
            futures=futures.carried_out,
            unknown=problems_of(self.problems),
            way=futures.way,
            answers=open_.answers,
            cut=open_.cut(self.options, cut),
        )

    @contextlib.contextmanager
    def _within(self, share: float) -> Iterator[None]:
        """Begin futures only within a share of the time that is left, so that there is some for the later steps."""
        futures, whole = self.open.futures, self.open.deadline
        if whole.left is not None:
            futures.deadline = Deadline.after(whole.left * share)
        yield
        futures.deadline = whole

    # -- with the draws on record

    def _hunt(self, runs: int) -> tuple[list[Hunt], list[Decisive[Candidate]]]:
        again = ReplayOptions(**part_of(self.options, Rights), allow_change=self.options.allow_change)
        all_of = [
            *self.events.candidates(self.open.stored),
            *inputs_of(self.open.stored, again, self.open.scenario, self.open.start),
        ]
        hunts, findings = [], list[Decisive[Candidate]]()
        kinds = [kind for kind in _KINDS if any(one.kind == kind for one in all_of)]
        counts = Counter(str(one.kind) for one in all_of)
        kinds.sort(key=lambda kind: counts[kind])  # what a few leave, many have
        for place, kind in enumerate(kinds):
            own = [one for one in all_of if one.kind == kind]
            halving = Halving(self._effects, runs // (len(kinds) - place))
            results = halving.search(own)
            runs -= halving.tried
            singles = sum(len(one.items) == 1 for one in results)
            hunts.append(
                Hunt(
                    kind=kind,
                    count=len(own),
                    whole=halving.whole,
                    tried=halving.tried,
                    unknown=halving.unknown,
                    silent=halving.silent,
                    undivided=halving.undivided,
                    complete=halving.complete,
                    singles=singles,
                    groups=len(results) - singles,
                    cut=halving.cut,
                    unchecked=halving.unchecked,
                )
            )
            findings += results
        order = list(_KINDS)
        hunts.sort(key=lambda one: order.index(one.kind))
        findings.sort(key=lambda one: order.index(one.items[0].kind))
        return hunts, findings

    def _effects(self, groups: list[tuple[Candidate, ...]]) -> list[float | None]:
        """Return the outcome of the run, minus that without each group, with the draws on record.

        If there is no more time, the last groups are missing.
        """
        outcomes = self.open.futures.values(
            [FuturesTask(_moment_of(group), (None,), _change_of(group)) for group in groups]
        )
        self.problems += outcomes
        own = self.open.futures.own.value or 0.0
        in_time = itertools.takewhile(lambda one: one != [LATE], outcomes)
        return [None if one.value is None else own - one.value for (one,) in in_time]

    # -- with new draws

    def _listed(self, findings: Sequence[Decisive[Candidate]], jumps: Sequence[Jump]) -> list[Decisive[Candidate]]:
        """Return the short list, the largest effect first: what was found, and events of the largest jumps.

        Of a jump that was not divided into single steps, no event is known to have a part in it.
        """
        single_events = {one.event for group in findings for one in group.items if len(group.items) == 1}
        narrow = [jump for jump in jumps if jump.steps is not None]
        numbers = [event.number for jump in narrow for event in jump.events if event.number not in single_events]
        more = self.events.candidates(self.open.stored, numbers) if numbers else []
        more = more[: max(0, _MOST_LISTED - len(findings))]
        effects = self._effects([(one,) for one in more]) if more else []
        others = [Decisive((one,), effect) for one, effect in itertools.zip_longest(more, effects)]
        return sorted([*findings, *others], key=lambda one: -abs(one.effect or 0.0))

    def _tested(self, search: TurningSearch, listed: list[Decisive[Candidate]], budget: int) -> list[Cause]:
        """Return the short list as causes; as many as the budget suffices for are tested, the first ones."""
        if not listed or budget < 4:
            return [_cause(one, None, None, significant=False) for one in listed]
        tested = listed[: min(_MOST_LISTED, max(1, budget // 4))]  # two pairs each, at least
        n = max(2, min(200, budget // (2 * len(tested))))
        seeds = search.seeds("suppression", n)
        tasks = []
        for one in tested:
            moment, through = _moment_of(one.items), _through(one.items)
            tasks += [
                FuturesTask(moment, seeds, SAME, through),
                FuturesTask(moment, seeds, _change_of(one.items), through),
            ]
        results = self.open.futures.values(tasks)
        self.problems += results
        self.tests_cut = any(LATE in row for row in results)
        whole = [one for place, one in enumerate(tested) if LATE not in results[2 * place + 1]]
        tested = whole or (tested[:1] if _differences(results[0], results[1]) else [])
        pairs = [_differences(results[2 * place], results[2 * place + 1]) for place in range(len(tested))]
        values = [sign_test(own) for own in pairs]
        causes = [
            _cause(one, Estimate.of(own), value, significant=sure)
            for one, own, value, sure in zip(tested, pairs, values, holm(values), strict=True)
        ]
        return causes + [_cause(one, None, None, significant=False) for one in listed[len(tested) :]]


def _cause(finding: Decisive[Candidate], effect: Estimate | None, p_value: float | None, *, significant: bool) -> Cause:
    """Return what was found as a cause."""
    return Cause(
        kind=finding.items[0].kind,
        names=tuple(item.name for item in finding.items),
        here=finding.effect,
        effect=effect,
        p_value=p_value,
        significant=significant,
        minimal=finding.minimal,
        redundant=finding.redundant,
    )


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
    several = " or all ".join(_KINDS[hunt.kind][1] for hunt in hunts if not hunt.complete)
    if not several:
        return "Nothing that can be left out makes a difference here."
    return (
        f"Leaving out all {several} together makes no difference here; single ones that offset each other can have"
        " been missed."
    )


def _apart(hunt: Hunt, own: Sequence[Cause]) -> str:
    """Return what follows if candidates of one kind make a difference, and all of them together are not known to."""
    _, what = _KINDS[hunt.kind]
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
    _, what = _KINDS[hunt.kind]
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


def _lacks(stored: StoredRun, events: EventCandidates) -> str:
    """Say which messages and published events were not left out, and why."""
    if level_of(stored.info.options) != "samples":
        return " ".join(events.sentences())
    return (
        "The run was recorded at the level `samples`: messages and published events are not on record, so that none was"
        " left out."
    )


def _moment_of(group: Sequence[Candidate]) -> StepMoment:
    return min(one.moment for one in group)


def _through(group: Sequence[Candidate]) -> tuple[int, int] | None:
    """Return the last event of a group, up to which the draws stay as on record; None: it has none."""
    return max(((one.moment.time_ns, one.event) for one in group if one.event is not None), default=None)


def _change_of(group: Sequence[Candidate]) -> FutureChange:
    change = SAME
    for one in group:
        change = change.joined(one.change)
    return change


def _differences(with_it: Sequence[Future], without: Sequence[Future]) -> list[float]:
    pairs = zip(with_it, without, strict=True)
    return [a.value - b.value for a, b in pairs if a.value is not None and b.value is not None]
