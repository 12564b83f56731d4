"""`turning_point`: when the outcome of a recorded run became likely, and at which steps that changed."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

import attrs

from sim.base.text import plain
from sim.experiments.attribution.analysis import AttributionOptions, session
from sim.experiments.attribution.curve import Jump, Passed, Point, TurningSearch
from sim.experiments.attribution.task import LATE, EventBetween, Future
from sim.kernel import to_seconds, to_text
from sim.runner.event_loop import with_definitions
from sim.runner.options import taking
from sim.runner.plain import StepMoment

if TYPE_CHECKING:
    from sim.base.pages import Chart, Table

_QUIET: Final = ("agent.state", "metric.sample", "action.sleep", "action.noop")
"""Topics that rarely say why: they are left out where there are others."""

_SHOWN: Final = 6  # events and variables of a jump in a text


@attrs.frozen(repr=False)
class TurningPoints:
    """How likely a condition was at moments of a run.

    Attributes:
        run: the name of the run.
        condition: the condition.
        outcome: whether it is true of the run itself.
        points: the estimates, in the order of their moments; the last one is the end, at which the outcome is known.
        passed: when the outcome of the run became likely for good, by level.
        jumps: the steps at which the probability changes most, tested again with fresh seeds.
        futures: how many futures were carried out.
        unknown: how many of them failed or do not show the outcome, by problem. They count as unknown, not as false.
        way: how futures were carried out.
        answers: what was done about answers of models, as sentences; empty: there are none.
        cut: what the time limit prevented, as a sentence; empty: nothing.
    """

    run: str
    condition: str
    outcome: bool
    points: tuple[Point, ...]
    passed: tuple[Passed, ...]
    jumps: tuple[Jump, ...]
    futures: int
    unknown: dict[str, int]
    way: str
    answers: str
    cut: str = ""

    @property
    def confirmed(self) -> list[Jump]:
        """The jumps that fresh seeds confirm."""
        return [jump for jump in self.jumps if jump.confirmed]

    def plot(self) -> "Chart":
        """Return a chart of the probability over simulated time, with its interval."""
        from sim.base.pages import line_chart  # a command needs no page

        times = [to_seconds(point.moment.time_ns) for point in self.points]
        lines = {
            "P": [point.p for point in self.points],
            "low": [point.interval[0] if point.interval else point.p for point in self.points],
            "high": [point.interval[1] if point.interval else point.p for point in self.points],
        }
        return line_chart(f"P({self.condition})", times, lines)

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON-like mapping."""
        return {
            "run": self.run,
            "condition": self.condition,
            "outcome": self.outcome,
            "points": [point_json(point) for point in self.points],
            "passed": [
                {
                    "level": one.level,
                    "last_below": None if one.last_below is None else moment_json(one.last_below),
                    "first_above": moment_json(one.first_above),
                }
                for one in self.passed
            ],
            "jumps": [jump_json(jump) for jump in self.jumps],
            "futures": self.futures,
            "unknown": self.unknown,
            "way": self.way,
            "answers": self.answers,
            "cut": self.cut,
        }

    def table(self) -> "Table":
        """Return the curve as a table."""
        from sim.base.pages import Table

        return Table(("moment", "P", "95 %", "futures", "unknown"), list(rows_of(self.points)))

    def sentences(self) -> list[str]:
        """Return what was found, a sentence each."""
        was = "is" if self.outcome else "is not"
        sentences = [f"In {self.run}, {self.condition} {was} true."]
        way = "this outcome" if self.outcome else "that it is not"
        for one in self.passed:
            if one.last_below is None:
                sentences.append(f"P({way}) was {one.level:g} or more from the start.")
            else:
                between = f"between {moment_text(one.last_below)} and {moment_text(one.first_above)}"
                sentences.append(f"P({way}) passed {one.level:g} for good {between}.")
        sentences += map(jump_text, self.jumps)
        if not self.jumps and len(self.points) > 1:
            sentences.append("Between no two neighbouring moments does P change by 0.1 or more.")
        if self.unknown:
            count = sum(self.unknown.values())
            worst = max(self.unknown.items(), key=lambda item: item[1])[0]
            sentences.append(f"{count} of {self.futures} futures are unknown, for example: {plain(worst)}.")
        return sentences + [one for one in (self.cut, self.answers) if one]

    def __repr__(self) -> str:
        return "\n".join((*self.sentences(), self.table().text()))

    def _repr_html_(self) -> str:
        from sim.base.pages.markup import tag

        return tag("div", [self.plot().svg, [tag("p", one) for one in self.sentences()], self.table().html()])


@attrs.frozen(kw_only=True)
class TurningOptions(AttributionOptions):
    """How turning points are looked for."""


