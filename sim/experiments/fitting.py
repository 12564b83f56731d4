"""Fitting: the losses of its candidates, which seeds come next, and which candidates.

All of it follows from the plan and the results so far. All candidates have the same seeds (common random numbers), so
they are compared seed by seed. After a few seeds, those that are clearly worse than one of the best of earlier batches,
for each target, get no more; the best get further seeds that had no part in the search.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from sim.base.errors import RunError, UsageError
from sim.base.text import counted
from sim.experiments.designs import variable
from sim.experiments.estimate import Estimate
from sim.experiments.plan import Plan
from sim.experiments.points import Point, overrides_of
from sim.experiments.results import Results
from sim.experiments.samples import NO_SAMPLES, Samples
from sim.experiments.search import Search
from sim.experiments.series import kept_text
from sim.experiments.targets import LACKS, MOST_BEST, Cell, Curve, FitPlan, Lack, lack_of, loss_of, pseudo_values
from sim.kernel.duration import seconds_text

FIRST_SEEDS: Final = 3
"""After how many seeds a candidate can end early: an interval of fewer is too wide to show anything."""


@attrs.frozen
class TriedCombination:
    """A combination that was tried.

    Attributes:
        number: its index.
        point: its values.
        done: how many of its first seeds are done.
        seeds: the number of seeds of the search that were measured.
        failed: the number of seeds of the search whose runs failed.
        lack: why it has no loss; None: it has one, or nothing of it was run yet.
        losses: the loss for each target, with its interval; None: it has none. If a run failed, or has no value for
            some number of the data, there is none: that of the other runs would be too good.
        held_out: the same from the held-out seeds alone.
        ended_early: whether it got fewer seeds, because it was clearly worse.
        same_as: an earlier candidate with the same values, whose runs count for this one, which has none; None: there
            is none.
        curves: by target, what each seed has shown, the held-out ones too.
    """

    number: int
    point: Point
    done: int
    seeds: int
    failed: int
    lack: Lack | None
    losses: tuple[Estimate | None, ...]
    held_out: tuple[Estimate | None, ...]
    ended_early: bool
    curves: tuple[Mapping[int, Curve], ...] = attrs.field(repr=False, eq=False)
    same_as: int | None = None

    @property
    def values(self) -> tuple[float, ...] | None:
        """Its losses; None if one is not known."""
        means = [one.mean for one in self.losses if one is not None]
        return tuple(means) if len(means) == len(self.losses) else None

    def again(self, number: int) -> "TriedCombination":
        """Return a later candidate with the same values."""
        none = tuple(None for _ in self.losses)
        curves = tuple(dict[int, Curve]() for _ in self.curves)
        return attrs.evolve(self, number=number, seeds=0, failed=0, held_out=none, curves=curves, same_as=self.number)


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
        ended_before: in how many trials the run had ended before a time of the data.
        thinned: which samples were kept of long runs, in one sentence; empty if all were.
        compared: which candidates are clearly worse than others, as far as that was asked; see `clearly_worse`.
        raced: how many candidates are in batches of which it is known who ends early, and the best of these.
    """

    plan: Plan
    candidates: list[TriedCombination]
    done: Mapping[tuple[int, int], str]
    ended_before: int
    thinned: str
    compared: dict[tuple[int, int, int], tuple[bool, ...]] = attrs.field(factory=dict, repr=False)
    raced: tuple[int, Sequence[TriedCombination]] = (0, ())

    @classmethod
    def of(cls, results: Results) -> "Fit":
        """Return it. What was read and worked out before is kept with the results, so only new trials are."""
        shown: _Shown = results.kept.setdefault("fit", _Shown())
        return shown.fit(results)

    @classmethod
    def made(cls, results: Results, shown: "_Shown") -> "Fit":
        """Return it from what the trials have shown."""
        done = {one: status for one, (status, _) in shown.seals.items()}
        steps = [*shown.steps.values()]
        made = cls(
            results.plan,
            [],
            done,
            ended_before=len(shown.ended_before),
            thinned=kept_text(steps),
            compared=shown.compared,
            raced=shown.raced,
        )
        none = [dict[int, Curve]() for _ in fit_of(results.plan).targets]
        first: dict[tuple[tuple[str, str], ...], int] = {}
        for number, point in enumerate(results.plan.points):
            before = first.setdefault(tuple(point.items()), number)
            if before != number and results.plan.answers != "fresh":
                made.candidates.append(made.candidates[before].again(number))
                continue
            if number not in shown.candidates:
                curves = shown.curves.get(number) or none
                shown.candidates[number] = made._candidate(number, point, curves)
            made.candidates.append(shown.candidates[number])
        made._end_early()
        for one in made.candidates[shown.raced[0] : made.raced[0]]:
            if one.same_as is None:
                shown.candidates[one.number] = one
        shown.raced = made.raced
        return made

    def _candidate(self, number: int, point: Point, curves: Sequence[Mapping[int, Curve]]) -> TriedCombination:
        fit = fit_of(self.plan)
        search = {*self.plan.some_seeds(self.plan.seeds[1])}
        own = [{seed: one for seed, one in by_seed.items() if seed in search} for by_seed in curves]
        later = [{seed: one for seed, one in by_seed.items() if seed not in search} for by_seed in curves]
        every = self.plan.some_seeds(self.plan.seeds[1] + fit.held_out)
        failed = [seed for seed in every if self.done.get((number, seed), "measured") != "measured"]
        in_search = sum(seed in search for seed in failed)
        lacks = (lack_of(target, runs, fit.loss) for target, runs in zip(fit.targets, own, strict=True) if runs)
        done = next((turn for turn, seed in enumerate(every) if (number, seed) not in self.done), len(every))
        return TriedCombination(
            number,
            point,
            done,
            seeds=max(map(len, own)),
            failed=in_search,
            lack="failed" if in_search else next((one for one in lacks if one is not None), None),
            losses=self._losses(own, whole=not in_search),
            ended_early=False,
            held_out=self._losses(later, whole=len(failed) == in_search),
            curves=tuple(map(dict, curves)),
        )

    def _losses(self, runs: Sequence[Mapping[int, Curve]], *, whole: bool) -> tuple[Estimate | None, ...]:
        """Return the loss for each target; none if runs failed."""
        fit = fit_of(self.plan)
        pairs = zip(fit.targets, runs, strict=True)
        return tuple(loss_of(target, own, fit.loss) if whole else None for target, own in pairs)

    def is_done(self, number: int, count: int) -> bool:
        """Return whether a number of the first seeds of a candidate are done, or it needs none."""
        one = self.candidates[number]
        return one.same_as is not None or one.done >= count

    def _end_early(self) -> None:
        """Mark the candidates that are clearly worse than one of the best of the batches before, for each target."""
        fit, whole = fit_of(self.plan), self.plan.seeds[1]
        first, best = self.raced
        for begin in range(first, len(self.candidates) if whole > FIRST_SEEDS else 0, fit.batch):
            batch = self.candidates[begin : begin + fit.batch]
            if not all(self.is_done(one.number, FIRST_SEEDS) for one in batch):
                return
            for one in batch:
                if any(all(self.clearly_worse(one, other, FIRST_SEEDS)) for other in best):
                    self.candidates[one.number] = attrs.evolve(one, ended_early=True)
            kept = [one for one in self.candidates[begin : begin + fit.batch] if not one.ended_early]
            kept = [one for one in kept if one.same_as is None]
            if not all(self.is_done(one.number, whole) for one in kept):
                return
            best = _front([*best, *kept])
            self.raced = begin + fit.batch, best

    def clearly_worse(
        self, one: TriedCombination, other: TriedCombination, count: int | None = None
    ) -> tuple[bool, ...]:
        """Return for each target whether the interval of the difference of two losses, seed by seed, lies above 0.

        A run that failed, or has no value, shows no difference.

        Args:
            one: a candidate.
            other: another one.
            count: how many of the first seeds are compared; None: all of the search.
        """
        fit = fit_of(self.plan)
        seeds = self.plan.some_seeds(self.plan.seeds[1] if count is None else count)
        if any(seed not in curves for pair in (one, other) for curves in pair.curves for seed in seeds):
            return (False,) * len(fit.targets)
        key = (one.number, other.number, len(seeds))
        if key not in self.compared:
            worse = []
            for target, *pair in zip(fit.targets, one.curves, other.curves, strict=True):
                left, right = (pseudo_values(target, {seed: own[seed] for seed in seeds}, fit.loss) for own in pair)
                difference = Estimate.of([left[seed] - right[seed] for seed in seeds]) if left and right else None
                worse.append(difference is not None and difference.half is not None and difference.low > 0)
            self.compared[key] = tuple(worse)
        return self.compared[key]

    def is_finished(self, one: TriedCombination) -> bool:
        """Return whether all seeds of the search that a candidate gets are done."""
        return self.is_done(one.number, FIRST_SEEDS if one.ended_early else self.plan.seeds[1])

    @property
    def judged(self) -> list[TriedCombination]:
        """The candidates with all seeds that they get in the search, and with losses."""
        return [one for one in self.candidates if one.values and one.same_as is None and self.is_finished(one)]

    @property
    def best(self) -> list[TriedCombination]:
        """The candidate with the least loss; with several targets, the Pareto front: those that no other one beats."""
        return _front([one for one in self.judged if not one.ended_early])

    def seeds(self) -> list[int]:
        """Return how many seeds each candidate needs, as far as that is known."""
        fit, whole = fit_of(self.plan), self.plan.seeds[1]
        counts = []
        for begin in range(0, len(self.candidates), fit.batch):
            batch = self.candidates[begin : begin + fit.batch]
            raced = begin > 0 and whole > FIRST_SEEDS
            undecided = raced and not all(self.is_done(one.number, FIRST_SEEDS) for one in batch)
            usual = FIRST_SEEDS if undecided else whole
            counts += [FIRST_SEEDS if one.ended_early else usual if one.same_as is None else 0 for one in batch]
        if self._is_over(counts):
            for one in self.best[:MOST_BEST]:
                counts[one.number] = whole + fit.held_out
        return counts

    def closed(self) -> set[tuple[int, int]]:
        """Return the trials from which others follow, so that they are not tried again.

        Later candidates follow from those of the batches before, and who gets held-out seeds from all of the search.
        """
        fit, whole = fit_of(self.plan), self.plan.seeds[1]
        search = {*self.plan.some_seeds(whole)}
        is_held_out = any(seed not in search for _, seed in self.done)
        last = (len(self.candidates) - 1) // fit.batch * fit.batch
        return {(number, seed) for number, seed in self.done if seed in search and (is_held_out or number < last)}

    def _is_over(self, counts: Sequence[int]) -> bool:
        """Return whether all trials of the search are done."""
        return len(counts) == fit_of(self.plan).candidates and self.is_searched(counts)

    def is_searched(self, counts: Sequence[int]) -> bool:
        """Return whether all trials of the candidates so far are done, so that others can be chosen."""
        return all(self.is_done(number, count) for number, count in enumerate(counts))

    def left(self) -> int:
        """Return how many trials are missing at most.

        These are the known ones, all seeds of candidates that may end early or are to come, and the held-out seeds.
        """
        fit, whole = fit_of(self.plan), self.plan.seeds[1]
        counts = self.seeds()
        held_out = 0 if self._is_over([min(count, whole) for count in counts]) else fit.most_best * fit.held_out
        of_candidates = sum(
            (one.number, seed) not in self.done
            for one, count in zip(self.candidates, counts, strict=True)
            if one.same_as is None and one.done < whole + fit.held_out
            for seed in self.plan.some_seeds(count if one.ended_early else max(count, whole))
        )
        return of_candidates + (fit.candidates - len(counts)) * whole + held_out


