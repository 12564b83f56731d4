"""Charts as SVG without a script: bars, lines and dots with intervals, bands over time."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import attrs

from sim.base.pages import Chart, Markup, svg, tag
from sim.base.pages.chart import legend_of, ticks
from sim.base.pages.document import light_colours
from sim.experiments.estimate import Estimate
from sim.experiments.points import as_number

WIDTH = 560.0
_RIGHT, _ABOVE, _BELOW, _LEFT = 14.0, 10.0, 24.0, 46.0
_TITLE = 24.0
Scale = Callable[[float], float]
_WORD = 6.4
"""Width of a character in a label."""
_LONGEST = 36
"""The most characters of a name beside a bar; all of it is in the title of the bar."""


@attrs.frozen
class Bar:
    """One bar: its name, colour, value, and label; with single values, these are drawn as points instead."""

    name: str
    colour: str
    value: Estimate
    said: str
    singles: Sequence[float] = ()

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest value that is drawn."""
        return (min(self.singles), max(self.singles)) if self.singles else (self.value.low, self.value.high)


@attrs.frozen
class ChartLine:
    """One line: its name and colour, and the values by position on the axis.

    Attributes:
        singles: for each seed, its values by position. They are drawn instead of intervals.
    """

    name: str
    colour: str
    values: Sequence[tuple[float, Estimate]]
    singles: Sequence[Sequence[tuple[float, float]]] = ()

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest value that is drawn."""
        values = [value for one in self.singles for _, value in one]
        values += [end for _, value in self.values for end in (value.low, value.high)]
        return min(values), max(values)


@attrs.frozen
class Drawing:
    """A chart, for a page or as an image of its own.

    Attributes:
        label: a description, for screen readers.
        height: its height; its width is `WIDTH`.
        parts: what it consists of; colours are variables of the style of a page, such as `var(--c0)`.
        series: the lines that its legend names.
        part: which part of all it shows, such as `the first 24 of 40 arms`; empty: all.
    """

    label: str
    height: float
    parts: Sequence[Iterable[Markup | str]]
    series: Sequence[ChartLine] = ()
    part: str = ""

    def html(self) -> Markup:
        """Return the chart for a page, which has the colours."""
        names = legend(self.series) if self.series else None
        part = tag("p", self.part, class_="note") if self.part else None
        return tag("div", svg(WIDTH, self.height, self.label, self.parts), names, part, class_="chart")

    def card(self, heading: str, note: str = "", about: str = "") -> Markup:
        """Return the chart below a heading, for a page, and under it a phrase about what it shows."""
        said = tag("p", about, class_="note about") if about else None
        return tag("div", tag("h3", heading, " ", tag("span", note, class_="note")), self.html(), said)

    def image(self) -> Chart:
        """Return the chart as an image, with its description as a title, its legend, and light colours."""
        label = f"{self.label} ({self.part})" if self.part else self.label
        colours = light_colours()
        rows, names = legend_of([(series.name, series.colour) for series in self.series], WIDTH)
        top = _TITLE + 20.0 * rows
        drawn = tag(
            "svg",
            tag("rect", width="100%", height="100%", fill="var(--card)"),
            tag("text", label, x=10, y=18, font_weight=600, fill="var(--ink)"),
            tag("g", names, transform=f"translate(0 {_TITLE:g})"),
            tag("g", self.parts, transform=f"translate(0 {top:g})"),
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {WIDTH:g} {self.height + top:g}",
            width=WIDTH,
            height=self.height + top,
            role="img",
            aria_label=label,
            font_family="system-ui, sans-serif",
            font_size="11.5",
            fill="var(--soft)",
            style="max-width: 100%; height: auto",
        )
        # In text, quotes are escaped, so only whole values of attributes are replaced.
        return Chart(label, re.sub(r'"var\(--(\w+)\)"', lambda match: f'"{colours[match[1]]}"', drawn))


def number(value: float) -> str:
    """Return a number in a readable form: 12,345 or 0.0123."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e12 else f"{value:.3g}"


