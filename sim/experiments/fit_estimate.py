"""How many runs a fit takes at most, and how long they take, from a run that is carried out first."""

from sim.base.text import counted
from sim.experiments.experiment import hosted, left, missing
from sim.experiments.fitting import fit_of
from sim.experiments.measure import run_job
from sim.experiments.plan import TrialHosting, jobs_of
from sim.experiments.pool import cores
from sim.experiments.results import Results
from sim.kernel.duration import seconds_text


def size_of_fit(results: Results, hosting: TrialHosting, jobs: int | None, *, timed: bool) -> str:
    """Return how many runs a fit takes at most, and how long.

    The time is the mean of the runs on record. If there are none, the first one is carried out, and kept like all
    others, unless it could have an effect outside, such as a call that costs money.

    Args:
        results: the results so far.
        hosting: what the operator gives to the trials.
        jobs: the number of processes; None: one for each core.
        timed: whether the runs are carried out on this machine.
    """
    plan, fit, count, begun = results.plan, fit_of(results.plan), left(results), bool(results.done())
    size = f"{fit.candidates:,} candidates in batches of {fit.batch} × {counted(plan.seeds[1], 'seed')}"
    best = "the best" if fit.most_best == 1 else f"each of the best, {fit.most_best} at most"
    size += f", and {counted(fit.held_out, 'held-out seed')} for {best}" if fit.held_out else ""
    said = f"fit: {size}: at most {counted(count, 'run')}{' left' if begun else ''}"
    if not timed or not count:
        return said
    if not begun:
        _run_first(results, hosting)
    seconds = results.seconds()
    if seconds is None:
        return said
    processes = jobs or cores()
    whole = float(f"{seconds * count / processes:.2g}")
    return f"{said}; one takes {seconds_text(seconds)} here, so about {seconds_text(whole)} with --jobs {processes}"


def _run_first(results: Results, hosting: TrialHosting) -> None:
    """Carry out the first run in this process, and keep it, if it has no effect outside."""
    outside = hosting.access is not None and hosting.access.outside
    if outside or hosting.reach_outside or hosting.is_used_up(*results.spent()):
        return
    for job in jobs_of(results.plan, missing(results)[:1], hosted(results, hosting), by_seed=False):
        results.add(run_job(job))
