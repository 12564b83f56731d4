"""The trials of one job of a sweep or of arms, in a worker process, and what jobs of a bench share with them (edge)."""

import contextlib
import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from multiprocessing import parent_process
from pathlib import Path
from typing import Any, Final

import attrs

from sim.actors import Agent
from sim.agents.outcomes import OF_POOLS
from sim.base.errors import RunError, UsageError
from sim.base.registry import current_definitions
from sim.base.shown import Keywords
from sim.experiments.plan import Plan, TrialJob, check_scenario, mode_of
from sim.experiments.points import Point, overrides_of
from sim.experiments.pool_clock import PoolClock
from sim.experiments.reach import Trace, TraceRecorder, reached
from sim.experiments.samples import NO_SAMPLES, Samples
from sim.experiments.trial import Status, Trial, figures_of, sentence
from sim.experiments.values import TrialValues
from sim.llm.shared_answers import SharedAnswers
from sim.record.answer_book import AnswerBook
from sim.runner.engine import PATIENT
from sim.runner.event_loop import blocking
from sim.runner.options import Decisions, Hosting, OnInterrupt, RunOptions
from sim.runner.result import RunResult
from sim.runner.runner import RunController
from sim.runner.running import run_from
from sim.scenario import Scenario, load
from sim.tools.rights import part_of

_MOST_KEPT: Final = 256
"""The most scenarios that a worker keeps. Trials of a seed have all combinations, so those that came first are kept."""

_KEPT: Final[dict[tuple[str, Path, tuple[str, ...]], Scenario]] = {}
"""The scenarios that this worker has read, of one plan."""


@attrs.frozen
class Measured:
    """A trial, its samples, and of an arm the agents that it reached, with the simulated seconds at which it did."""

    trial: Trial
    reached: Mapping[str, float] = attrs.field(factory=dict)
    series: Samples = NO_SAMPLES


def run_job(job: TrialJob) -> list[Measured]:
    """Run the trials of a job, one after the other, and return their measurements. Nothing else is kept."""
    measured: list[Measured] = []
    baseline: tuple[Trace, float] | None = None
    with book_of(job) as book:
        for turn, (index, point) in enumerate(job.points.items()):
            watch = TrialWatch(job.plan, answers_of(job, book))
            trial = Trial(index, job.seed, mode_of(job.plan, point), turn)
            trial = watch.named(attempt(trial, partial(_figures, job, point, watch)), job)
            trace = watch.trace() if trial.status == "measured" else None
            own = None if trace is None or trial.sim_seconds is None else (trace, trial.sim_seconds)
            reach = {} if baseline is None or own is None else _reached(baseline, own)
            measured.append(Measured(trial, reach, watch.series if trial.status == "measured" else NO_SAMPLES))
            baseline = own if index == 0 else baseline
    return measured


def _without_folder(problem: str | None, job: TrialJob) -> str | None:
    """Return why a trial failed without the folder of the scenario, so that it is the same wherever it is repeated."""
    return problem and problem.replace(f"{Path(job.plan.file).parent}{os.sep}", "")


def _reached(baseline: tuple[Trace, float], arm: tuple[Trace, float]) -> dict[str, float]:
    return reached(baseline[0], arm[0], (baseline[1], arm[1]))


def book_of(job: TrialJob) -> AbstractContextManager[AnswerBook | None]:
    """Return the file of the answers that the trials of a job share with others, opened; None if they share none."""
    path = job.hosting.answers
    return nullcontext() if path is None or job.plan.answers == "fresh" else AnswerBook(path)


def answers_of(job: TrialJob, book: AnswerBook | None) -> SharedAnswers | None:
    """Return the answers that a trial shares."""
    scope = str(job.seed) if job.plan.answers == "seed" else ""
    return None if book is None else SharedAnswers(book, scope)


