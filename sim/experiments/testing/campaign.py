"""A campaign: carries out all cases of a test, in several processes, and keeps the results if it is to."""

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from sim.base.errors import UsageError
from sim.experiments.pool import Ended, Inline, WorkerPool
from sim.experiments.testing.cases import Case, cases_of, check_faults
from sim.experiments.testing.decorator import PropertyFunction
from sim.experiments.testing.report import TestReport, report_of
from sim.experiments.testing.results import ResultFile
from sim.experiments.testing.trial import CaseJob, CaseResult, ScenarioUnderTest, check_until, read_subject, run_case
from sim.scenario.packaged import find_scenario
from sim.tools.rights import Rights

SEEDS: Final = 50
ORDERS: Final = 20
MOST_RUNS: Final = 1_000_000


class Campaign:
    """The test of one scenario.

    Args:
        subject: what is tested.
        cases: the runs; empty: none is planned yet.

    Raises:
        ScenarioError, UsageError: if the scenario is not valid, has no properties, or lacks one that is named.
    """

    def __init__(self, subject: ScenarioUnderTest, cases: Sequence[Case]) -> None:
        self.subject = subject
        self.cases = tuple(cases)
        scenario = subject.scenario()
        self._scenario = scenario
        self.scenario = scenario.name
        names = (*scenario.properties, *subject.properties)
        for name in subject.only:
            if name not in names:
                raise UsageError(f"{subject.file} has no property {name!r:.80}", hint=_names(names))
        self.properties = tuple(subject.checks(scenario))
        if not self.properties and not subject.coverage:
            raise UsageError(
                f"{subject.file} has no properties to test",
                hint='add some, for example `properties: {no-debt: {never: "balance < 0", each: trader}}`',
            )
        for case in cases[-1:]:
            case.overrides(scenario)  # so that bounds that are missing are noticed before the first run
        self.done: dict[Case, CaseResult] = {}

    def carry_out(self, jobs: int, kept: Path | None = None) -> Generator[CaseResult]:
        """Run the cases that are missing, and yield each result.

        Args:
            jobs: the number of parallel processes; 1: this one.
            kept: the file of the results; what it has already is not run. None: they are not kept.

        Raises:
            UsageError: if the file has results of something else.
        """
        with contextlib.ExitStack() as opened:
            file = None if kept is None else opened.enter_context(contextlib.closing(ResultFile(kept, self.subject)))
            self.done = {} if file is None else dict(file.done)
            missing = [CaseJob(self.subject, case) for case in self.cases if case not in self.done]
            if not missing:
                return
            jobs = min(jobs, len(missing))
            workers: Inline | WorkerPool = Inline() if jobs == 1 else WorkerPool(jobs)
            opened.enter_context(workers)
            for job, returned in workers.run(run_case, missing):
                result = CaseResult(job.case, problem=returned.problem) if isinstance(returned, Ended) else returned
                self.done[result.case] = result
                if file is not None:
                    file.add(result)
                yield result

    def report(self) -> TestReport:
        """Return the report of the runs that are done."""
        return report_of(self.subject, self._scenario, self.properties, self.cases, self.done)


def _names(properties: Sequence[str]) -> str:
    return f"it has {', '.join(properties)}" if properties else "add it to `properties`"


def plan(
    path: Path,
    *,
    seeds: int = SEEDS,
    orders: int = ORDERS,
    faults: bool = False,
    case: Case | None = None,
    first_seed: int | None = None,
    **options: Any,
) -> Campaign:
    """Return the test of a scenario file.

    Args:
        path: the file, or PACKAGE:NAME of one of an installed package.
        seeds: the number of seeds, which are first run as declared.
        orders: the number of shuffled orders of simultaneous events; the seeds take turns.
        faults: whether each seed is also run with failures and latencies of models, within the bounds in `testing`.
        case: the only run; None: those that the numbers say.
        first_seed: the first seed; None: that of the scenario.
        options: further arguments of `ScenarioUnderTest`.

    Raises:
        ScenarioError, UsageError: if the scenario is not valid, or cannot be tested so.
    """
    rights = options.pop("rights", Rights())
    file, allow = find_scenario(path, rights.allow)
    check_until(options.get("until"))
    subject = read_subject(file, rights=_allowing(rights, allow), **options)
    scenario = subject.scenario()
    if faults:
        check_faults(scenario)
    if seeds < 1 or orders < 0 or seeds + orders > MOST_RUNS:
        raise UsageError(f"a test has at least one seed, and at most {MOST_RUNS} runs")
    first = scenario.seed if first_seed is None else first_seed
    cases = (case,) if case is not None else cases_of(first, seeds, orders, faults=faults)
    return Campaign(subject, cases)


def _allowing(rights: Rights, allow: tuple[str, ...]) -> Rights:
    return rights if rights.allow == allow else attrs.evolve(rights, allow=allow)


def run_tests(
    scenario: str | Path,
    *,
    seeds: int = SEEDS,
    orders: int = ORDERS,
    faults: bool = False,
    properties: Sequence[PropertyFunction] = (),
    overrides: Sequence[str] = (),
    until: str | float | None = None,
    allow: Sequence[str] = (),
    kinds: Mapping[str, Any] | None = None,
    coverage: bool = False,
    jobs: int = 1,
    progress: Callable[[CaseResult], object] | None = None,
) -> TestReport:
    """Test a scenario file (`sim.test`): run it with many seeds and orders, and look for violations of its properties.

    Args:
        scenario: the file.
        seeds: the number of seeds, from the scenario's seed on.
        orders: the number of shuffled orders of simultaneous events; the seeds take turns.
        faults: whether each seed is also run with failures and latencies of models, within the bounds in `testing`.
        properties: further properties, functions with `@sim.property`; they are checked in this process.
        overrides: `key=value` changes to the scenario.
        until: the end of each run in simulated time; None: that of the scenario.
        allow: packages and modules whose code the scenario may use.
        kinds: classes of agents of this program; then all runs are in this process.
        coverage: whether to note which parts of the file the runs reach.
        jobs: the number of parallel processes.
        progress: called with the result of each run.

    Returns:
        The report, with the first violation of each kind.

    Raises:
        ScenarioError, UsageError: if the scenario is not valid, or cannot be tested so.
    """
    named = {function.name: function for function in properties}
    if len(named) != len(properties):
        raise UsageError("two properties have the same name", hint="give them names: @sim.property(name=...)")
    campaign = plan(
        Path(scenario),
        seeds=seeds,
        orders=orders,
        faults=faults,
        overrides=tuple(overrides),
        until=until,
        rights=Rights(allow=tuple(allow), kinds=kinds),
        properties=named,
        coverage=coverage,
    )
    for result in campaign.carry_out(1 if named or kinds else jobs):
        if progress is not None:
            progress(result)
    return campaign.report()
