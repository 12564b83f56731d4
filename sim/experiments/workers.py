"""Who carries out an experiment: processes of this machine, or a Ray cluster."""

from contextlib import AbstractContextManager
from pathlib import Path

from sim.base.errors import UsageError
from sim.base.extras import need
from sim.experiments.experiment import Workers
from sim.experiments.plan import Plan
from sim.experiments.pool import WorkerPool, cores
from sim.experiments.recorded import RUNS


def check_workers(plan: Plan, jobs: int | None, on: str | None, edge: str | None = None) -> None:
    """Check that there are such workers and that they can carry out a plan, before anything is written.

    Args:
        plan: the plan.
        jobs: the number of processes; None: one for each core.
        on: `ray`, or `ray:ADDRESS`; None: processes of this machine.
        edge: the Ray cluster that makes the calls of models of each trial; None: there is none.

    Raises:
        UsageError: if not.
    """
    if on is None:
        return
    if plan.bench is not None:
        raise UsageError(
            "a bench measures real time and CPU time, which machines of a cluster do not have in common",
            hint="leave --on out",
        )
    if on.partition(":")[0] != "ray":
        raise UsageError(f"trials cannot run on {on!r:.60}", hint="they run on ray or ray:ADDRESS")
    if jobs is not None:
        raise UsageError("a number of processes is given, but a Ray cluster has its own", hint="leave --jobs out")
    need("ray", "experiments on Ray need")
    if edge is not None:  # trials would take the cores that their own worker processes wait for
        raise UsageError(
            "trials on a Ray cluster have worker processes on their own machine only", hint="leave @ray and --ray out"
        )
    if plan.answers == "all":
        raise UsageError("machines share no answers of models", hint="--answers seed, or fresh")


def workers_of(
    plan: Plan, folder: Path, jobs: int | None = None, on: str | None = None
) -> AbstractContextManager[Workers]:
    """Return the workers that carry out a plan.

    Args:
        plan: the plan.
        folder: the folder of the experiment.
        jobs: the number of processes; None: one for each core.
        on: `ray`, or `ray:ADDRESS`; None: processes of this machine.

    Raises:
        UsageError: if there are no such workers, or they cannot carry out the plan.
    """
    check_workers(plan, jobs, on)
    if on is None:
        return WorkerPool(jobs or cores())
    address = on.partition(":")[2]
    from sim.experiments.ray_workers import RayWorkers  # Ray takes a second to import

    return RayWorkers(plan, address or None, folder / RUNS if plan.record else None)