def attempt(trial: Trial, figures: Callable[[], Mapping[str, Any]], *, may_refuse: bool = False) -> Trial:
    """Return a trial with its figures, or with the problem because of which there are none.

    Args:
        trial: the trial without figures.
        figures: runs the scenario and returns the figures.
        may_refuse: whether a scenario that does not fit is no failure.
    """
    if parent_process() is not None:
        _collect()
    try:
        with contextlib.redirect_stdout(sys.stderr):  # output of agents is not part of the result
            return attrs.evolve(trial, **figures())
    except UsageError as error:
        status: Status = "refused" if may_refuse else "failed"
        return attrs.evolve(trial, status=status, problem=sentence(error))
    except Exception as error:
        return attrs.evolve(trial, status="failed", problem=sentence(error))


def _collect() -> None:
    """Collect the garbage of earlier trials of this worker, so that it is not collected during the next one.

    What is left, mostly modules, is then frozen: to look through it again would cost more than a short trial.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*PATIENT)


@attrs.define
class TrialWatch:
    """Notes the name and the CPU time at the start of a run and, of an arm, the events of each agent; shares answers.

    It keeps what outcomes are about and the result of a run does not have: single answers to surveys, and its pools.

    Attributes:
        plan: the plan.
        answers: the answers that it shares.
        began: the CPU time in seconds.
        recorder: what notes the events.
        name: the name of the run folder; empty: it is not recorded.
        runner: the runner of the run.
        pools: what is seen of its pools; None if no outcome is about them.
        series: the samples of the run, once it has ended.
    """

    plan: Plan
    answers: SharedAnswers | None = None
    began: float = 0.0
    recorder: TraceRecorder | None = None
    name: str = ""
    runner: RunController | None = None
    pools: PoolClock | None = None
    series: Samples = NO_SAMPLES

    def __call__(self, runner: RunController) -> None:
        """Note the start of a run, and prepare it."""
        self.runner = runner
        calls = [call for one in self.plan.definitions for call in one.measurement.calls]
        if runner.sync is None and any(call.function in OF_POOLS for call in calls):
            world = runner.simulation.world
            self.pools = PoolClock(world.kernel, world.pools, calls)
            runner.ending = self.pools.stop
        if self.plan.past is not None:
            kernel = runner.simulation.world.kernel
            kernel.recorder = self.recorder = TraceRecorder(kernel.recorder)
        self.name = runner.simulation.world.kernel.effects.namespace
        models = runner.simulation.models
        if models is not None:
            models.shared = self.answers
        self.began = time.process_time()

    def named(self, trial: Trial, job: TrialJob) -> Trial:
        """Return a trial; one that failed with the name of its run folder, if there is one."""
        if trial.status == "measured":
            return trial
        runs = job.hosting.runs
        run = self.name if runs is not None and self.name and (runs / self.name).exists() else None
        return attrs.evolve(trial, run=run, problem=_without_folder(trial.problem, job))

    def trace(self) -> Trace | None:
        """Return the events of each agent."""
        return None if self.recorder is None else self.recorder.trace


def _figures(job: TrialJob, point: Point, watch: TrialWatch) -> Mapping[str, Any]:
    overrides = (*job.plan.overrides, *overrides_of(point))
    if job.plan.past is not None:
        return measured(job, watch, partial(_run_arm, job, overrides, watch))
    level = "all" if job.plan.read_records else "samples"
    run = partial(run_trial, job, overrides, watch, mode=job.plan.mode, default_recording=level)
    return measured(job, watch, lambda runs: run(out=runs))


def measured(job: TrialJob, watch: TrialWatch, run: Callable[[Path | None], RunResult]) -> dict[str, Any]:
    """Return the figures of a trial.

    Args:
        job: its job.
        watch: what watches its run.
        run: runs it, with its run folder in the given folder.

    Raises:
        UsageError: if effects are in doubt.
        SystemExit: if the process is being ended from outside.
    """
    with _folder(job) as runs:
        result = run(runs)
        if result.doubts:
            hint = "decide about them: sim resume"
            raise UsageError(f"{len(result.doubts)} effects of the run are in doubt", hint=hint)
        if result.status != "finished":
            sys.exit(1)
        seconds, runner = time.process_time() - watch.began, watch.runner
        asked = () if runner is None else runner.interventions.asked
        try:
            defined = TrialValues(result, asked, watch.pools, job.hosting.access).values(job.plan.definitions)
        except UsageError as error:  # the run itself was carried out: its mode is not what is refused
            raise RunError(str(error), hint=error.hint) from error
    if runs is not None and runs != job.hosting.runs:
        result = attrs.evolve(result, run=None)
    watch.series = Samples.of(result.metrics)
    with_models = runner is not None and runner.simulation.models is not None
    return figures_of(result, seconds, with_models=with_models, defined=defined)


@contextlib.contextmanager
def _folder(job: TrialJob) -> Iterator[Path | None]:
    """Give the folder for the run folder of a trial; one that is removed again if only an outcome reads the record."""
    if job.hosting.runs is not None or not job.plan.read_records:
        yield job.hosting.runs
        return
    if job.hosting.scratch is not None:
        job.hosting.scratch.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sim-", dir=job.hosting.scratch) as folder:
        yield Path(folder)


def scenario_of(job: TrialJob, overrides: Sequence[str]) -> Scenario:
    """Return the scenario of a trial."""
    plan, all_overrides = job.plan, (*overrides, *((f"until={job.plan.until}",) if job.plan.until is not None else ()))
    return _loaded(plan.sha256, Path(plan.file), all_overrides, plan.allow, job.hosting.kinds)


def _loaded(
    sha256: str, file: Path, overrides: Sequence[str], allow: Sequence[str], kinds: Mapping[str, type[Agent]] | None
) -> Scenario:
    """Return a scenario; for all trials of a worker that have the same values, it is read once.

    With code of others it is read each time: it could change what it is given, such as a mapping in its params, and
    with it the next trial.
    """
    if kinds or allow or current_definitions() is not None:
        return load(file, overrides, allow, kinds)
    if _KEPT and next(iter(_KEPT))[0] != sha256:
        _KEPT.clear()
    key = (sha256, file, tuple(overrides))
    scenario = _KEPT.get(key)
    if scenario is None:
        scenario = load(file, overrides, allow)
        if len(_KEPT) < _MOST_KEPT:
            _KEPT[key] = scenario
    return scenario


def run_trial(
    job: TrialJob, overrides: Sequence[str], begun: Callable[[RunController], None], **options: Any
) -> RunResult:
    """Run the scenario of a job once, and return the result.

    Args:
        job: the job.
        overrides: all overrides of the scenario.
        begun: called before the first step.
        options: further options of the run, or other ones; see `RunOptions`.

    Raises:
        UsageError: if the scenario was edited since the experiment began, or cannot be run so.
    """
    plan = job.plan
    check_scenario(plan, Path(plan.file))
    own_options = {"seed": job.seed, "until": plan.until, "overrides": overrides}
    chosen = RunOptions(**{**_hosted(job), **own_options, "begun": begun, **options})
    return blocking(partial(run_from, plan.file, chosen, load=partial(_loaded, plan.sha256)), chosen.backend)


def _run_arm(job: TrialJob, overrides: Sequence[str], watch: TrialWatch, runs: Path | None) -> RunResult:
    from sim.runner.branching import branch  # the import is slow

    plan, hosting = job.plan, job.hosting
    assert plan.past is not None, "arms have a past"
    return branch(
        plan.past.run,
        at=plan.past.at,
        seed=job.seed,
        until=plan.until,
        overrides=overrides,
        out=runs,
        record=runs is not None,
        begun=watch,
        **part_of(hosting, Decisions),
        **_hosted(job),
    )


def _hosted(job: TrialJob) -> Keywords:
    """Return how the runs of a job are hosted, as options of runs."""
    ending: OnInterrupt = "raise" if parent_process() is None else "return"
    return {**part_of(job.hosting, Hosting), "max_wall": None, "on_interrupt": ending}  # which is that of all trials
