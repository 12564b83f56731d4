"""Whether a smaller scenario still has the fault of a larger one.

It must violate the same property in the same kind, caused by the same agents and events, in several seeds, and without
errors that are new. A line that is removed shifts random draws, so one seed proves little: another fault may have the
same symptom.
"""

import math
from collections.abc import Iterator
from typing import Final

import attrs

from sim.base.errors import ScenarioError, UsageError
from sim.experiments.testing.cases import Case
from sim.experiments.testing.trial import CaseJob, CaseResult, ScenarioUnderTest, run_case
from sim.experiments.testing.violations import DONE, Violation

_SEEDS: Final = 12  # seeds, orders and failures that are tried to find a run that violates the property
_WITNESSES: Final = 3
_NEEDED: Final = 2
_MOST_TRIED: Final = 12  # runs of one candidate

_FEWEST_STEPS: Final = 300
_SLOWER: Final = 2  # a candidate may take as many times the steps: without its pauses, an agent could act without end

ENDLESS: Final = ("unmet", "too few")
"""Kinds of violation that say that something did not happen before the end of the run."""


@attrs.frozen
class FaultToKeep:
    """The fault that must stay.

    Attributes:
        property: the name of the property.
        kind: how it is violated.
        entries: the entries of the agents that it is violated by; an empty one: it is about the world.
        causes: what happened at the violations: topics with the entries of their actors.
        met: how often what the property asks for had happened before, for other agents or at other times; None: that
            differs between runs, or does not matter.
        sometimes_met: whether it had happened before at all.
        at_start: whether it is violated before the first step.
        errors: the errors of agents, and the failures of runs, that there were before.
        violated: runs in which it is violated, the first of which are tried first.
        kept: runs in which it is not violated, and must not be.
        needed: in how many runs it must be violated.
        latest: the latest time of a violation in simulated seconds.
    """

    property: str
    kind: str
    entries: frozenset[str]
    causes: frozenset[str]
    met: int | None
    sometimes_met: bool
    at_start: bool
    errors: frozenset[str]
    violated: tuple[Case, ...]
    kept: tuple[Case, ...]
    needed: int
    latest: float