@taking(TurningOptions)
@with_definitions
def turning_point(run: str | PathLike[str], condition: str, options: TurningOptions) -> "TurningPoints | None":
    """Estimate how likely a condition was at each moment of a recorded run, and which steps changed that.

    P(condition | what had happened until a moment) is estimated by futures: the run is repeated up to the moment, and
    continued with other random draws. It is about what the model makes likely, given everything until then, also draws
    that have no effect yet. The same run and options give the same result.

    Args:
        run: the run: its folder, or its name in the folder `runs`.
        condition: an outcome compared with a number, such as `last('R') > 20`.
        options: see `TurningOptions`.

    Returns:
        The curve and its jumps; None if `confirm` refused.

    Raises:
        UsageError: if the condition is none of the run, or its agents are at different times (`execution.sync`).
        RunError: if the run has not finished, or cannot be repeated.
    """
    with session(run, condition, options, condition=True) as open_:
        if open_ is None:
            return None
        search = TurningSearch(open_.futures, open_.instants, open_.stored.info.seed, options.budget, open_.start)
        search.explore()
        jumps, points = search.jumps(), search.points()
        problems = problems_of([*search.futures_at.values(), *search.fresh.values()])
        return TurningPoints(
            run=open_.stored.path.name,
            condition=open_.target.text,
            outcome=bool(open_.futures.own.value),
            points=tuple(points),
            passed=tuple(search.passed()),
            jumps=tuple(jumps),
            futures=open_.futures.carried_out,
            unknown=problems,
            way=open_.futures.way,
            answers=open_.answers,
            cut=open_.cut(options, ["the search for steps"] if search.cut else []),
        )


def problems_of(futures: Iterable[Sequence[Future]]) -> dict[str, int]:
    """Return how many futures are not known, by problem."""
    return dict(Counter(one.problem for row in futures for one in row if one.problem and one != LATE))


def rows_of(points: Sequence[Point]) -> Iterator[tuple[object, ...]]:
    """Yield the rows of a table of estimates."""
    for point in points[:-1]:
        among = "" if point.interval is None else "{:.4g} to {:.4g}".format(*point.interval)
        share = "unknown" if point.p is None else f"{point.p:.4g}"
        yield moment_text(point.moment), share, among, point.n, point.unknown
    yield "end", f"{points[-1].p:.4g}", "as it came out", "", ""


def moment_text(moment: StepMoment) -> str:
    """Return a moment as a text: its time, and how many steps of that instant have run."""
    time = to_text(moment.time_ns)
    return f"{time}, after {moment.step} step{'s' if moment.step > 1 else ''}" if moment.step else time


def jump_text(jump: Jump, what: str = "P") -> str:
    """Return what is known about a jump of P, or of the expected value of an outcome, as one sentence."""
    before, after = jump.before, jump.after
    where = moment_text(before.moment)
    if jump.steps is None:
        where = f"Between {where} and {moment_text(after.moment)}"
    else:
        where = f"At {where}, {'at one step' if jump.steps == 1 else f'within {jump.steps} steps'}"
    happened = "; ".join(_happened(jump)) or "no event is recorded"
    if before.p is None or after.p is None:
        untold = (
            "of the fresh futures none is known" if before.unknown + after.unknown else "no time or no future was left"
        )
        return f"{where}, {what} may change; {untold}, so this was not tested: {happened}."
    changed = f"from {before.p:.3g} to {after.p:.3g}"
    test = f"p = {jump.p_value:.2g} with {min(before.n, after.n)} fresh pairs"
    sure = f"confirmed, {test}" if jump.confirmed else f"not confirmed, {test}"
    return f"{where}, {what} changes {changed} ({sure}): {happened}."


def _happened(jump: Jump) -> list[str]:
    shown = [one for one in jump.events if one.topic not in _QUIET]
    shown = shown or ([] if jump.assigned else list(jump.events))
    texts = [_event_text(one) for one in shown[:_SHOWN]]
    if len(shown) > _SHOWN:
        texts.append(f"and {len(shown) - _SHOWN} more events")
    texts += [plain(f"{one.agent}.{one.key} = {one.after[:40]}") for one in jump.assigned[:_SHOWN]]
    if len(jump.assigned) > _SHOWN:
        texts.append(f"and {len(jump.assigned) - _SHOWN} more variables")
    return texts


def _event_text(event: EventBetween) -> str:
    return plain(f"event {event.number} {event.topic} of {event.actor} {event.text[:80]}")


def moment_json(moment: StepMoment) -> dict[str, Any]:
    """Return a moment as a JSON-like mapping."""
    return {"seconds": to_seconds(moment.time_ns), "step": moment.step}


def jump_json(jump: Jump) -> dict[str, Any]:
    """Return a jump as a JSON-like mapping."""
    return {
        "before": point_json(jump.before),
        "after": point_json(jump.after),
        "steps": jump.steps,
        "p_value": jump.p_value,
        "confirmed": jump.confirmed,
        "events": [attrs.asdict(one) for one in jump.events],
        "assigned": [attrs.asdict(one) for one in jump.assigned],
    }


def point_json(point: Point) -> dict[str, Any]:
    """Return an estimate as a JSON-like mapping."""
    low, high = point.interval or (None, None)
    return {
        **moment_json(point.moment),
        "p": point.p,
        "low": low,
        "high": high,
        "futures": point.n,
        "unknown": point.unknown,
    }
