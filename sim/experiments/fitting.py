"""Fitting: the losses of its candidates, which seeds come next, and which candidates.

All of it follows from the plan and the results so far. All candidates have the same seeds (common random numbers), so
they are compared seed by seed. With one target, those that are clearly worse than the best of earlier batches
after a few seeds get no more; the best get further seeds that had no part in the search.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from sim.base.errors import RunError, UsageError
from sim.experiments.designs import variable
from sim.experiments.estimate import Estimate
from sim.experiments.plan import Plan
from sim.experiments.points import Point
from sim.experiments.results import Results
from sim.experiments.samples import Samples
from sim.experiments.search import Search
from sim.experiments.targets import Cell, Curve, FitPlan, Target, loss_of, pseudo_values

FIRST_SEEDS: Final = 3
"""After how many seeds a candidate can end early: an interval of fewer is too wide to show anything."""

MOST_BEST: Final = 10
"""The most candidates of a Pareto front that get held-out seeds."""


@attrs.frozen
class Candidate:
    """A combination that was tried.

    Attributes:
        number: its index.
        point: its values.
        seeds: the number of seeds of the search that were measured.
        losses: the loss for each target, with its interval; None: it has none yet, or never.
        held_out: the same from the held-out seeds alone.
        ended_early: whether it got fewer seeds, because it was clearly worse.
        curves: by target, what each seed has shown, the held-out ones too.
    """

    number: int
    point: Point
    seeds: int
    losses: tuple[Estimate | None, ...]
    held_out: tuple[Estimate | None, ...]
    ended_early: bool
    curves: tuple[Mapping[int, Curve], ...] = attrs.field(repr=False, eq=False)

    @property
    def values(self) -> tuple[float, ...] | None:
        """Its losses; None if one is not known."""
        known = [one.mean for one in self.losses if one is not None]
        return tuple(known) if len(known) == len(self.losses) else None


def fit_of(plan: Plan) -> FitPlan:
    """Return what a fit looks for."""
    assert plan.fit is not None, "it is a fit"
    return plan.fit


@attrs.define
class Fit:
    """What the results of a fit show so far.

    Attributes:
        plan: the plan.
        candidates: the candidates so far.
        done: the status of each trial.
        held: in how many trials the run had ended before a time of the data.
    """

    plan: Plan
    candidates: list[Candidate]
    done: Mapping[tuple[int, int], str]
    held: int

    @classmethod
    def of(cls, results: Results) -> "Fit":
        """Return it."""
        plan = results.plan
        fit, done = fit_of(plan), results.done()
        curves, held = _curves(results, fit)
        made = cls(plan, [], done, held)
        search = {*plan.some_seeds(plan.seeds[1])}
        for number, point in enumerate(plan.points):
            own = [{seed: one for seed, one in by_seed.items() if seed in search} for by_seed in curves[number]]
            later = [{seed: one for seed, one in by_seed.items() if seed not in search} for by_seed in curves[number]]
            made.candidates.append(
                Candidate(
                    number, point, sum(done.get((number, seed)) == "measured" for seed in search),
                    losses=tuple(map(made._loss, fit.targets, own)), ended_early=False,
                    held_out=tuple(map(made._loss, fit.targets, later)), curves=tuple(curves[number]),
                )
            )  # fmt: skip
        made._end_early()
        return made

    def _loss(self, target: Target, curves: Mapping[int, Curve]) -> Estimate | None:
        return loss_of(target, curves, fit_of(self.plan).loss)

    def is_done(self, number: int, count: int) -> bool:
        """Return whether so many of the first seeds of a candidate are done."""
        return all((number, seed) in self.done for seed in self.plan.some_seeds(count))

    def _end_early(self) -> None:
        """Mark the candidates that are clearly worse than the best of the batches before, after the first seeds."""
        fit, whole = fit_of(self.plan), self.plan.seeds[1]
        if len(fit.targets) > 1 or whole <= FIRST_SEEDS:
            return
        best: Candidate | None = None
        for begin in range(0, len(self.candidates), fit.batch):
            batch = self.candidates[begin : begin + fit.batch]
            if not all(self.is_done(one.number, FIRST_SEEDS) for one in batch):
                return
            for one in batch:
                if best is not None and self.is_clearly_worse(one, best, FIRST_SEEDS):
                    self.candidates[one.number] = attrs.evolve(one, ended_early=True)
            kept = [one for one in self.candidates[begin : begin + fit.batch] if not one.ended_early]
            if not all(self.is_done(one.number, whole) for one in kept):
                return
            best = min((one for one in (best, *kept) if one is not None and one.values), key=_rank, default=None)

    def is_clearly_worse(self, one: Candidate, other: Candidate, count: int | None = None) -> bool:
        """Return whether the interval of the difference of two losses, seed by seed, lies above 0, for each target.

        Args:
            one: a candidate.
            other: another one.
            count: how many of the first seeds are compared; None: all.
        """
        fit = fit_of(self.plan)
        seeds = self.plan.some_seeds(self.plan.seeds[1] if count is None else count)
        for target, own, others in zip(fit.targets, one.curves, other.curves, strict=True):
            common = [seed for seed in seeds if seed in own and seed in others]
            left, right = (
                pseudo_values(target, {seed: curves[seed] for seed in common}, fit.loss) for curves in (own, others)
            )
            difference = Estimate.of([left[seed] - right[seed] for seed in common if seed in left and seed in right])
            if difference is None or difference.half is None or difference.low <= 0:
                return False
        return True

    @property
    def tried(self) -> list[Candidate]:
        """The candidates with all seeds of the search, and with losses."""
        whole = self.plan.seeds[1]
        return [
            one for one in self.candidates
            if not one.ended_early and one.values is not None and self.is_done(one.number, whole)
        ]  # fmt: skip

    @property
    def best(self) -> list[Candidate]:
        """The candidate with the least loss; with several targets, the Pareto front: those that no other one beats."""
        found = self.tried
        if len(fit_of(self.plan).targets) == 1:
            return [min(found, key=_rank)] if found else []
        return [one for one in found if not any(_beats(other, one) for other in found)]

    def seeds(self) -> list[int]:
        """Return how many seeds each candidate needs, as far as that is known."""
        fit, whole = fit_of(self.plan), self.plan.seeds[1]
        counts = []
        for begin in range(0, len(self.candidates), fit.batch):
            batch = self.candidates[begin : begin + fit.batch]
            raced = begin > 0 and len(fit.targets) == 1 and whole > FIRST_SEEDS
            judged = not raced or all(self.is_done(one.number, FIRST_SEEDS) for one in batch)
            counts += [whole if judged and not one.ended_early else FIRST_SEEDS for one in batch]
        if len(counts) == fit.candidates and self.is_searched(counts):
            for one in self.best[:MOST_BEST]:
                counts[one.number] = whole + fit.held_out
        return counts

    def is_searched(self, counts: Sequence[int]) -> bool:
        """Return whether all trials of the candidates so far are done, so that others can be chosen."""
        return all(self.is_done(number, count) for number, count in enumerate(counts))

    def left(self) -> int:
        """Return how many trials are missing: those that are known, and all seeds of the candidates to come."""
        counts, fit = self.seeds(), fit_of(self.plan)
        known = sum(
            (number, seed) not in self.done
            for number, count in enumerate(counts) for seed in self.plan.some_seeds(count)
        )  # fmt: skip
        to_come = fit.candidates - len(counts)
        return known + to_come * self.plan.seeds[1] + (fit.held_out if to_come else 0)


def _rank(one: Candidate) -> tuple[float, int]:
    values = one.values
    assert values is not None, "it has losses"
    return values[0], one.number


def _beats(one: Candidate, other: Candidate) -> bool:
    """Return whether a candidate is at least as good in each loss, and better in one."""
    left, right = one.values, other.values
    if left is None or right is None:
        return False
    return all(a <= b for a, b in zip(left, right, strict=True)) and left != right


def _curves(results: Results, fit: FitPlan) -> tuple[list[list[dict[int, Curve]]], int]:
    """Return what each trial shows for each target, by candidate, target and seed; and how many had ended before."""
    found: list[list[dict[int, Curve]]] = [[{} for _ in fit.targets] for _ in results.plan.points]
    timed = [place for place, target in enumerate(fit.targets) if target.cells[0].seconds is not None]
    held = 0
    for point, seed, samples in results.series() if timed else ():
        for place in timed:
            cells = fit.targets[place].cells
            found[point][place][seed] = [at(samples, cell) for cell in cells]
        last = max(cell.seconds or 0.0 for place in timed for cell in fit.targets[place].cells)
        held += samples.times[-1] < last
    others = [place for place in range(len(fit.targets)) if place not in timed]
    names = [name for place in others for name in fit.targets[place].names]
    values = {(point, seed, name): value for point, seed, name, value in (results.values(names) if names else ())}
    for point, seed in (one for one, status in results.done().items() if status == "measured"):
        for place in others:
            cells = fit.targets[place].cells
            found[point][place][seed] = [values.get((point, seed, cell.name)) for cell in cells]
    return found, held


def at(samples: Samples, cell: Cell) -> float | None:
    """Return the latest sample of a metric at a time. After the end of a run, it is its last one."""
    series = samples.values.get(cell.name, ())
    found = None
    for time, value in zip(samples.times, series, strict=False):
        if time > (cell.seconds or 0.0):
            break
        found = value
    return found


class Searching:
    """The search of a fit, beside its results: it asks for candidates when all before are done.

    Args:
        results: the results so far.

    Raises:
        UsageError: if Optuna is missing.
    """

    def __init__(self, results: Results) -> None:
        self._results = results
        self._search = searched(results.plan)
        self._asked = 0

    def advance(self) -> bool:
        """Add the next candidates to the results, if those before are done; return whether some were added.

        Candidates that are on record already are asked for again, so that the search is where it was.

        Raises:
            RunError: if these are not those on record.
            UsageError: if no candidate of the first batch has a loss.
        """
        plan = self._results.plan
        fit, found = fit_of(plan), Fit.of(self._results)
        if not found.is_searched(found.seeds()):
            return False
        while self._asked < fit.candidates:
            if self._asked:
                self._tell(found.candidates[self._asked - self._batch(self._asked - 1) : self._asked], plan)
            asked = self._search.ask(min(fit.batch, fit.candidates - self._asked))
            before = plan.points[self._asked : self._asked + len(asked)]
            self._asked += len(asked)
            if not before:
                self._results.extend(asked)
                return True
            if before != asked:
                raise RunError(
                    f"the candidates in {self._results.folder} are not those that follow from its plan and results",
                    hint=f"they were chosen by optuna {fit.version}; install that version, or make a new fit",
                )
        return False

    def _batch(self, last: int) -> int:
        """Return how many candidates the batch of a candidate has."""
        fit = fit_of(self._results.plan)
        begin = last - last % fit.batch
        return min(fit.batch, fit.candidates - begin)

    def _tell(self, batch: Sequence[Candidate], plan: Plan) -> None:
        losses = [one.values for one in batch]
        if batch[0].number == 0 and not any(losses):
            raise UsageError(_why_no_loss(batch, plan), hint="see results.csv, or try the scenario with sim run")
        self._search.tell(losses)


def searched(plan: Plan) -> Search:
    """Return the search of a plan, at its beginning."""
    return Search(fit_of(plan), [variable(text) for text in plan.vary], plan.sha)


def first_candidates(plan: Plan) -> tuple[Point, ...]:
    """Return the first batch of candidates, which follows from the plan alone."""
    fit = fit_of(plan)
    return searched(plan).ask(min(fit.batch, fit.candidates))


def _why_no_loss(batch: Iterable[Candidate], plan: Plan) -> str:
    """Return for which number of the data the first candidates have none."""
    for target, place in ((one, place) for place, one in enumerate(fit_of(plan).targets)):
        for number, cell in enumerate(target.cells):
            known = [curve[number] for one in batch for curve in one.curves[place].values()]
            if all(value is None for value in known):
                when = "" if cell.seconds is None else f" at {cell.seconds:g} s"
                return f"no candidate of the first batch has a value of {cell.name}{when}, so none has a loss"
    return "no candidate of the first batch has a loss"