def half(value: Estimate) -> str:
    """Return half the width of an interval as text with ±; empty if there is no interval."""
    return f"±{number(float(f'{value.half:.2g}'))}" if value.half else ""


def written(value: Estimate) -> str:
    """Return a mean and half the width of its interval as text."""
    return f"{number(value.mean)} {half(value)}".rstrip()


def bars(label: str, rows: Sequence[Bar], *, mark: float | None = None, marked: str = "") -> Drawing:
    """Return horizontal bars with their intervals.

    Args:
        label: a description of the chart, for screen readers.
        rows: the bars from top to bottom.
        mark: the position of a dashed line, or None.
        marked: the label of the dashed line.
    """
    left = 12 + _WORD * max(len(_cut(bar.name)) for bar in rows)
    said = 16 + _WORD * max(len(bar.said) for bar in rows)
    marks = ticks(*_ends([bar.ends for bar in rows], mark), 4)
    height = _ABOVE + 30 * len(rows) + _BELOW + (14 if mark is not None else 0)
    floor = height - _BELOW

    def x(value: float) -> float:
        return left + max(value - marks[0], 0.0) / (marks[-1] - marks[0]) * (WIDTH - left - said)

    parts: list[Iterable[Markup | str]] = [
        (_line(x(at), _ABOVE, x(at), floor, "grid"), _text(x(at), height - 8, number(at), "middle")) for at in marks
    ]
    for index, bar in enumerate(rows):
        top = _ABOVE + 30 * index + 5
        drawn = (
            _dotted(bar, x, top + 10)
            if bar.singles
            else [
                tag(
                    "rect",
                    tag("title", f"{bar.name}: {bar.said}"),
                    x=x(min(bar.value.mean, 0.0)),
                    y=top,
                    width=max(1.5, abs(x(bar.value.mean) - x(0.0))),
                    height=20.0,
                    rx=3,
                    fill=bar.colour,
                ),
                _whisker(x(bar.value.low), x(bar.value.high), top + 10) if bar.value.half else "",
            ]
        )
        parts.append(
            (
                _text(left - 8, top + 14, _cut(bar.name), "end", "name"),
                *drawn,
                _text(x(max(bar.ends[1], 0.0)) + 7, top + 14, bar.said, "start", "said"),
            )
        )
    if mark is not None:
        parts.append(
            (
                _line(x(mark), _ABOVE - 4, x(mark), floor, "soft", dashed=True),
                _text(x(mark) + 4, floor - 4, marked, "start")
                if x(mark) + _WORD * len(marked) < WIDTH
                else _text(x(mark) - 4, floor - 4, marked, "end"),
            )
        )
    return Drawing(label, height, parts)


def dots(label: str, rows: Sequence[Bar]) -> Drawing:
    """Return dots with their intervals on an axis that has a line at 0: for differences.

    Args:
        label: a description of the chart, for screen readers.
        rows: the dots from top to bottom.
    """
    left = 20 + _WORD * max(len(bar.name) for bar in rows)
    said = 16 + _WORD * max(len(bar.said) for bar in rows)
    most = max(*(abs(end) for bar in rows for end in bar.ends), 0.0)
    marks = ticks(0.0, most, 2)
    height = _ABOVE + 26 * len(rows) + _BELOW
    middle, half_width = (left + WIDTH - said) / 2, (WIDTH - said - left) / 2

    def x(value: float) -> float:
        return middle + value / (marks[-1] or 1) * half_width

    parts: list[Iterable[Markup | str]] = [
        (
            _line(x(at), _ABOVE, x(at), height - _BELOW, "soft" if at == 0 else "grid"),
            _text(x(at), height - 8, number(at), "middle"),
        )
        for at in sorted({*marks, *(-at for at in marks)})
    ]
    for index, bar in enumerate(rows):
        y = _ABOVE + 26 * index + 13
        drawn = (
            _dotted(bar, x, y)
            if bar.singles
            else [
                _whisker(x(bar.value.low), x(bar.value.high), y) if bar.value.half else "",
                tag(
                    "circle", tag("title", f"{bar.name}: {bar.said}"), cx=x(bar.value.mean), cy=y, r=5, fill=bar.colour
                ),
            ]
        )
        parts.append(
            (
                _text(left - 8, y + 4, bar.name, "end", "name"),
                *drawn,
                _text(WIDTH - said + 10, y + 4, bar.said, "start", "said"),
            )
        )
    return Drawing(label, height, parts)


