"""An experiment: carries out its plan, trial by trial, until it is precise enough. It can be stopped and resumed."""

from collections.abc import Callable, Container, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, Protocol

import attrs

from sim.agents.outcomes import COUNTS
from sim.base.errors import UsageError
from sim.experiments.arms import ArmReach, Difference, differences_of, reach_of
from sim.experiments.bench.job import run_modes
from sim.experiments.bench.sessions import BenchSession
from sim.experiments.estimate import FEW, Estimate
from sim.experiments.fitting import Fit, Searching
from sim.experiments.measure import Measured, run_job
from sim.experiments.outcomes import KnownOutcomes, is_count
from sim.experiments.plan import Plan, TrialHosting, TrialJob, jobs_of, mode_of
from sim.experiments.points import Point, overrides_of
from sim.experiments.pool import Deadline, Ended
from sim.experiments.recorded import RUNS, SCRATCH
from sim.experiments.results import Results
from sim.experiments.trial import Trial
from sim.kernel.codec import Json
from sim.record.answer_book import ANSWERS
from sim.scenario import load

FEWEST_SEEDS: Final = 10
"""The fewest seeds of an outcome that is precise: the first few are often alike by chance."""

FEWEST_WITHOUT_SPREAD: Final = 30
"""The fewest seeds of an outcome that is precise although it is the same for all of them.

By the rule of three, what has not happened in n trials has a probability below about 3 / n, with a confidence of 95 %
(Hanley and Lippman-Hand, If nothing goes wrong, is everything all right?, JAMA 249, 1983); of 30 seeds, below 10 %.
"""

Values = Mapping[str, Mapping[int, float]]
"""The outcomes of a combination: the value by seed, by name."""


class Workers(Protocol):
    """Those who do the jobs of an experiment."""

    @property
    def shared_files(self) -> bool:
        """Whether they see the files of this process."""

    @property
    def processes(self) -> int:
        """How many jobs they do at once."""

    def run(
        self, work: Callable[[TrialJob], list[Measured]], jobs: Iterable[TrialJob], /, deadline: Deadline
    ) -> Generator[tuple[TrialJob, list[Measured] | Ended]]:
        """Do jobs, and yield each with its result when it is done; at the deadline, end those under way."""


@attrs.frozen
class PointEstimates:
    """One combination, or arm, over all seeds that were measured.

    Attributes:
        label: its name.
        point: its values; of an arm, what it changes.
        seeds: the number of seeds.
        failed: the number of trials that failed.
        outcomes: the outcomes by name.
        precise: whether each outcome is precise enough; None: that is not asked for.
    """

    label: str
    point: Point
    seeds: int
    failed: int
    outcomes: Mapping[str, Estimate]
    precise: bool | None = None


@attrs.frozen
class Progress:
    """How far an experiment is: the trials done and planned so far, and the last one."""

    done: int
    planned: int
    last: Trial


def carry_out(
    results: Results, workers: AbstractContextManager[Workers], hosting: TrialHosting, *, again: bool = False
) -> Generator[Progress]:
    """Run the trials that are missing, and yield after each.

    Args:
        results: the results so far.
        workers: who runs them.
        hosting: what the operator gives to the trials.
        again: whether trials that failed are tried again.

    Raises:
        UsageError: if the first trial does not have an outcome that matters; see `KnownOutcomes.check_first`.
    """
    if again and results.plan.fit is not None:
        _check_again(results)
    tried: set[tuple[int, int]] = set()
    deadline = Deadline.after(hosting.max_wall)
    checked = not results.plan.outcomes
    hosting = hosted(results, hosting)
    search = None if results.plan.fit is None or not left(results) else Searching(results)
    with results.tidied(), workers as pool:
        session = BenchSession(pool.processes)
        by_seed = hosting.answers is not None and not pool.shared_files  # so that its trials share answers
        while wanted := _next(results, search, tried, again=again):
            done = len(results.done()) if search is not None or not again else 0
            planned = done + (len(wanted) if search is None else left(results))
            jobs = takewhile(
                lambda _: not hosting.is_used_up(*results.spent()),
                jobs_of(results.plan, wanted, hosting, by_seed=by_seed),
            )
            work = run_job if results.plan.bench is None else run_modes
            for job, returned in pool.run(work, jobs, deadline):
                measured = _lost(job, returned) if isinstance(returned, Ended) else returned
                results.add(measured, session.facts())
                for one in measured:
                    checked = checked or _check_first(results.plan, one.trial, hosting)
                    tried.add((one.trial.point, one.trial.seed))
                    done += 1
                    yield Progress(min(done, planned), planned, one.trial)
            if deadline.is_over or hosting.is_used_up(*results.spent()):
                return


