"""One run of a test, in a worker process or in this one."""

import contextlib
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs

from sim.base.errors import SimError, UsageError
from sim.base.registry import current_definitions
from sim.base.shown import Keywords
from sim.experiments.pool import in_worker
from sim.experiments.testing.cases import Case
from sim.experiments.testing.checks import Check, Coded, check_of
from sim.experiments.testing.coverage import Observer
from sim.experiments.testing.decorator import PropertyFunction, named_property
from sim.experiments.testing.violations import Violation
from sim.experiments.testing.watch import PropertyWatch
from sim.experiments.trial import sentence
from sim.kernel import to_ns
from sim.runner.event_loop import blocking
from sim.runner.options import RunOptions
from sim.runner.running import run_from
from sim.scenario import Scenario
from sim.scenario.digest import scenario_digest
from sim.scenario.loading import loads, read_text
from sim.tools.rights import NO_RIGHTS, Rights


@attrs.frozen
class ScenarioUnderTest:
    """What is tested: a scenario, and what the operator gives to it.

    Attributes:
        text: the text of the file.
        file: its name.
        digest: the hash of the file, and of the tables and graphs that it refers to; empty: of the text alone.
        overrides: changes to it.
        until: the end of each run; None: that of the scenario.
        rights: what the operator lets it do.
        properties: properties of the host program, by name.
        only: the names of the properties to check; empty: all.
        coverage: whether to note the parts of the file that are reached.
        most_steps: the steps of the kernel after which a run is ended as failed; None: no limit.
        until_found: whether a run is ended once each property is violated.
    """

    text: str
    file: str
    digest: str = attrs.field(default="", kw_only=True)
    overrides: tuple[str, ...] = ()
    until: str | float | None = None
    rights: Rights = NO_RIGHTS
    properties: Mapping[str, PropertyFunction] = attrs.field(factory=dict)
    only: tuple[str, ...] = ()
    coverage: bool = False
    most_steps: int | None = None
    until_found: bool = False

    def scenario(self, changes: Sequence[str] = ()) -> Scenario:
        """Return the scenario, with further changes.

        Raises:
            ScenarioError: with all problems of the text.
        """
        definitions = current_definitions()
        key = (self.text, self.file, self.digest, self.overrides, tuple(changes), self.rights.allow, definitions)
        scenario = _KEPT.get(key)
        if scenario is None or self.rights.allow:  # code of others could change what it is given
            scenario = loads(self.text, self.file, (*self.overrides, *changes), self.rights.allow, self.rights.kinds)
            if len(_KEPT) >= _MOST_KEPT:
                _KEPT.pop(next(iter(_KEPT)))
            _KEPT[key] = scenario
        return scenario

    def checks(self, scenario: Scenario) -> dict[str, Check]:
        """Return new checks of all properties by name.

        Raises:
            UsageError: if the code of a property is not allowed or cannot be imported.
        """
        own = {
            name: check_of(one, None if one.check is None else named_property(one.check, self.rights.allow))
            for name, one in scenario.properties.items()
        }
        coded: dict[str, Check] = {name: Coded(function) for name, function in self.properties.items()}
        all_of = {**own, **coded}
        return {name: all_of[name] for name in self.only} if self.only else all_of


_KEPT: Final[dict[tuple[Any, ...], Scenario]] = {}
_MOST_KEPT: Final = 64


@attrs.frozen
class CaseResult:
    """What came out of one run.

    Attributes:
        case: its seed, order and failures.
        violations: the first violation of each property.
        problem: why the run failed; None: it did not.
        errors: the number of iterations of agents that failed.
        commonest_error: the most frequent error of them; empty if there is none.
        judged: how often each property could be judged.
        undecided: how often the run ended before a property could be judged.
        sim_seconds: the simulated time.
        hash: the hash of the run; empty if it failed.
        steps: the number of steps of the kernel.
        reached: how often each part of the scenario was reached, by key; empty if that is not noted.
    """

    case: Case
    violations: tuple[Violation, ...] = ()
    problem: str | None = None
    errors: int = 0
    commonest_error: str = ""
    judged: Mapping[str, int] = attrs.field(factory=dict)
    undecided: Mapping[str, int] = attrs.field(factory=dict)
    sim_seconds: float = 0.0
    hash: str = ""
    steps: int = 0
    reached: Mapping[str, int] = attrs.field(factory=dict)

    def violation_of(self, name: str) -> Violation | None:
        """Return the violation of a property; None if there is none."""
        return next((one for one in self.violations if one.property == name), None)


@attrs.frozen
class CaseJob:
    """A run to carry out."""

    subject: ScenarioUnderTest
    case: Case


def run_case(job: CaseJob) -> CaseResult:
    """Run a case with the checks of its properties."""
    subject, case = job.subject, job.case
    watch = None
    try:
        plain = subject.scenario()
        changes = case.overrides(plain)
        scenario = subject.scenario(changes) if changes else plain
        watch = PropertyWatch(subject.checks(scenario), subject.most_steps, until_found=subject.until_found)
        if subject.coverage:
            watch.observer = Observer()
        options = RunOptions(seed=case.seed, until=subject.until, begun=watch, **_hosting(subject.rights))
        with contextlib.redirect_stdout(sys.stderr):  # output of agents is not part of the result
            result = blocking(partial(run_from, scenario, options), "asyncio")
    except (SimError, Exception) as error:
        violations = () if watch is None else tuple(watch.violations)
        return CaseResult(case, violations, problem=sentence(error))
    if result.status != "finished":
        sys.exit(1)  # the process is being ended from outside
    if watch.cut_off:
        return CaseResult(case, tuple(watch.violations), f"it takes more than {subject.most_steps} steps")
    watch.end(result)
    return CaseResult(
        case,
        tuple(watch.violations),
        errors=result.errors,
        commonest_error=result.commonest_error or "",
        judged=watch.judged,
        undecided=watch.undecided,
        sim_seconds=result.sim_seconds,
        hash=result.hash,
        steps=watch.steps,
        reached={} if watch.observer is None else watch.observer.counts,
    )


def _hosting(rights: Rights) -> Keywords:
    return {**rights.keywords, "on_interrupt": "return" if in_worker() else "raise"}


def check_until(until: str | float | None) -> None:
    """Check the end of the runs.

    Raises:
        UsageError: if it is no time above 0 s.
    """
    if until is not None and to_ns(until) == 0:
        raise UsageError("a run must last longer than 0 s")


def read_subject(path: Path, **arguments: Any) -> ScenarioUnderTest:
    """Return the subject of a file; see `ScenarioUnderTest`.

    Raises:
        ScenarioError: if the file cannot be read.
    """
    text = read_text(path)
    digest = ""
    with contextlib.suppress(SimError, OSError):  # the scenario is read again, and what is wrong is said then
        digest = scenario_digest(path)
    return ScenarioUnderTest(text, str(path), digest=digest, **arguments)
