"""A job of a bench: one combination with one seed in all modes, one after the other, in one worker process (edge)."""

import contextlib
from functools import partial

import attrs

from sim.base.errors import UsageError
from sim.experiments.bench.concurrency import Concurrency
from sim.experiments.measure import Measured, TrialWatch, answers_of, attempt, book_of, measured, run_trial, scenario_of
from sim.experiments.modes import MODES, ORACLE, PARALLEL, BenchMode
from sim.experiments.plan import TrialJob
from sim.experiments.points import MODE, Point, overrides_of
from sim.experiments.trial import Trial
from sim.kernel.codec import JsonObject
from sim.runner import RunController

Seen = dict[tuple[str, int], tuple[str, ...]]
"""The agents that an agent saw, by agent and tick."""


@attrs.define
class _Meter:
    """Notes the start of a run, and its calls in flight.

    Args:
        watch: notes the CPU time, and shares answers.
        seen: the data for an oracle; None: the run is not an oracle.
        study: whether to note which agents each agent sees, for an oracle.
    """

    watch: TrialWatch
    seen: Seen | None = None
    study: bool = False
    concurrency: Concurrency | None = None
    runner: RunController | None = None

    def __call__(self, runner: RunController) -> None:
        self.runner = runner
        if runner.sync is not None and self.study:
            runner.sync.study()
        models = runner.simulation.models
        if runner.sync is None and models is not None:
            counts = Concurrency(runner)
            counts.add_tiers(models.counts.tallies)  # every tier has a tally before its first call
            self.concurrency = models.counts = counts
        if runner.sync is not None and self.seen is not None:
            runner.sync.know(self.seen)
        self.watch(runner)

    def studied(self) -> Seen:
        """Return the agents that each agent saw."""
        sync = None if self.runner is None else self.runner.sync
        return {} if sync is None or sync.seen is None else sync.seen


@attrs.frozen
class _Setting:
    """What the runs of a job have in common.

    Attributes:
        job: the job.
        overrides: the overrides of the scenario with this combination.
        synchronised: whether the scenario sets `execution.sync`.
    """

    job: TrialJob
    overrides: tuple[str, ...]
    synchronised: bool

    @classmethod
    def of(cls, job: TrialJob) -> "_Setting":
        """Return the setting of a job."""
        point: Point = next(iter(job.points.values()))
        overrides = (*job.plan.overrides, *overrides_of(point))
        synchronised = False
        with contextlib.suppress(Exception):  # the runs themselves will report the error
            synchronised = scenario_of(job, overrides).execution.sync is not None
        return cls(job, overrides, synchronised)


_warmed: set[str] = set()
"""The scenarios that this process has run, by hash."""


def run_modes(job: TrialJob) -> list[Measured]:
    """Run a combination with a seed in all modes, and return the measurements."""
    setting = _Setting.of(job)
    modes = [MODES[point[MODE]] for point in job.points.values()]
    if not setting.synchronised and job.plan.sha256 not in _warmed:  # the makespan can be real time, without imports
        _warm(setting, modes[0])
        _warmed.add(job.plan.sha256)
    seen: Seen | None = None
    measured = []
    asked = any(mode.name == ORACLE for mode in modes)
    with book_of(job) as book:
        for turn, (index, mode) in enumerate(zip(job.points, modes, strict=True)):
            if mode.name == ORACLE and seen is None:
                seen = _study(setting)
            watch = TrialWatch(job.plan, answers_of(job, book))
            meter = _Meter(watch, seen if mode.name == ORACLE else None, study=asked and mode.name == PARALLEL)
            measured.append(Measured(_trial(setting, Trial(index, job.seed, mode.name, turn), meter)))
            if meter.study:
                seen = meter.studied()
    return measured


def _warm(setting: _Setting, mode: BenchMode) -> None:
    """Run one instant, so that all modules are imported. What has an effect outside is not done twice for that."""
    hosting = setting.job.hosting
    outside = hosting.access is not None and hosting.access.outside
    if outside or hosting.reach_outside:
        return
    run_mode, changes = mode.settings(synchronised=False)
    overrides = (*setting.overrides, *changes)
    with contextlib.suppress(Exception):  # the run itself will report the error
        run_trial(setting.job, overrides, lambda _: None, mode=run_mode, until=1e-9, out=None)


def _study(setting: _Setting) -> Seen:
    """Run a job with barriers, and return which agents see each other."""
    meter = _Meter(TrialWatch(setting.job.plan), study=True)
    with contextlib.suppress(UsageError):  # the run of the oracle will report the error
        run_trial(setting.job, (*setting.overrides, "execution.sync=barrier"), meter, mode="tick", out=None)
    return meter.studied()


def _trial(setting: _Setting, trial: Trial, meter: _Meter) -> Trial:
    mode = MODES[trial.mode]
    made = attempt(trial, lambda: _figures(setting, mode, meter), may_refuse=mode.may_refuse)
    return meter.watch.named(made, setting.job)


def _figures(setting: _Setting, mode: BenchMode, meter: _Meter) -> JsonObject:
    run_mode, changes = mode.settings(synchronised=setting.synchronised)
    run = partial(run_trial, setting.job, (*setting.overrides, *changes), meter, mode=run_mode)
    figures = measured(setting.job, meter.watch, lambda runs: run(out=runs))
    if figures["basis"] == "simulated" and meter.concurrency is not None:
        mean, parts = meter.concurrency.over_time()
        return {**figures, "in_flight": mean, "concurrency": parts}
    return figures
