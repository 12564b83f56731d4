"""The report of a test: the first violation of each kind, with what repeats it."""

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs

from sim.experiments.testing.cases import Case
from sim.experiments.testing.coverage import Coverage, parts_of
from sim.experiments.testing.trial import CaseResult, ScenarioUnderTest
from sim.experiments.testing.violations import Violation
from sim.kernel.codec import Json
from sim.scenario import Scenario


@attrs.frozen
class ViolationKind:
    """A kind of violation of a property, over all runs of a test.

    Attributes:
        violation: the first one.
        case: the run that it was found in.
        runs: the number of runs with it.
        command: the command that runs this case alone.
    """

    violation: Violation
    case: Case
    runs: int
    command: str

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        return {**attrs.asdict(self.violation), **attrs.asdict(self.case), "runs": self.runs, "command": self.command}


@attrs.frozen
class TestReport:
    """What a test of one scenario has found.

    Attributes:
        file: the file of the scenario.
        scenario: the scenario.
        properties: the names of the properties that were checked.
        planned: the number of runs that were planned.
        results: the results, in the order of the plan.
        violations: the first violation of each property and kind.
        coverage: what the runs reached of the scenario; None: that was not noted.
    """

    __test__ = False  # pytest would collect a class of this name

    file: str
    scenario: str
    properties: tuple[str, ...]
    planned: int
    results: tuple[CaseResult, ...]
    violations: tuple[ViolationKind, ...]
    coverage: Coverage | None = None

    @property
    def failed(self) -> list[CaseResult]:
        """The runs that failed."""
        return [one for one in self.results if one.problem is not None]

    @property
    def complete(self) -> bool:
        """Whether all planned runs were carried out."""
        return len(self.results) == self.planned

    @property
    def ok(self) -> bool:
        """Whether all planned runs were carried out, none failed, and no property was violated."""
        return self.complete and not self.violations and not self.failed

    @property
    def never_judged(self) -> list[str]:
        """The properties of which no run could say whether they hold, for example since `after` never happened."""
        violated = {one.violation.property for one in self.violations}
        ended = [one for one in self.results if one.problem is None]
        return [
            name
            for name in self.properties
            if ended and name not in violated and not any(one.judged.get(name) for one in ended)
        ]

    @property
    def undecided(self) -> dict[str, int]:
        """By property, how often a run ended before it could be judged."""
        counts: dict[str, int] = {}
        for result in self.results:
            for name, count in result.undecided.items():
                counts[name] = counts.get(name, 0) + count
        return counts

    def of(self, name: str) -> list[ViolationKind]:
        """Return the violations of a property."""
        return [one for one in self.violations if one.violation.property == name]

    def to_json(self) -> dict[str, Json]:
        """Return the report as JSON."""
        return {
            "file": self.file,
            "scenario": self.scenario,
            "ok": self.ok,
            "complete": self.complete,
            "planned": self.planned,
            "runs": len(self.results),
            "properties": list(self.properties),
            "violations": [one.to_json() for one in self.violations],
            "failed": [{**attrs.asdict(one.case), "problem": one.problem} for one in self.failed],
            "with_errors": sum(one.errors > 0 for one in self.results),
            "never_judged": self.never_judged,
            "undecided": self.undecided,
            **({} if self.coverage is None else {"coverage": _coverage_to_json(self.coverage)}),
        }


def _coverage_to_json(coverage: Coverage) -> dict[str, Any]:
    rows = [{"what": what, "reached": reached, "of": of} for what, reached, of in coverage.table()]
    missed = [{"what": one.what, "text": one.text, "line": one.line, "path": list(one.path)} for one in coverage.missed]
    return {"table": rows, "missed": missed}


def report_of(
    subject: ScenarioUnderTest,
    scenario: Scenario,
    properties: Sequence[str],
    cases: Sequence[Case],
    done: dict[Case, CaseResult],
) -> TestReport:
    """Return the report of the runs that are done.

    Args:
        subject: what was tested.
        scenario: its name.
        properties: the names of the properties.
        cases: the planned runs.
        done: the results.
    """
    results = tuple(done[case] for case in cases if case in done)
    first: dict[tuple[str, str], tuple[Violation, Case]] = {}
    counts: dict[tuple[str, str], int] = {}
    for result in results:
        for one in result.violations:
            key = (one.property, one.kind)
            first.setdefault(key, (one, result.case))
            counts[key] = counts.get(key, 0) + 1
    failures = tuple(
        ViolationKind(one, case, counts[key], command_for(subject, case)) for key, (one, case) in first.items()
    )
    coverage = None
    if subject.coverage:
        total: Counter[str] = Counter()
        for result in results:
            total.update(result.reached)
        coverage = Coverage(parts_of(scenario, subject.text), dict(total), subject.text)
    return TestReport(
        file=subject.file,
        scenario=scenario.name,
        properties=tuple(properties),
        planned=len(cases),
        results=results,
        violations=failures,
        coverage=coverage,
    )


def command_for(subject: ScenarioUnderTest, case: Case) -> str:
    """Return the command that runs a case of a subject alone."""
    words = ["sim", "test", subject.file, *case.options.split()]
    words += [word for change in subject.overrides for word in ("--set", change)]
    words += [] if subject.until is None else ["--until", str(subject.until)]
    words += [word for name in subject.rights.allow for word in ("--allow", name)]
    return shlex.join(words)
