"""`why`: what decided the outcome of a recorded run.

Three steps. What the outcome depends on with the draws on record: which messages, events and certain inputs, left out,
make it another one (`halving`). How the expected outcome changed from step to step (it is a martingale: its changes sum
to the outcome minus what was expected at the start). And a short list of both, each left out in futures with new
draws, in pairs with the same draws, with intervals, and as one list of tests (Holm).
"""

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from os import PathLike

import attrs

from sim.experiments.attribution.analysis import Analysis, AttributionOptions, session
from sim.experiments.attribution.candidates import Candidate, EventCandidates, inputs_of
from sim.experiments.attribution.curve import Jump, TurningSearch
from sim.experiments.attribution.explanation import KINDS, MOST_LISTED, Cause, Explanation, Hunt, verdict
from sim.experiments.attribution.halving import Decisive, Halving
from sim.experiments.attribution.significance import holm, sign_test
from sim.experiments.attribution.task import LATE, SAME, Future, FutureChange, FuturesTask
from sim.experiments.attribution.turning import problems_of
from sim.experiments.estimate import Estimate
from sim.experiments.pool import Deadline
from sim.kernel.levels import level_of
from sim.record.reader import StoredRun
from sim.runner.event_loop import with_definitions
from sim.runner.options import ReplayOptions, taking
from sim.runner.plain import StepMoment
from sim.tools.rights import Rights, part_of


@attrs.frozen(kw_only=True)
class WhyOptions(AttributionOptions):
    """How what decided an outcome is looked for."""


@taking(WhyOptions)
@with_definitions
def why(run: str | PathLike[str], outcome: str, options: WhyOptions) -> Explanation | None:
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
        kinds = [kind for kind in KINDS if any(one.kind == kind for one in all_of)]
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
        order = list(KINDS)
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
        more = more[: max(0, MOST_LISTED - len(findings))]
        effects = self._effects([(one,) for one in more]) if more else []
        others = [Decisive((one,), effect) for one, effect in itertools.zip_longest(more, effects)]
        return sorted([*findings, *others], key=lambda one: -abs(one.effect or 0.0))

    def _tested(self, search: TurningSearch, listed: list[Decisive[Candidate]], budget: int) -> list[Cause]:
        """Return the short list as causes; as many as the budget suffices for are tested, the first ones."""
        if not listed or budget < 4:
            return [_cause(one, None, None, significant=False) for one in listed]
        tested = listed[: min(MOST_LISTED, max(1, budget // 4))]  # two pairs each, at least
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
