"""A sweep: carries out its plan, trial by trial, until it is precise enough. It can be stopped and resumed."""

from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import attrs

from sim.experiments.estimate import Estimate
from sim.experiments.measure import run_trial
from sim.experiments.points import Point
from sim.experiments.pool import Ended, Pool
from sim.experiments.results import Results
from sim.experiments.sweep_plan import SweepPlan, jobs_of
from sim.experiments.trial import Trial


@attrs.frozen
class SweepRow:
    """One combination over all seeds that were measured.

    Attributes:
        point: its values.
        seeds: the number of seeds.
        failed: the number of trials that failed.
        outcomes: the outcomes by name.
        precise: whether each outcome is precise enough; None: that is not asked for.
    """

    point: Point
    seeds: int
    failed: int
    outcomes: Mapping[str, Estimate]
    precise: bool | None = None


@attrs.frozen
class Progress:
    """How far a sweep is: the trials done and planned so far, and the last one."""

    done: int
    planned: int
    last: Trial


def carry_out(results: Results, processes: int, *, again: bool = False) -> Generator[Progress]:
    """Run the trials that are missing, and yield after each.

    Args:
        results: the results so far.
        processes: the number of parallel processes.
        again: whether trials that failed are tried again.
    """
    tried: set[tuple[int, int]] = set()
    with Pool(processes) as pool:
        while wanted := [one for one in missing(results, again=again) if one not in tried]:
            done = len(results.done()) if not again else 0
            planned = done + len(wanted)
            for job, found in pool.run(run_trial, jobs_of(results.plan, wanted)):
                if isinstance(found, Ended):
                    found = Trial(job.point, job.seed, job.mode, 0, "failed", found.problem)
                results.add(found)
                tried.add((job.point, job.seed))
                done += 1
                yield Progress(done, planned, found)


def missing(results: Results, *, again: bool = False) -> list[tuple[int, int]]:
    """Return the combinations and seeds that have to be run next.

    Seeds are added only when all those before are done, so what is run does not depend on when a sweep was stopped.
    """
    plan, done = results.plan, results.done()
    if again:
        done = {one: status for one, status in done.items() if status == "measured"}
    counts = seeds_of(results)
    first = plan.seeds[0]
    wanted = [
        (point, seed)
        for point in range(len(plan.points))
        for seed in range(first, first + counts[point])
        if (point, seed) not in done
    ]
    # Seeds before points, so that all combinations have some seeds early.
    return sorted(wanted, key=lambda one: (one[1], one[0]))


def seeds_of(results: Results) -> list[int]:
    """Return how many seeds each combination needs, as far as that is known: half as many are added at a time."""
    plan, (first, count) = results.plan, results.plan.seeds
    if plan.precision is None:
        return [count] * len(plan.points)
    done = results.done()
    values = _values(results)
    counts = []
    for point in range(len(plan.points)):
        needed = count
        while needed < plan.precision.most_seeds:
            if any((point, seed) not in done for seed in range(first, first + needed)):
                break  # they are run first
            if _is_precise(plan, _estimates(values.get(point, {}), first + needed)):
                break
            needed = min(plan.precision.most_seeds, needed + max(2, needed // 2))
        counts.append(needed)
    return counts


Values = dict[str, list[tuple[int, float]]]


def _values(results: Results) -> dict[int, Values]:
    """Return (seed, value) of the outcomes that matter, by combination and name."""
    found: dict[int, Values] = {}
    names = list(results.plan.outcomes) or results.own()
    for point, seed, name, value in results.values(names):
        found.setdefault(point, {}).setdefault(name, []).append((seed, value))
    return found


def _estimates(values: Values, before: int | None = None) -> dict[str, Estimate]:
    made = {}
    for name, pairs in values.items():
        estimate = Estimate.of([value for seed, value in pairs if before is None or seed < before])
        if estimate is not None:
            made[name] = estimate
    return made


def _is_precise(plan: SweepPlan, estimates: Mapping[str, Estimate]) -> bool:
    """Return whether each interval is narrow enough; that of a single seed is not, one of a constant is."""
    if plan.precision is None or not estimates:
        return plan.precision is None
    share = plan.precision.share
    return all(one.half is not None and one.half <= share * abs(one.mean) for one in estimates.values())


def evaluate(results: Results) -> list[SweepRow]:
    """Return the rows of a sweep, one for each combination."""
    plan, values = results.plan, _values(results)
    failed: dict[int, int] = {}
    measured: dict[int, int] = {}
    for (number, _), status in results.done().items():
        which = measured if status == "measured" else failed
        which[number] = which.get(number, 0) + 1
    rows = []
    for number, point in enumerate(plan.points):
        estimates = _estimates(values.get(number, {}))
        precise = None if plan.precision is None else _is_precise(plan, estimates)
        rows.append(SweepRow(point, measured.get(number, 0), failed.get(number, 0), estimates, precise))
    return rows


def to_json(results: Results, rows: list[SweepRow], folder: Path) -> dict[str, Any]:
    """Return the results of a sweep as JSON."""
    return {
        "folder": str(folder), "id": results.plan.id, "plan": results.plan.to_json(),
        "rows": [attrs.asdict(row) for row in rows],
        "problems": [{"point": point, "seed": seed, "problem": why} for point, seed, why in results.problems()],
    }  # fmt: skip