def _front(candidates: Sequence[TriedCombination]) -> list[TriedCombination]:
    """Return those that no other one beats; with one target, the first one with the least loss."""
    front: list[TriedCombination] = []
    for one in candidates:
        if one.values is not None and not any(_beats(other, one) for other in front):
            front = [other for other in front if not _beats(one, other)]
            front.append(one)
    return front[:1] if front and len(front[0].losses) == 1 else front


def _beats(one: TriedCombination, other: TriedCombination) -> bool:
    """Return whether a candidate is at least as good in each loss, and better in one."""
    left, right = one.values, other.values
    if left is None or right is None:
        return False
    return all(a <= b for a, b in zip(left, right, strict=True)) and left != right


@attrs.define
class _Shown:
    """What the trials of a fit have shown, each read once.

    Later runs, which may be longer, change nothing of what a run has shown: the candidates after it followed from it.

    Attributes:
        seals: the status and the seal of each trial that was read.
        curves: by candidate, target and seed, of each run that was measured.
        ended_before: the trials whose run had ended before a time of the data.
        steps: which samples were kept of each run; see `Samples.step`.
        candidates: those whose trials have not changed since.
        compared, raced: see `Fit`.
        last: the fit that was made last; None: trials or candidates were added since.
    """

    seals: dict[tuple[int, int], tuple[str, str]] = attrs.field(factory=dict)
    curves: dict[int, list[dict[int, Curve]]] = attrs.field(factory=dict)
    ended_before: set[tuple[int, int]] = attrs.field(factory=set)
    steps: dict[tuple[int, int], int] = attrs.field(factory=dict)
    candidates: dict[int, TriedCombination] = attrs.field(factory=dict)
    compared: dict[tuple[int, int, int], tuple[bool, ...]] = attrs.field(factory=dict)
    raced: tuple[int, Sequence[TriedCombination]] = (0, ())
    last: Fit | None = None

    def fit(self, results: Results) -> Fit:
        """Return the fit of all trials so far."""
        seals = results.seals()
        if any(seals.get(one) != before for one, before in self.seals.items()):
            results.kept["fit"] = fresh = _Shown()  # a trial was replaced
            return fresh.fit(results)
        new = [one for one in seals if one not in self.seals]
        if new:
            self._read(results, [one for one in new if seals[one][0] == "measured"])
            for number, _ in new:
                self.candidates.pop(number, None)
        if new or self.last is None or len(self.last.candidates) < len(results.plan.points):
            self.seals = seals
            self.last = Fit.made(results, self)
        return self.last

    def _read(self, results: Results, new: Sequence[tuple[int, int]]) -> None:
        """Read trials that were measured."""
        fit, first = fit_of(results.plan), min((point for point, _ in new), default=0)
        times = [cell.seconds for target in fit.targets for cell in target.cells if cell.seconds is not None]
        names = [cell.name for target in fit.targets for cell in target.cells if cell.seconds is None]
        trials = results.series(first) if times and new else ()
        series = {(point, seed): samples for point, seed, samples in trials}
        outcomes = results.values(names, first) if names and new else ()
        values = {(point, seed, name): value for point, seed, name, value in outcomes}
        for point, seed in new:
            samples = series.get((point, seed), NO_SAMPLES)
            self.steps[point, seed] = samples.step
            if times and (not samples.times or samples.times[-1] < max(times)):
                self.ended_before.add((point, seed))
            own = self.curves.setdefault(point, [{} for _ in fit.targets])
            for place, target in enumerate(fit.targets):
                own[place][seed] = [
                    values.get((point, seed, cell.name)) if cell.seconds is None else at(samples, cell)
                    for cell in target.cells
                ]