def lines(label: str, curves: Sequence[ChartLine], axis: str, *, mark: float | None = None) -> Drawing:
    """Return lines with intervals over a number. The axis is logarithmic, and says so, if the numbers grow by factors.

    Args:
        label: a description of the chart, for screen readers.
        curves: the lines.
        axis: the label of the axis.
        mark: the position of a dashed line, or None.
    """
    height = 250.0
    places = sorted({place for series in curves for place, _ in series.values})
    marks = ticks(*_ends([series.ends for series in curves], mark), 5)
    logarithmic = is_geometric(places)
    scale = [math.log(place) for place in places] if logarithmic else places
    span = scale[-1] - scale[0] or 1
    said = f"{axis} (logarithmic)" if logarithmic else axis

    def x(place: float) -> float:
        at = (math.log(place) if logarithmic else place) - scale[0]
        return _LEFT + 20 + at / span * (WIDTH - _LEFT - _RIGHT - 40)

    def y(value: float) -> float:
        return height - 40 - max(value - marks[0], 0.0) / (marks[-1] - marks[0]) * (height - 40 - _ABOVE)

    parts: list[Iterable[Markup | str]] = [_levels(marks, y)]
    parts.append([_text(x(place), height - 22, number(place), "middle") for place in _spaced(places, x)])
    parts.append([_text((_LEFT + WIDTH) / 2, height - 4, said, "middle", "said")])
    if mark is not None:
        parts.append([_line(_LEFT, y(mark), WIDTH - _RIGHT, y(mark), "soft", dashed=True)])
    for series in curves:
        path = " ".join(f"{x(place):.1f},{y(value.mean):.1f}" for place, value in series.values)
        parts.append([_path(path, series.colour)])
        for place, value in series.values:
            parts.append(_point(x(place), value, y, series, f"{series.name}, {axis} {number(place)}"))
        parts.append([_single(x(at), y(value), series.colour) for one in series.singles for at, value in one])
    keyed = len(curves) > 1 or not label.startswith(curves[0].name)
    return Drawing(label, height, parts, curves if keyed else ())


def scatter(label: str, points: Sequence[tuple[str, float]], axis: str) -> Drawing:
    """Return points over the values of a key; values that are no numbers have equal distances.

    Args:
        label: a description of the chart, for screen readers.
        points: the value of the key and the number at it, for each point.
        axis: the label of the axis.
    """
    height = 220.0
    numbers = [as_number(text) for text, _ in points]
    names = list(dict.fromkeys(text for text, _ in points)) if None in numbers else []
    places = [float(names.index(text)) for text, _ in points] if names else [one for one in numbers if one is not None]
    low, high = min(places), max(places)
    floor, top = min(value for _, value in points), max(value for _, value in points)
    span = top - floor or abs(top) or 1.0
    marks = [floor, floor + span / 2, floor + span] if top > floor else [floor]

    def x(place: float) -> float:
        return _LEFT + 20 + (place - low) / (high - low or 1) * (WIDTH - _LEFT - _RIGHT - 40)

    def y(value: float) -> float:
        return height - 44 - (value - floor) / span * (height - 54 - _ABOVE)

    ends = [(float(at), name) for at, name in enumerate(names)] if names else [(at, number(at)) for at in (low, high)]
    parts: list[Iterable[Markup | str]] = [_levels(marks, y)]
    parts.append([_text(x(at), height - 22, _cut(name), "middle") for at, name in ends])
    parts.append([_text((_LEFT + WIDTH) / 2, height - 4, axis, "middle", "said")])
    parts.append(
        [
            tag("circle", cx=f"{x(at):.1f}", cy=f"{y(value):.1f}", r=2.2, fill="var(--c0)", fill_opacity=0.45)
            for at, (_, value) in zip(places, points, strict=True)
        ]
    )
    return Drawing(label, height, parts)


