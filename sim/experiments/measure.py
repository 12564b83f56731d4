"""The trials of one job, in a worker process (edge)."""

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
from sim.base.errors import UsageError
from sim.base.registry import current_definitions
from sim.experiments.plan import Plan, TrialJob, check_scenario
from sim.experiments.points import Point, overrides_of
from sim.experiments.pool_clock import PoolClock
from sim.experiments.reach import Trace, TraceRecorder, reached
from sim.experiments.trial import Status, Trial, figures_of, sentence
from sim.experiments.values import Found
from sim.llm.shared_answers import SharedAnswers
from sim.record.answer_book import AnswerBook
from sim.runner.event_loop import blocking
from sim.runner.options import OnInterrupt, RunOptions
from sim.runner.result import RunResult
from sim.runner.runner import RunController
from sim.runner.running import PATIENT, run_from
from sim.scenario import Scenario, load

_MOST_KEPT: Final = 256
"""The most scenarios that a worker keeps. Trials of a seed have all combinations, so those that came first are kept."""

_KEPT: Final[dict[tuple[str, Path, tuple[str, ...]], Scenario]] = {}
"""The scenarios that this worker has read, of one plan."""


@attrs.frozen
class Measured:
    """A trial, and of an arm the agents that it reached, with the simulated seconds at which it did."""

    trial: Trial
    reached: Mapping[str, float] = attrs.field(factory=dict)


def run_job(job: TrialJob) -> list[Measured]:
    """Run the trials of a job, one after the other, and return their measurements. Nothing else is kept."""
    found: list[Measured] = []
    baseline: tuple[Trace, float] | None = None
    with _book(job) as book:
        for index, point in job.points.items():
            watch = _Watch(job.plan, None if book is None else SharedAnswers(book, _scope(job)))
            trial = attempt(Trial(index, job.seed, job.plan.mode, 0), partial(_figures, job, point, watch))
            if trial.status != "measured":
                run = watch.run(job.hosting.runs)
                trial = attrs.evolve(trial, run=run, problem=_without_folder(trial.problem, job))
            trace = watch.trace() if trial.status == "measured" else None
            own = None if trace is None or trial.sim_seconds is None else (trace, trial.sim_seconds)
            found.append(Measured(trial, {} if baseline is None or own is None else _reached(baseline, own)))
            baseline = own if index == 0 else baseline
    return found


def _without_folder(problem: str | None, job: TrialJob) -> str | None:
    """Return why a trial failed without the folder of the scenario, so that it is the same wherever it is repeated."""
    return problem and problem.replace(f"{Path(job.plan.file).parent}{os.sep}", "")


def _reached(baseline: tuple[Trace, float], arm: tuple[Trace, float]) -> dict[str, float]:
    return reached(baseline[0], arm[0], (baseline[1], arm[1]))


def _book(job: TrialJob) -> AbstractContextManager[AnswerBook | None]:
    path = job.hosting.answers
    return nullcontext() if path is None or job.plan.answers == "fresh" else AnswerBook(path)


def _scope(job: TrialJob) -> str:
    return str(job.seed) if job.plan.answers == "seed" else ""


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
class _Watch:
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
    """

    plan: Plan
    answers: SharedAnswers | None
    began: float = 0.0
    recorder: TraceRecorder | None = None
    name: str = ""
    runner: RunController | None = None
    pools: PoolClock | None = None

    def __call__(self, runner: RunController) -> None:
        self.runner = runner
        calls = [call for one in self.plan.definitions for call in one.measurement.calls]
        if any(call.function in OF_POOLS for call in calls):
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

    def run(self, runs: Path | None) -> str | None:
        """Return the name of the run folder of a trial that failed, if there is one in the folder of run folders."""
        return self.name if runs is not None and self.name and (runs / self.name).exists() else None

    def trace(self) -> Trace | None:
        """Return the events of each agent."""
        return None if self.recorder is None else self.recorder.trace


def _figures(job: TrialJob, point: Point, watch: _Watch) -> Mapping[str, Any]:
    with _folder(job) as runs:
        result = _run(job, (*job.plan.overrides, *overrides_of(point)), watch, runs)
        if result.doubts:
            hint = "decide about them: sim resume"
            raise UsageError(f"{len(result.doubts)} effects of the run are in doubt", hint=hint)
        if result.status != "finished":
            sys.exit(1)  # the process is being ended from outside
        seconds = time.process_time() - watch.began
        asked = () if watch.runner is None else watch.runner.interventions.asked
        defined = Found(result, asked, watch.pools, job.hosting.access).values(job.plan.definitions)
    if runs is not None and runs != job.hosting.runs:
        result = attrs.evolve(result, run=None)
    return figures_of(result, seconds, with_models=bool(result.models), defined=defined)


@contextlib.contextmanager
def _folder(job: TrialJob) -> Iterator[Path | None]:
    """Give the folder for the run folder of a trial; one that is removed again if only an outcome reads the record."""
    if job.hosting.runs is not None or not job.plan.read_records:
        yield job.hosting.runs
        return
    with tempfile.TemporaryDirectory(prefix="sim-") as folder:
        yield Path(folder)


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
    found = _KEPT.get(key)
    if found is None:
        found = load(file, overrides, allow)
        if len(_KEPT) < _MOST_KEPT:
            _KEPT[key] = found
    return found


def _run(job: TrialJob, overrides: tuple[str, ...], watch: _Watch, runs: Path | None) -> RunResult:
    plan, hosting = job.plan, job.hosting
    ending: OnInterrupt = "raise" if parent_process() is None else "return"
    options: dict[str, Any] = {
        **hosting.rights.keywords, "access": hosting.access, "begun": watch,
        "on_interrupt": ending,
    }  # fmt: skip
    if plan.past is None:
        check_scenario(plan, Path(plan.file))  # it may have been edited since the experiment began
        chosen = RunOptions(
            seed=job.seed, mode=plan.mode, until=plan.until, overrides=overrides, out=runs,
            default_recording="all" if plan.read_records else "samples", **options,
        )  # fmt: skip
        return blocking(partial(run_from, plan.file, chosen, load=partial(_loaded, plan.sha256)), chosen.backend)
    from sim.runner.branching import branch  # the import is slow

    return branch(
        plan.past.run, at=plan.past.at, seed=job.seed, until=plan.until, overrides=overrides, out=runs,
        record=runs is not None, other_endpoint=hosting.other_endpoint,
        allow_change=hosting.allow_change, **options,
    )  # fmt: skip
