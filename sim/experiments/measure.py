"""One trial of a sweep, in a worker process (edge)."""

import contextlib
import gc
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from sim.errors import UsageError
from sim.experiments.sweep_plan import SweepJob
from sim.experiments.trial import Status, Trial, figures_of, sentence
from sim.runner import SimulationRunner, run


def run_trial(job: SweepJob) -> Trial:
    """Run one trial and return its measurements, without a record."""
    trial = Trial(job.point, job.seed, job.mode, 0)
    return attempt(trial, lambda: _figures(job))


def attempt(trial: Trial, figures: Callable[[], Mapping[str, Any]], *, may_refuse: bool = False) -> Trial:
    """Return a trial with its figures, or with the problem because of which there are none.

    Args:
        trial: the trial without figures.
        figures: runs the scenario and returns the figures.
        may_refuse: whether a scenario that does not fit is no failure.
    """
    gc.collect()  # so that garbage of earlier runs is not collected during this one
    try:
        with contextlib.redirect_stdout(sys.stderr):  # output of agents is not part of the result
            return attrs.evolve(trial, **figures())
    except UsageError as error:
        status: Status = "refused" if may_refuse else "failed"
        return attrs.evolve(trial, status=status, problem=sentence(error))
    except Exception as error:
        return attrs.evolve(trial, status="failed", problem=sentence(error))


def _figures(job: SweepJob) -> Mapping[str, Any]:
    began = 0.0

    def start(runner: SimulationRunner) -> None:
        nonlocal began
        began = time.process_time()

    result = run(
        job.file, seed=job.seed, mode=job.mode, until=job.until, overrides=job.overrides, allow=job.allow, begun=start,
        on_interrupt="return",
    )  # fmt: skip
    if result.status != "finished":
        sys.exit(1)  # the process is being ended from outside
    return figures_of(result, time.process_time() - began, with_models=bool(result.models))