def _check_again(results: Results) -> None:
    """Check that some of the failed trials of a fit can be tried again, if there are any.

    Raises:
        UsageError: if none can.
    """
    failed = {(point, seed) for point, seed, _ in results.problems()}
    if failed and failed <= Fit.of(results).closed():
        said = "failed trials of this fit are not tried again: later candidates or held-out seeds follow from them"
        raise UsageError(said, hint="make a new fit, or leave out --again to continue")


def hosted(results: Results, hosting: TrialHosting) -> TrialHosting:
    """Return what trials are given, with the files of their experiment."""
    folder = results.folder.resolve()  # an agent may change the current folder of its worker
    if hosting.access is not None and hosting.access.outside:
        hosting = attrs.evolve(hosting, answers=folder / ANSWERS)
    if results.plan.record:
        return attrs.evolve(hosting, runs=folder / RUNS)
    return attrs.evolve(hosting, scratch=folder / SCRATCH) if results.plan.read_records else hosting


def _check_first(plan: Plan, trial: Trial, hosting: TrialHosting) -> bool:
    """Check the names of the outcomes that matter with a trial; return False if it measured nothing."""
    if trial.status != "measured":
        return False
    if not set(plan.outcomes) <= trial.outcomes.keys():
        overrides = (*plan.overrides, *overrides_of(plan.points[trial.point]))
        scenario = load(Path(plan.file), overrides if plan.past is None else (), plan.allow, hosting.kinds)
        KnownOutcomes.of((scenario,), hosting.kinds).check_first(plan.outcomes, trial.outcomes)
    return True


def _lost(job: TrialJob, ended: Ended) -> list[Measured]:
    return [
        Measured(Trial(index, job.seed, mode_of(job.plan, point), turn, "failed", ended.problem))
        for turn, (index, point) in enumerate(job.points.items())
    ]


def _next(
    results: Results, search: Searching | None, tried: Container[tuple[int, int]], *, again: bool
) -> list[tuple[int, int]]:
    """Return the combinations and seeds that have to be run next; a fit adds candidates if there are none."""
    pairs = [one for one in missing(results, again=again) if one not in tried]
    while not pairs and search is not None and search.advance():
        pairs = missing(results)  # none, if the candidates are equal to earlier ones
    return pairs


def left(results: Results) -> int:
    """Return how many trials are missing; of a fit, as many as there can be at most."""
    return len(missing(results)) if results.plan.fit is None else Fit.of(results).left()


def missing(results: Results, *, again: bool = False) -> list[tuple[int, int]]:
    """Return the combinations and seeds that have to be run next. Candidates of a fit that are to come are not known.

    Seeds are added only when all those before are done, so what is run does not depend on when it was stopped.
    """
    plan, done = results.plan, results.done()
    if again:
        closed = set() if plan.fit is None else Fit.of(results).closed()
        done = {one: status for one, status in done.items() if status != "failed" or one in closed}
    counts = seeds_of(results)
    wanted = [
        (turn, point, seed)
        for point in range(len(plan.points))
        for turn, seed in enumerate(plan.some_seeds(counts[point]))
        if (point, seed) not in done
    ]
    # Seeds before points, so that all combinations have some seeds early.
    return [(point, seed) for _, point, seed in sorted(wanted)]


def seeds_of(results: Results) -> list[int]:
    """Return how many seeds each combination needs, as far as that is known: half as many are added at a time.

    If a precision is asked for, there are `FEWEST_SEEDS` at first, even if the plan has fewer.
    All arms have the same seeds, and all modes of a combination, because they are compared seed by seed.
    """
    plan, done = results.plan, results.done()
    if plan.fit is not None:
        return Fit.of(results).seeds()
    values = values_of(results) if plan.precision is not None else {}
    size = plan.together
    groups = (range(first, first + size) for first in range(0, len(plan.points), size))
    return [count for group in groups for count in [_needed(plan, done, group, values)] * size]