def at(samples: Samples, cell: Cell) -> float | None:
    """Return the latest sample of a metric at a time. After the end of a run, it is its last one."""
    series = samples.values.get(cell.name, ())
    latest = None
    for time, value in zip(samples.times, series, strict=False):
        if time > (cell.seconds or 0.0):
            break
        latest = value
    return latest


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
            RunError: if these are not those on record, or no candidate of the first batch has a loss because runs
                failed.
            UsageError: if none of them has one because of the data.
        """
        plan = self._results.plan
        fit, so_far = fit_of(plan), Fit.of(self._results)
        if not so_far.is_searched(so_far.seeds()):
            return False
        while self._asked < fit.candidates:
            if self._asked:
                self._tell(so_far.candidates[(self._asked - 1) // fit.batch * fit.batch : self._asked])
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

    def _tell(self, batch: Sequence[TriedCombination]) -> None:
        losses = [one.values for one in batch]
        if batch[0].number == 0 and not any(losses):
            raise _without_loss(batch, self._results)
        self._search.tell(losses)


def searched(plan: Plan) -> Search:
    """Return the search of a plan, at its beginning."""
    return Search(fit_of(plan), [variable(text) for text in plan.vary], plan.sha)


def first_candidates(plan: Plan) -> tuple[Point, ...]:
    """Return the first batch of candidates, which follows from the plan alone."""
    fit = fit_of(plan)
    return searched(plan).ask(min(fit.batch, fit.candidates))


def _without_loss(batch: Sequence[TriedCombination], results: Results) -> RunError | UsageError:
    """Return why no candidate of the first batch has a loss, as an error."""
    plan, failed = results.plan, sum(one.failed for one in batch)
    if failed and all(one.lack == "failed" for one in batch):
        number, seed, why = results.problems()[0]
        runs = counted(failed + sum(one.seeds for one in batch), "run")
        options = "".join(f" --set {one}" for one in (*plan.overrides, *overrides_of(plan.points[number])))
        options += "" if plan.until is None else f" --until {plan.until}"
        return RunError(
            f"{failed} of {runs} of the first batch failed, so no candidate has a loss; first seed {seed}: {why}",
            hint=f"see why: sim run {plan.file} --seed {seed}{options}",
        )
    hint = "try the scenario with sim run, or take other data"
    return UsageError(f"no candidate of the first batch has a loss: {_lacking(batch, plan)}", hint=hint)


def _lacking(batch: Iterable[TriedCombination], plan: Plan) -> str:
    """Return what the first candidates without failed runs lack."""
    fit = fit_of(plan)
    own = [one for one in batch if one.lack != "failed"]
    for place, target in enumerate(fit.targets):
        for number, cell in enumerate(target.cells):
            shown = [curve[number] for one in own for curve in one.curves[place].values()]
            missing = sum(value is None for value in shown)
            when = "" if cell.seconds is None else f" at {seconds_text(cell.seconds)}"
            if missing:
                return f"{cell.name}{when} has no value in {missing} of {counted(len(shown), 'run')}"
            if fit.loss == "rmsle" and any(value is not None and value < 0 for value in shown):
                return f"{cell.name}{when} is below 0 in some runs, of which {LACKS['negative']}"
    return LACKS["too large"]
