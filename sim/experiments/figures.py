"""The charts of an experiment: outcomes over what was varied, differences between arms, agents reached."""

from collections.abc import Iterator, Mapping, Sequence

import attrs

from sim.experiments.arms import ArmReach, Difference
from sim.experiments.charts import Bar, ChartLine, Drawing, areas, bands, bars, dots, lines, number, written
from sim.experiments.estimate import Estimate
from sim.experiments.experiment import PointEstimates
from sim.experiments.plan import Plan
from sim.experiments.points import as_number, label_of, short
from sim.experiments.series import Band

_BARS, _STEPS = 24, 400
_LINES = 8  # with their bands, more would cover each other
_UNITS = ((86400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"))
_COLOURS = tuple(f"var(--c{index})" for index in (0, 1, 2, 3, 5, 12, 4, 6, 7, 8, 9, 10, 11))


def outcome_drawings(
    rows: Sequence[PointEstimates], name: str, singles: Mapping[str, Sequence[float]] | None = None
) -> Iterator[tuple[str, Drawing]]:
    """Yield the charts of an outcome, each with a note: over each key with numbers, else as bars.

    Args:
        rows: the combinations, or the arms.
        name: the name of the outcome.
        singles: the values of single seeds by label, which are drawn in place of the interval; see `singles_of`.
    """
    few = singles or {}
    valued = [row for row in rows if name in row.outcomes]
    keys = [key for key in (rows[0].point if rows else ()) if _is_axis(valued, key)]  # the baseline has none
    if not keys:
        shown = [_bar(row.label or "all seeds", row.outcomes[name], few.get(row.label, ())) for row in valued[:_BARS]]
        if shown:
            what = "combinations" if rows[0].point else "arms"
            yield "", _part(bars(f"{name} by {what.removesuffix('s')}", shown), len(shown), len(valued), what)
        return
    for key in keys:
        axis = short(key, rows[0].point)
        yield f"over {axis}", lines(f"{name} over {axis}", _series(valued, name, key, few), axis)


def _bar(name: str, value: Estimate, singles: Sequence[float]) -> Bar:
    said = f"{number(value.mean)}, {len(singles)} seed{'s' * (len(singles) > 1)}" if singles else written(value)
    return Bar(name, _COLOURS[0], value, said, singles)


def _is_axis(rows: Sequence[PointEstimates], key: str) -> bool:
    places = {as_number(row.point[key]) for row in rows}
    return None not in places and len(places) > 1


def _series(rows: Sequence[PointEstimates], name: str, key: str, few: Mapping[str, Sequence[float]]) -> list[ChartLine]:
    """Return a line for each combination of the other keys."""
    groups: dict[str, list[tuple[float, Estimate, Sequence[float]]]] = {}
    for row in rows:
        rest = label_of({other: value for other, value in row.point.items() if other != key})
        own = few.get(row.label, ())
        value = attrs.evolve(row.outcomes[name], half=None) if own else row.outcomes[name]
        groups.setdefault(rest, []).append((as_number(row.point[key]) or 0.0, value, own))
    if len(groups) > len(_COLOURS):  # too many lines: the points alone
        groups = {"": [one for points in groups.values() for one in points]}
    return [
        ChartLine(
            rest or name,
            _COLOURS[index],
            sorted(((at, value) for at, value, _ in points), key=lambda pair: pair[0]),
            [[(at, one) for one in own] for at, _, own in points],
        )
        for index, (rest, points) in enumerate(groups.items())
    ]


def band_drawing(plan: Plan, bands: Sequence[Band], metric: str, *, signed: bool = False) -> Drawing:
    """Return the chart of a metric over time: a line for each combination or arm, each with its 95 % band.

    Args:
        plan: the plan.
        bands: the bands.
        metric: the metric.
        signed: whether these are differences from the baseline.
    """
    own = [band.drawn() for band in bands if band.metric == metric]
    end = max(one[-1][0] for band in own for one in (band.moments, *band.singles))
    scale, unit = next(pair for pair in _UNITS if end >= 2 * pair[0] or pair[0] == 1)
    series = [
        ChartLine(
            plan.label(band.point) or metric,
            _COLOURS[band.point % len(_COLOURS)],
            [(at / scale, attrs.evolve(one, half=None) if band.singles else one) for at, one in band.moments],
            [[(at / scale, value) for at, value in one] for one in band.singles],
        )
        for band in own[:_LINES]
    ]
    label = f"difference in {metric} from the baseline over time" if signed else f"{metric} over time"
    drawing = areas(label, series, f"simulated {unit}", signed=signed)
    return _part(drawing, len(series), len(own), "arms" if plan.arms else "combinations")


def difference_drawing(
    differences: Sequence[Difference], name: str, singles: Mapping[str, Sequence[float]] | None = None
) -> Drawing:
    """Return the chart of the differences from the baseline in one outcome, one dot for each arm.

    Args:
        differences: the differences.
        name: the name of the outcome.
        singles: the differences of single seeds by arm, which are drawn in place of the interval; see `singles_of`.
    """
    own, few = [one for one in differences if one.outcome == name], singles or {}
    shown = [_bar(one.arm, one.difference, few.get(one.arm, ())) for one in own[:_BARS]]
    return _part(dots(f"differences in {name} from the baseline", shown), len(shown), len(own), "arms")


def reach_drawing(arms: Sequence[ArmReach]) -> Drawing:
    """Return the chart of the mean number of reached agents over time, one band for each arm that reached any."""
    end = 1.05 * max(seconds for arm in arms for one in arm.agents for seconds in one.times)  # the last step is seen
    scale, unit = next(pair for pair in _UNITS[1:] if end >= pair[0] or pair[0] == 1)
    series = []
    for index, arm in enumerate(arms[: len(_COLOURS)]):
        times = sorted(seconds for one in arm.agents for seconds in one.times)
        steps = [(at / scale, Estimate(1, (place + 1) / arm.count.n, None)) for place, at in enumerate(times)]
        kept = steps[:: max(1, len(steps) // _STEPS)]
        series.append(ChartLine(arm.arm, _COLOURS[index], [*kept, steps[-1], (end / scale, steps[-1][1])]))
    drawing = bands("agents reached over time", series, end / scale, f"simulated {unit}")
    return _part(drawing, len(series), len(arms), "arms")


def _part(drawing: Drawing, shown: int, count: int, what: str) -> Drawing:
    """Return a chart that says how many of all it shows, if that are not all."""
    return attrs.evolve(drawing, part=f"the first {shown} of {count} {what}" if shown < count else "")
