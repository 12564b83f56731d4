"""The runs of a bench, in parallel processes, and a description of the machine (edge)."""

import contextlib
import platform
import sys
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import attrs

from sim.base.errors import UsageError
from sim.experiments.bench.concurrency import Concurrency
from sim.experiments.bench.modes import ORACLE, PARALLEL, Mode
from sim.experiments.bench.plan import Job, TrialPlan
from sim.experiments.measure import attempt
from sim.experiments.pool import Ended, Pool, cores
from sim.experiments.trial import Trial, figures_of
from sim.runner import RunController, run

Seen = dict[tuple[str, int], tuple[str, ...]]
"""The agents that an agent saw, by agent and tick."""


@attrs.define
class _Meter:
    """Notes the CPU time at the start of a run, and its calls in flight.

    Args:
        seen: the data for an oracle; None: the run is not an oracle.
        study: whether to note which agents each agent sees, for an oracle.
    """

    seen: Seen | None = None
    study: bool = False
    with_models: bool = False
    began: float = 0.0
    concurrency: Concurrency | None = None
    runner: RunController | None = None

    def __call__(self, runner: RunController) -> None:
        self.runner = runner
        if runner.sync is not None and self.study:
            runner.sync.study()
        models = runner.simulation.models
        self.with_models = models is not None
        if runner.sync is None and models is not None:
            self.concurrency = models.counts = Concurrency(runner)
        if runner.sync is not None and self.seen is not None:
            runner.sync.know(self.seen)
        self.began = time.process_time()

    def studied(self) -> Seen:
        """Return the agents that each agent saw."""
        sync = None if self.runner is None else self.runner.sync
        return {} if sync is None or sync.seen is None else sync.seen


def machine() -> dict[str, Any]:
    """Return a description of the machine."""
    return {"processor": _processor(), "cores": cores(), "system": platform.system(), "release": platform.release()}


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def measure(plan: TrialPlan, processes: int) -> Generator[Trial]:
    """Execute a plan and yield each run when its job is done.

    Running processes are killed when the generator is closed. They leave nothing on disk.

    Args:
        plan: the plan.
        processes: the number of parallel processes.
    """
    with Pool(processes) as pool:
        for job, trials in pool.run(_work, plan.jobs):
            if isinstance(trials, Ended):
                yield from (
                    Trial(job.point, job.seed, mode.name, turn, "failed", trials.problem)
                    for turn, mode in enumerate(job.modes)
                )
            else:
                yield from trials


_warmed: set[Path] = set()
"""The scenarios that this process has run."""


def _work(job: Job) -> list[Trial]:
    """Run a job in all its modes, in a worker process."""
    if not job.synchronised and job.scenario not in _warmed:  # the makespan can be real time, without imports
        _warm(job)
        _warmed.add(job.scenario)
    seen: Seen | None = None
    trials = []
    asked = any(mode.name == ORACLE for mode in job.modes)
    for turn, mode in enumerate(job.modes):
        if mode.name == ORACLE and seen is None:
            seen = _study(job)
        meter = _Meter(seen if mode.name == ORACLE else None, study=asked and mode.name == PARALLEL)
        trials.append(_trial(job, mode, turn, meter))
        if meter.study:
            seen = meter.studied()
    return trials


def _warm(job: Job) -> None:
    """Run one instant, so that all modules are imported."""
    mode, changes = job.modes[0].settings(synchronised=False)
    with contextlib.suppress(Exception):  # the run itself will report the error
        run(job.scenario, seed=job.seed, mode=mode, until=1e-9, overrides=job.overrides + changes, allow=job.allow)


def _study(job: Job) -> Seen:
    """Run a job with barriers, and return which agents see each other."""
    meter = _Meter(study=True)
    changes = (*job.overrides, "execution.sync=barrier")
    with contextlib.suppress(UsageError):  # the run of the oracle will report the error
        run(job.scenario, seed=job.seed, mode="tick", overrides=changes, allow=job.allow, begun=meter)
    return meter.studied()


def _trial(job: Job, mode: Mode, turn: int, meter: _Meter) -> Trial:
    trial = Trial(job.point, job.seed, mode.name, turn)
    return attempt(trial, lambda: _figures(job, mode, meter), may_refuse=mode.may_refuse)


def _figures(job: Job, mode: Mode, meter: _Meter) -> Mapping[str, Any]:
    run_mode, changes = mode.settings(synchronised=job.synchronised)
    result = run(
        job.scenario, seed=job.seed, mode=run_mode, overrides=job.overrides + changes, allow=job.allow, begun=meter,
        on_interrupt="return",
    )  # fmt: skip
    if result.status != "finished":
        sys.exit(1)  # the process is being ended from outside
    figures = figures_of(result, time.process_time() - meter.began, with_models=meter.with_models)
    if figures["basis"] == "simulated" and meter.concurrency is not None:
        mean, parts = meter.concurrency.over_time()
        return {**figures, "in_flight": mean, "concurrency": parts}
    return figures