class SmallerScenarios:
    """Decides about smaller scenarios, within a number of runs.

    Args:
        subject: the scenario; its `only` is the property.
        budget: the most runs.

    Attributes:
        runs: the number of runs so far.
        fault: the fault that must stay.
        witness: a run that shows it with the text that was accepted last.

    Raises:
        UsageError: if no run violates the property.
    """

    def __init__(self, subject: ScenarioUnderTest, budget: int, case: Case | None = None) -> None:
        self._subject = attrs.evolve(subject, until_found=True)
        self._budget = budget
        self.runs = 0
        self.fault = self._find(case)
        self.witness = self.fault.violated[0]

    @property
    def used_up(self) -> bool:
        """Whether no runs are left."""
        return self.runs >= self._budget

    def _run(self, subject: ScenarioUnderTest, case: Case) -> CaseResult:
        self.runs += 1
        return run_case(CaseJob(subject, case))

    def _cases(self, case: Case | None) -> Iterator[Case]:
        """Yield the runs in which to look for a violation: seeds as declared first, then orders, then failures."""
        scenario = self._subject.scenario()
        first = scenario.seed if case is None else case.seed
        if case is not None:
            yield case
            yield from (Case(first + number, case.order, case.fault) for number in range(1, _SEEDS))
            return
        yield from (Case(first + number) for number in range(_SEEDS))
        yield from (Case(first + number % _SEEDS, number + 1) for number in range(2 * _SEEDS))
        if scenario.testing is not None and scenario.models is not None:
            yield from (Case(first + number, 0, number + 1) for number in range(_SEEDS))

    def _find(self, case: Case | None) -> FaultToKeep:
        name = self._subject.only[0]
        violated: list[tuple[Case, Violation]] = []
        errors: set[str] = set()
        tried, alike, steps = 0, 0, 0
        for one in self._cases(case):
            result = self._run(self._subject, one)
            errors |= _errors(result)
            violation = result.violation_of(name)
            if violation is not None and (not violated or violation.kind == violated[0][1].kind):
                violated.append((one, violation))
            alike += not violated or (one.order > 0, one.fault > 0) == _shape(violated[0][0])
            tried += 1
            steps = max(steps, result.steps)
            if len(violated) >= _WITNESSES or (violated and alike >= 3 * _SEEDS):
                break
        if not violated:
            hint = "sim test finds a seed; give it with --seed, --order and --fault"
            raise UsageError(f"none of {tried} runs violates {name}", hint=hint)
        cases = [one for one, _ in violated]
        self._subject = attrs.evolve(self._subject, most_steps=max(_FEWEST_STEPS, _SLOWER * steps))
        found_all = [one for _, one in violated]
        return FaultToKeep(
            property=name,
            kind=found_all[0].kind,
            entries=frozenset(one.entry for one in found_all),
            causes=frozenset(cause for one in found_all for cause in one.causes),
            met=_common(found_all),
            sometimes_met=all(one.met for one in found_all),
            at_start=any(one.at_start for one in found_all),
            errors=frozenset(errors),
            violated=self._pool(cases, max(1, tried)),
            kept=self._contrast(name, cases),
            needed=min(_NEEDED, len(cases)),
            latest=max(one.time for one in found_all),
        )

    def _pool(self, cases: list[Case], tried: int) -> tuple[Case, ...]:
        """Return the runs of a candidate: more of them the more seldom the fault shows."""
        wanted = min(_MOST_TRIED, math.ceil(_WITNESSES * tried / len(cases)))
        last = cases[-1]
        more = [
            Case(last.seed + n, last.order and last.order + n, last.fault and last.fault + n) for n in range(1, wanted)
        ]
        return tuple(dict.fromkeys([*cases, *more]))[: max(wanted, len(cases))]

    def _contrast(self, name: str, cases: list[Case]) -> tuple[Case, ...]:
        """Return runs as declared, if only an order or a failure of models shows the fault."""
        plain = [Case(case.seed) for case in cases if case.order or case.fault]
        kept = [one for one in plain[:_NEEDED] if self._run(self._subject, one).violation_of(name) is None]
        return tuple(dict.fromkeys(kept))

    def still_fails(self, text: str) -> bool:
        """Return whether a smaller text has the fault. An invalid text costs no run."""
        subject, fault = attrs.evolve(self._subject, text=text), self.fault
        try:
            scenario = subject.scenario()
        except (ScenarioError, UsageError):
            return False
        if fault.property not in scenario.properties or self.used_up:
            return False
        shown: list[Case] = []
        for tried, case in enumerate(fault.violated, 1):
            result = self._run(subject, case)
            if not _errors(result) <= fault.errors:
                return False
            if self._same(result):
                shown.append(case)
            if len(shown) >= fault.needed or len(shown) + len(fault.violated) - tried < fault.needed:
                break
        if len(shown) < fault.needed or any(self._violates(subject, case) for case in fault.kept):
            return False
        self.witness = shown[0]
        return True

    def _violates(self, subject: ScenarioUnderTest, case: Case) -> bool:
        return self._run(subject, case).violation_of(self.fault.property) is not None

    def _same(self, result: CaseResult) -> bool:
        violation, fault = result.violation_of(self.fault.property), self.fault
        if violation is None or violation.kind != fault.kind or violation.entry not in fault.entries:
            return False
        if violation.at_start and not fault.at_start:
            return False
        causes = frozenset(violation.causes)
        if fault.met not in (None, violation.met) or (fault.sometimes_met and not violation.met):
            return False
        return causes <= fault.causes and bool(causes) == bool(fault.causes)


def _common(violations: list[Violation]) -> int | None:
    """Return how often what was not done had been done before; None if that differs."""
    counts = {one.met for one in violations}
    return counts.pop() if len(counts) == 1 and len(violations) > 1 and violations[0].kind not in DONE else None


def _shape(case: Case) -> tuple[bool, bool]:
    return case.order > 0, case.fault > 0


def _errors(result: CaseResult) -> frozenset[str]:
    """Return the errors of a run: why it failed, and the most frequent error of agents."""
    return frozenset(text for text in (result.problem, result.commonest_error) if text)