def _needed(
    plan: Plan, done: Mapping[tuple[int, int], str], points: Sequence[int], values: Mapping[int, Values]
) -> int:
    needed = plan.seeds[1]
    if plan.precision is None:
        return needed
    most = plan.precision.most_seeds
    needed = max(needed, min(FEWEST_SEEDS, most))
    while needed < most:
        seeds = plan.some_seeds(needed)
        if any((point, seed) not in done for seed in seeds for point in points):
            break  # they are run first
        by_point = {point: _among(values.get(point, {}), seeds) for point in points}
        if not any(by_seed for by_name in by_point.values() for by_seed in by_name.values()):
            break  # no trial has an outcome that matters, so more of them would be in vain
        if _are_precise(plan, by_point):
            break
        needed = min(most, needed + max(2, needed // 2))
    return needed


def values_of(results: Results) -> dict[int, dict[str, dict[int, float]]]:
    """Return the outcomes that matter: the value by combination, name and seed. What was not counted is 0."""
    by_point: dict[int, dict[str, dict[int, float]]] = {}
    own, recorded = results.own(), results.names()
    names = list(results.plan.outcomes) or own
    counts = [
        name for name in names if name not in own and (is_count(name) or (name.startswith(COUNTS) and name in recorded))
    ]
    for (point, seed), status in results.done().items() if counts else ():
        for name in counts if status == "measured" else ():
            by_point.setdefault(point, {}).setdefault(name, {})[seed] = 0.0
    for point, seed, name, value in results.values(names):
        by_point.setdefault(point, {}).setdefault(name, {})[seed] = value
    order = {name: place for place, name in enumerate(names)}
    return {point: {name: own[name] for name in sorted(own, key=order.__getitem__)} for point, own in by_point.items()}


def _among(values: Values, seeds: Sequence[int]) -> Values:
    return {name: {one: value for one, value in by_seed.items() if one in seeds} for name, by_seed in values.items()}


def _estimates(values: Values) -> dict[str, Estimate]:
    made = {name: Estimate.of(list(by_seed.values())) for name, by_seed in values.items()}
    return {name: one for name, one in made.items() if one is not None}


def _are_precise(plan: Plan, values: Mapping[int, Values]) -> bool:
    """Return whether each interval is narrow enough, and from enough seeds to be trusted."""
    if plan.precision is None:
        return True
    if plan.arms:
        pairs = [(one.difference, one.baseline) for one in differences_of(plan, values)]
    else:
        pairs = [(one, one) for by_name in values.values() for one in _estimates(by_name).values()]
    share = plan.precision.share
    return bool(pairs) and all(_is_precise(one, share * abs(base.mean)) for one, base in pairs)


def _is_precise(estimate: Estimate, most: float) -> bool:
    """Return whether an interval is narrow enough: half of it is at most `most`, and there are enough seeds."""
    return (
        estimate.half is not None
        and estimate.half <= most
        and estimate.n >= (FEWEST_SEEDS if estimate.half else FEWEST_WITHOUT_SPREAD)
    )


def evaluate(results: Results) -> list[PointEstimates]:
    """Return the estimates of an experiment, by combination."""
    plan, values = results.plan, values_of(results)
    failed: dict[int, int] = {}
    measured: dict[int, int] = {}
    for (number, _), status in results.done().items():
        which = measured if status == "measured" else failed
        which[number] = which.get(number, 0) + 1
    made = []
    for number, point in enumerate(plan.points):
        own = values.get(number, {})
        precise = None
        if plan.precision is not None:  # an outcome without any value is not precise, however many seeds there are
            whole = set(plan.outcomes) <= set(_estimates(own))
            precise = whole and _are_precise(plan, _compared(plan, values, number))
        made.append(
            PointEstimates(
                plan.label(number), point, measured.get(number, 0), failed.get(number, 0), _estimates(own), precise
            )
        )
    return made


def _compared(plan: Plan, values: Mapping[int, Values], point: int) -> Mapping[int, Values]:
    """Return the outcomes that decide whether a combination is precise: its own; of arms, also the baseline's."""
    if not plan.arms:
        return {point: values.get(point, {})}
    return values if point == 0 else {0: values.get(0, {}), point: values.get(point, {})}


def differences(results: Results, baseline: int | None = None) -> list[Difference]:
    """Return the differences between arms or combinations and the baseline, by arm and outcome.

    Args:
        results: the results.
        baseline: a combination of a sweep; None: the baseline of the plan, without which there are no differences.
    """
    plan = results.plan if baseline is None else attrs.evolve(results.plan, baseline=baseline)
    return [] if plan.compared_with is None else differences_of(plan, values_of(results))


@attrs.frozen
class Spot:
    """One outcome of a combination or an arm, or its difference from the baseline.

    Attributes:
        point: the index of the combination or arm.
        estimate: the estimate over seeds.
        seeds: the value by seed.
    """

    point: int
    estimate: Estimate
    seeds: Mapping[int, float]


def spots_of(results: Results, outcome: str, *, differences: bool = False) -> list[Spot]:
    """Return an outcome of all combinations or arms that have it, seed by seed.

    Args:
        results: the results.
        outcome: its name.
        differences: whether to take its differences from the baseline.
    """
    plan, values = results.plan, values_of(results)
    start = plan.compared_with if differences else None
    base = {} if start is None else values.get(start, {}).get(outcome, {})
    spots = []
    for point in range(len(plan.points)):
        own = values.get(point, {}).get(outcome, {})
        if differences:
            own = {} if point == start else {seed: own[seed] - base[seed] for seed in own if seed in base}
        estimate = Estimate.of(list(own.values()))
        if estimate is not None:
            spots.append(Spot(point, estimate, own))
    return spots


Singles = Mapping[str, Mapping[str, Sequence[float]]]
"""The values of single seeds by outcome, and by the name of the combination or arm."""


def singles_of(results: Results, *, differences: bool = False) -> Singles:
    """Return the values of single seeds where there are fewer than `FEW`.

    Args:
        results: the results.
        differences: whether to take the differences from the baseline.
    """
    plan, values = results.plan, values_of(results)
    start = plan.compared_with if differences else None
    base = {} if start is None else values.get(start, {})
    singles: dict[str, dict[str, Sequence[float]]] = {}
    for point, outcomes in values.items():
        for name, own in outcomes.items() if point != start else ():
            before = base.get(name, {})
            numbers = [own[seed] - before.get(seed, 0.0) for seed in own if start is None or seed in before]
            if 0 < len(numbers) < FEW:
                singles.setdefault(name, {})[plan.label(point)] = numbers
    return singles


def reach(results: Results) -> list[ArmReach]:
    """Return the agents that each arm reached; empty for a sweep."""
    seeds: dict[int, int] = {}
    done = results.done()
    for (point, seed), status in done.items():
        compared = status == done.get((0, seed)) == "measured"
        seeds[point] = seeds.get(point, 0) + compared
    return reach_of(results.plan, seeds, results.reached()) if results.plan.arms else []


def without_effect(results: Results) -> list[str]:
    """Return what changes nothing, and is probably misspelled: varied keys, or arms with changes.

    The runs of all its values, or of the arm and the baseline, are the same in each seed, event by event.
    """
    plan = results.plan
    hashes = {(point, seed): hash for point, seed, hash in results.hashes()}
    if plan.arms:
        groups = {plan.arms[number]: [(0, number)] for number, point in enumerate(plan.points) if number and point}
    else:
        groups = {" and ".join(keys): _differing_in(keys, plan.points) for keys in _together(plan.points)}
    ineffective = []
    for what, pairs in groups.items():
        same = [
            hashes[one, seed] == hashes[other, seed]
            for seed in {seed for _, seed in hashes}
            for one, other in pairs
            if (one, seed) in hashes and (other, seed) in hashes
        ]
        if same and all(same):
            ineffective.append(what)
    return ineffective


def _together(points: Sequence[Point]) -> list[list[str]]:
    """Return the varied keys; those that change together are one entry."""
    groups: list[list[str]] = []
    for key in points[0]:
        values = {point[key] for point in points}
        for group in groups:
            pairs = {(point[group[0]], point[key]) for point in points}
            if len(pairs) == len(values) == len({point[group[0]] for point in points}) > 1:
                group.append(key)
                break
        else:
            groups.append([key])
    return groups


def _differing_in(keys: Sequence[str], points: Sequence[Point]) -> list[tuple[int, int]]:
    """Return pairs of combinations that differ in some keys alone."""
    first: dict[tuple[str, ...], int] = {}
    pairs = []
    for number, point in enumerate(points):
        rest = tuple(value for other, value in point.items() if other not in keys)
        if rest in first:
            pairs.append((first[rest], number))
        first.setdefault(rest, number)
    return pairs


def to_json(results: Results, estimates: Sequence[PointEstimates]) -> dict[str, Json]:
    """Return the results of an experiment as JSON."""
    plan = results.plan
    document: dict[str, Json] = {
        "folder": str(results.folder),
        "id": plan.id,
        "hash": results.hash(),
        "plan": plan.to_json(),
        "rows": [attrs.asdict(one) for one in estimates],
        "without_value": [{"outcome": name, "trials": count, "of": of} for name, count, of in results.without_value()],
        "problems": [{"point": point, "seed": seed, "problem": why} for point, seed, why in results.problems()],
    }
    if plan.compared_with is not None:
        document["differences"] = [attrs.asdict(one) for one in differences(results)]
    if plan.arms:
        document["reached"] = [_reach_to_json(one) for one in reach(results)]
    return document


def _reach_to_json(arm: ArmReach) -> dict[str, Any]:
    agents = [{"agent": one.agent, "seeds": len(one.times), "median_seconds": one.median} for one in arm.agents]
    return {"arm": arm.arm, "count": attrs.asdict(arm.count), "agents": agents}