def is_geometric(places: Sequence[float]) -> bool:
    """Return whether numbers, in order, grow by factors (10, 100, 1000) rather than by steps (10, 20, 30)."""
    if len(places) < 3 or places[0] <= 0:
        return False
    steps = [high - low for low, high in pairwise(places)]
    factors = [math.log(high / low) for low, high in pairwise(places)]
    return max(factors) * min(steps) < max(steps) * min(factors)


def bands(label: str, curves: Sequence[ChartLine], end: float, axis: str) -> Drawing:
    """Return step functions over time from 0 to `end`: one band for each line, all with the same scale.

    Args:
        label: a description of the chart, for screen readers.
        curves: the lines; each ends with its last value.
        end: the end of the axis.
        axis: the label of the axis.
    """
    band = 44.0
    height = _ABOVE + band * len(curves) + 36
    left = 12 + _WORD * max(len(series.name) for series in curves)
    most = max(value.mean for series in curves for _, value in series.values)

    def x(at: float) -> float:
        return left + at / (end or 1) * (WIDTH - left - 70)

    parts: list[Iterable[Markup | str]] = [
        (_line(x(at), _ABOVE, x(at), height - 34, "grid"), _text(x(at), height - 20, number(at), "middle"))
        for at in ticks(0.0, end, 5)
        if at <= end * 1.001
    ]
    parts.append([_text((left + WIDTH - 70) / 2, height - 4, axis, "middle", "said")])
    for index, series in enumerate(curves):
        floor = _ABOVE + band * (index + 1)
        path = [f"M{x(0):.1f} {floor:.1f}"]
        for at, value in series.values:
            level = value.mean / (most or 1) * (band - 8)
            path.append(f"H{x(at):.1f}V{floor - level:.1f}")
        peak = max(value.mean for _, value in series.values)
        parts.append(
            (
                tag(
                    "path",
                    tag("title", f"{series.name}: up to {number(peak)}"),
                    d="".join(path) + f"V{floor:.1f}Z",
                    fill=series.colour,
                ),
                _line(left, floor, WIDTH - 70, floor, "line"),
                _text(left - 8, floor - 12, series.name, "end", "name"),
                _text(x(series.values[-1][0]) + 5, floor - 5, f"up to {number(peak)}", "start"),
            )
        )
    return Drawing(label, height, parts)


