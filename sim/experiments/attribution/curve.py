"""The curve of a run: how likely an outcome was at each moment, and the steps that changed that (turning points).

The probability of an outcome, given what has happened until a moment, is estimated by futures with new chances. All
moments have the same seeds, so neighbours differ by what happened between them, and less by chance. Where the estimates
differ most, moments in between are added, down to single steps. The largest jumps are tested again with other seeds,
because the largest of many estimates is too large on average.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import attrs

from sim.experiments.attribution.significance import holm, sign_test, wilson
from sim.experiments.attribution.task import LATE, Assigned, EventBetween, Future, Futures, FuturesTask
from sim.experiments.estimate import Estimate
from sim.kernel.rng import derive
from sim.runner.plain import StepMoment

LEVELS: Final = (0.5, 0.95)
"""The probabilities of which it is said when they were passed."""

JUMPS: Final = 3
"""The most steps that are tested again."""

LEAST_JUMP: Final = 0.1
"""Smaller differences between neighbouring estimates are not looked at more closely."""

GRID: Final = 9
"""The moments with which the search begins, spread evenly over the instants that have events."""

_SEEDS: Final = 2**31


@attrs.frozen
class Point:
    """The estimate at one moment.

    Attributes:
        moment: the moment.
        n: how many futures are known.
        unknown: how many have failed, or do not show the outcome.
        p: the share of them in which a condition is true; of a number: its mean. None: no future is known.
        interval: the 95 % interval: of a share that of Wilson, of a mean that of Student. None: there is none.
    """

    moment: StepMoment
    n: int
    unknown: int
    p: float | None
    interval: tuple[float, float] | None


@attrs.frozen
class Jump:
    """A passage between two neighbouring moments at which the probability changes.

    Attributes:
        before, after: the estimates with fresh seeds.
        steps: how many steps the passage has; None: it has several instants, which the budget did not divide.
        p_value: of the exact test of the pairs.
        confirmed: whether it is significant among all jumps tested (Holm).
        events: what happened in it.
        assigned: the state variables that it changed.
    """

    before: Point
    after: Point
    steps: int | None
    p_value: float
    confirmed: bool
    events: tuple[EventBetween, ...]
    assigned: tuple[Assigned, ...]

    @property
    def change(self) -> float:
        """How much the probability changes; 0 if it is not known."""
        return _change(self.before, self.after)


@attrs.frozen
class Passed:
    """When the outcome of the run became likely for good.

    Attributes:
        level: the probability.
        last_below: the latest moment at which the estimate was below; None: it never was.
        first_above: the first moment from which on it never was.
    """

    level: float
    last_below: StepMoment | None
    first_above: StepMoment


@attrs.define
class TurningSearch:
    """The search for turning points of one run.

    Args:
        futures: carries out futures.
        instants: the times at which the run has events, ascending, in nanoseconds.
        seed: the seed of the run, from which those of futures follow.
        budget: the most futures.
        start: the first moment at which futures can begin.
        is_condition: whether the target is true or false, and not a number.

    Attributes:
        scale: the spread of the outcome, of which changes are shares; 1 for a condition.
        begun: how many futures had been carried out before.
        n: the futures of each moment.
        futures_at: the outcomes of the futures of each moment.
        fresh: those with other seeds, beside the largest jumps.
        cut: whether there was no time for a future that the search would have made.
    """

    futures: Futures
    instants: Sequence[int]
    seed: int
    budget: int
    start: StepMoment
    is_condition: bool = True
    scale: float = 1.0
    begun: int = 0
    n: int = 0
    futures_at: dict[StepMoment, list[Future]] = attrs.field(factory=dict)
    fresh: dict[StepMoment, list[Future]] = attrs.field(factory=dict)
    steps: dict[int, int] = attrs.field(factory=dict)
    cut: bool = False

    def __attrs_post_init__(self) -> None:
        self.n = max(3, min(200, self.budget // 50))
        self.begun = self.futures.carried_out

    @property
    def end(self) -> StepMoment:
        """The moment after everything."""
        return StepMoment(self.instants[-1] + 1)

    @property
    def left(self) -> int:
        """How many futures may still be carried out."""
        return self.budget - (self.futures.carried_out - self.begun)

    def seeds(self, purpose: str, n: int) -> tuple[int, ...]:
        """Return the seeds of futures."""
        return tuple(derive(purpose, self.seed, number) % _SEEDS for number in range(n))

    def explore(self) -> None:
        """Estimate at a grid of moments, then between those that differ most, while the budget allows."""
        reserve = self.budget // 4
        self.add([self.start, *(one for one in grid_of(self.instants) if one > self.start)])
        if not self.is_condition:
            values = [one.value for futures in self.futures_at.values() for one in futures if one.value is not None]
            self.scale = max((*values, self._own())) - min((*values, self._own())) or 1.0
        while 2 * self.n <= self.left - reserve and not self.cut:
            chosen = sorted(self._open(), reverse=True)[:2]
            if not chosen:
                return
            self.add([middle for _, _, middle in chosen])

    def add(self, moments: Sequence[StepMoment]) -> None:
        """Estimate at further moments."""
        new = [moment for moment in dict.fromkeys(moments) if moment not in self.futures_at]
        seeds = self.seeds("turning point", self.n)
        for moment, futures in zip(new, self._values(new, seeds), strict=True):
            if any(one != LATE for one in futures):
                self.futures_at[moment] = futures

    def _values(self, moments: Sequence[StepMoment], seeds: tuple[int, ...]) -> list[list[Future]]:
        """Return the futures at moments, and note whether there was no time for some."""
        values = self.futures.values([FuturesTask(one, seeds) for one in moments])
        self.cut = self.cut or any(LATE in row for row in values)
        return values

    def points(self) -> list[Point]:
        """Return the estimates in the order of their moments; at the end, the outcome of the run itself."""
        points = [self.point(moment, self.futures_at[moment]) for moment in sorted(self.futures_at)]
        return [*points, Point(self.end, 1, 0, self._own(), None)]

    def point(self, moment: StepMoment, futures: Sequence[Future]) -> Point:
        """Return the estimate that futures give."""
        return point_of(moment, futures, is_condition=self.is_condition)

    def _own(self) -> float:
        own = self.futures.own.value
        assert own is not None, "checked before"
        return own

    def passed(self) -> list[Passed]:
        """Return when the outcome of the run became likely for good."""
        points, passed = [point for point in self.points() if point.p is not None], []
        for level in LEVELS if len(points) > 1 else ():
            below = [place for place, point in enumerate(points[:-1]) if self._own_way(point) < level]
            last = below[-1] if below else -1
            passed.append(Passed(level, points[last].moment if below else None, points[last + 1].moment))
        return passed

    def jumps(self) -> list[Jump]:
        """Return the largest changes between neighbouring moments, tested again with fresh seeds."""
        points = self.points()
        pairs = [(abs(_change(a, b)), a, b) for a, b in pairwise(points)]
        large = [pair for pair in pairs if pair[0] >= LEAST_JUMP * self.scale]
        pairs = sorted(large, key=lambda pair: -pair[0])[:JUMPS]
        if not pairs:
            return []
        n = min(4 * self.n, max(0, self.left) // (2 * len(pairs)))
        seeds = self.seeds("confirmation", n)
        moments = [point.moment for pair in pairs for point in pair[1:] if point.moment < self.end]
        self.fresh |= zip(moments, self._values(moments, seeds), strict=True)
        fresh = dict(self.fresh)
        fresh[self.end] = [self.futures.own] * n
        tests = [sign_test(_differences(fresh[a.moment], fresh[b.moment])) for _, a, b in pairs]
        jumps = []
        for (_, a, b), value, confirmed in zip(pairs, tests, holm(tests), strict=True):
            passage = self.futures.between(a.moment, b.moment)
            before, after = self.point(a.moment, fresh[a.moment]), self.point(b.moment, fresh[b.moment])
            steps = self._steps_between(a.moment, b.moment)
            jumps.append(
                Jump(
                    before,
                    after,
                    steps=steps,
                    p_value=value,
                    confirmed=confirmed,
                    events=passage.events,
                    assigned=passage.assigned,
                )
            )
        return sorted(jumps, key=lambda jump: jump.before.moment)

    # -- where to look

    def _open(self) -> Iterator[tuple[float, int, StepMoment]]:
        """Yield what lies between neighbours that differ: how much, how many instants, and the moment in the middle."""
        points = self.points()
        for a, b in pairwise(points):
            change = abs(_change(a, b))
            crossed = self.is_condition and any(
                (self._own_way(a) < level) != (self._own_way(b) < level) for level in LEVELS
            )
            if change < LEAST_JUMP * self.scale and not (crossed and change > 0):
                continue
            middle = self._middle(a.moment, b.moment)
            if middle is not None:
                yield change, self._place(b.moment) - self._place(a.moment), middle

    def _middle(self, a: StepMoment, b: StepMoment) -> StepMoment | None:
        """Return a moment between two others; None: there is no step between them but one."""
        first, last = self._place(a), self._place(b)
        if a.step and last > first:  # the rest of an instant
            steps = self._steps(a.time_ns)
            if a.step + 1 < steps:
                return StepMoment(a.time_ns, (a.step + steps) // 2)
            first += 1
            if first < last or b.step:
                return StepMoment(self.instants[first])
            return None
        if last - first > 1:
            return StepMoment(self.instants[(first + last) // 2])
        if last - first == 1 and b.step:
            return StepMoment(self.instants[last])
        steps = b.step if b.time_ns == a.time_ns else self._steps(self.instants[first])
        middle = (a.step + steps) // 2
        return StepMoment(self.instants[first], middle) if a.step < middle < steps else None

    def _place(self, moment: StepMoment) -> int:
        return bisect_left(self.instants, moment.time_ns)

    def _steps(self, time_ns: int) -> int:
        if not self.futures.within:
            return 1
        if time_ns not in self.steps:
            self.steps[time_ns] = self.futures.steps(time_ns)
        return self.steps[time_ns]

    def _steps_between(self, a: StepMoment, b: StepMoment) -> int | None:
        if self._place(b) - self._place(a) + (b.step > 0) > 1:
            return None
        if a.time_ns == b.time_ns:
            return b.step - a.step
        return self._steps(self.instants[self._place(a)]) - a.step

    def _own_way(self, point: Point) -> float:
        """Return the probability that the outcome is as it was in the run."""
        p = point.p
        return 0.0 if p is None else p if self.futures.own.value else 1 - p


def grid_of(instants: Sequence[int], count: int = GRID) -> list[StepMoment]:
    """Return moments that are spread evenly over instants."""
    return [StepMoment(time) for time in dict.fromkeys(instants[len(instants) * k // count] for k in range(count))]


def point_of(moment: StepMoment, futures: Sequence[Future], *, is_condition: bool) -> Point:
    """Return the estimate that futures give."""
    outcomes = [one.value for one in futures if one.value is not None]
    unknown = sum(one.value is None and one != LATE for one in futures)
    if is_condition:
        return Point(
            moment,
            len(outcomes),
            unknown,
            sum(outcomes) / len(outcomes) if outcomes else None,
            wilson(sum(outcomes), len(outcomes)),
        )
    mean = Estimate.of(outcomes)
    if mean is None:
        return Point(moment, 0, unknown, None, None)
    return Point(moment, mean.n, unknown, mean.mean, None if mean.half is None else (mean.low, mean.high))


def _change(a: Point, b: Point) -> float:
    return 0.0 if a.p is None or b.p is None else b.p - a.p


def _differences(before: Sequence[Future], after: Sequence[Future]) -> list[float]:
    pairs = zip(before, after, strict=True)
    return [b.value - a.value for a, b in pairs if a.value is not None and b.value is not None]