def areas(label: str, curves: Sequence[ChartLine], axis: str, *, signed: bool = False) -> Drawing:
    """Return lines over time, each in a band that has its intervals.

    Args:
        label: a description of the chart, for screen readers.
        curves: the lines; the place of each value is its time.
        axis: the label of the axis.
        signed: whether the values are differences, so that there is a line at 0.
    """
    height = 250.0
    marks = ticks(*_ends([series.ends for series in curves], None), 5)
    times = [at for series in curves for one in (series.values, *series.singles) for at, _ in one]
    begin = min(times)
    span = max(times) - begin or 1

    def x(at: float) -> float:
        return _LEFT + (at - begin) / span * (WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return height - 40 - max(value - marks[0], 0.0) / (marks[-1] - marks[0]) * (height - 40 - _ABOVE)

    parts: list[Iterable[Markup | str]] = [_levels(marks, y)]
    times = [at for at in ticks(begin, begin + span, 5) if begin <= at <= begin + span * 1.001]
    parts.append([_text(x(at), height - 22, number(at), "middle") for at in times])
    parts.append([_text((_LEFT + WIDTH) / 2, height - 4, axis, "middle", "said")])
    if signed:
        parts.append([_line(_LEFT, y(0), WIDTH - _RIGHT, y(0), "soft")])
    for series in curves:
        above = [f"{x(at):.1f},{y(value.high):.1f}" for at, value in series.values]
        below = [f"{x(at):.1f},{y(value.low):.1f}" for at, value in reversed(series.values)]
        around = [
            _path(" ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in one), series.colour, faint=True)
            for one in series.singles
        ] or [tag("polygon", points=" ".join((*above, *below)), fill=series.colour, fill_opacity=0.18)]
        line = _path(" ".join(f"{x(at):.1f},{y(value.mean):.1f}" for at, value in series.values), series.colour)
        parts.append([*around, line])
    return Drawing(label, height, parts, curves if len(curves) > 1 else ())


def _ends(drawn: Sequence[tuple[float, float]], mark: float | None) -> tuple[float, float]:
    """Return the ends of an axis that has 0 and all that is drawn."""
    return min(0.0, *(low for low, _ in drawn), 0.0), max(mark or 0.0, *(high for _, high in drawn), 0.0)


def _spaced(places: Sequence[float], x: Scale) -> list[float]:
    """Return the positions that can have a label without covering the one before."""
    shown: list[float] = []
    for place in places:
        if not shown or x(place) - x(shown[-1]) >= _WORD * (len(number(place)) + len(number(shown[-1]))) / 2 + 4:
            shown.append(place)
    return shown


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def legend(curves: Sequence[ChartLine]) -> Markup:
    """Return the names of lines with their colours."""
    swatches = [
        tag("span", svg(10, 10, "", tag("rect", width=10, height=10, rx=3, fill=series.colour)), _cut(series.name))
        for series in curves
    ]
    return tag("div", swatches, class_="legend")


def _levels(marks: Sequence[float], y: Scale) -> list[Markup]:
    grid = []
    for at in marks:
        grid += [_line(_LEFT, y(at), WIDTH - _RIGHT, y(at), "grid"), _text(_LEFT - 7, y(at) + 4, number(at), "end")]
    return grid


def _point(x: float, value: Estimate, y: Scale, series: ChartLine, words: str) -> list[Markup | str]:
    said = tag("title", f"{words}: {number(value.mean)} {half(value)}")
    dot = tag("circle", said, cx=x, cy=y(value.mean), r=4, fill=series.colour)
    if not value.half:
        return [dot]
    return [
        tag(
            "path",
            d=f"M{x - 4:.1f} {y(value.high):.1f}h8m-4 0V{y(value.low):.1f}m-4 0h8",
            stroke=series.colour,
            fill="none",
            stroke_width=1.2,
        ),
        dot,
    ]


def _dotted(bar: Bar, x: Scale, y: float) -> list[Markup]:
    """Return a point for each single value, and a short line at their mean."""
    said = tag("title", f"{bar.name}: {bar.said}")
    mean = tag("rect", said, x=x(bar.value.mean) - 1.2, y=y - 10, width=2.4, height=20.0, fill=bar.colour)
    return [mean, *(_single(x(value), y, bar.colour) for value in bar.singles)]


def _single(x: float, y: float, colour: str) -> Markup:
    return tag("circle", cx=x, cy=y, r=3.6, fill=colour, fill_opacity=0.55, stroke=colour)


def _whisker(low: float, high: float, y: float) -> Markup:
    return tag(
        "path", d=f"M{low:.1f} {y - 4:.1f}v8m0 -4H{high:.1f}m0 -4v8", stroke="var(--ink)", fill="none", stroke_width=1.3
    )


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, *, dashed: bool = False) -> Markup:
    return tag(
        "line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=f"var(--{colour})", stroke_dasharray="4 3" if dashed else None
    )


def _path(points: str, colour: str, *, faint: bool = False) -> Markup:
    return tag(
        "polyline",
        points=points,
        fill="none",
        stroke=colour,
        stroke_width=1.1 if faint else 1.8,
        stroke_opacity=0.5 if faint else None,
        stroke_linejoin="round",
    )


def _text(x: float, y: float, text: str, anchor: str, kind: str | None = None) -> Markup:
    return tag("text", text, x=x, y=y, text_anchor=anchor, class_=kind)
