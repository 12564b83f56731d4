"""A line chart of values over simulated time, as one SVG image that needs neither a style sheet nor a script."""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from os import PathLike
from pathlib import Path
from typing import TypeGuard

import attrs

from sim.base.errors import RunError, UsageError
from sim.base.pages.markup import Markup, tag
from sim.base.text import number

COLOURS = (
    "#2f6fde", "#e0752f", "#2f9e63", "#8a6fd1", "#c8403a", "#1d9bb2", "#b78b1e", "#d1588f", "#6b7f3a", "#4b5a9b",
    "#9a6b4f", "#5fa8a0", "#9aa3b0",
)  # fmt: skip
"""The colours of lines: `--c0` to `--c12` of `base.css`, because an image has no style sheet."""

POINTS = 1000
"""About the most points of a line. Of a longer series, every n-th point is drawn, and the last one."""

_WIDTH, _HEIGHT = 720.0, 300.0
_LEFT, _RIGHT, _BELOW = 62.0, 16.0, 42.0
_ROW, _CHARACTER = 20.0, 6.8  # a row of the legend, and a character of it
_LARGEST, _LEAST = 1e300, 1e-300  # between them, differences and powers of ten neither overflow nor vanish
UNITS = ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
"""The units of an axis of time, in seconds."""

Values = Sequence[float | None]


@attrs.frozen(repr=False)
class Chart:
    """A chart as an SVG image. A notebook shows it.

    Attributes:
        label: what it shows, in one sentence.
        svg: the image.
    """

    label: str
    svg: str

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the image to a file, which is replaced if it exists, and return its path.

        Raises:
            UsageError: if the name does not end with `.svg`.
            RunError: if the file cannot be written.
        """
        file = Path(path)
        if file.suffix.lower() != ".svg":
            raise UsageError(f"a chart is saved as SVG, and {file} does not end with .svg")
        try:
            file.write_text(self.svg, encoding="utf-8")
        except OSError as error:
            raise RunError(f"{file} cannot be written: {error.strerror or error}") from error
        return file

    def __repr__(self) -> str:
        return f"<Chart: {self.label}>"

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return self.svg


def line_chart(title: str, times: Sequence[float], lines: Mapping[str, Values]) -> Chart:
    """Return a chart with one line for each name.

    Args:
        title: what the lines are, for instance `agents by state`.
        times: the time of each value, in simulated seconds, ascending.
        lines: the values by name; None, NaN and infinities leave a gap. Names are not trusted.
    """
    unit, unit_name = next((u for u in UNITS if times and times[-1] >= 2 * u[0]), UNITS[-1])
    step = -(-len(times) // POINTS) or 1
    chosen = sorted({*range(0, len(times), step), *range(len(times))[-1:]})
    scaled = {name: [(times[at] / unit, values[at]) for at in chosen] for name, values in lines.items()}
    label = f"{title} over {number(times[-1] / unit if times else 0.0)} {unit_name}"
    return Chart(label, _draw(label, f"simulated {unit_name}", scaled))


def _draw(label: str, axis: str, lines: Mapping[str, Sequence[tuple[float, float | None]]]) -> Markup:
    numbers = [value for points in lines.values() for _, value in points if _is_known(value)]
    end = max((time for points in lines.values() for time, _ in points), default=0.0) or 1.0
    marks = ticks(*_bounds(numbers), 5)
    rows, legend = legend_of([(name, COLOURS[index % len(COLOURS)]) for index, name in enumerate(lines)], _WIDTH)
    top = 12 + rows * _ROW
    floor = top + _HEIGHT - _BELOW

    def x(time: float) -> float:
        return _LEFT + time / end * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return floor - (value - marks[0]) / (marks[-1] - marks[0]) * (floor - top - 8)

    grid = [(_line(_LEFT, y(at), "#e2e6ec"), _text(_LEFT - 8, y(at) + 4, number(at), "end")) for at in marks]
    below = [_text(x(at), floor + 18, number(at), "middle") for at in ticks(0.0, end, 8) if at <= end * 1.0001]
    drawn = [
        _curve([(x(time), y(value)) for time, value in part if value is not None], index, name)
        for index, (name, points) in enumerate(lines.items())
        for has_value, part in groupby(points, key=lambda point: _is_known(point[1]))
        if has_value
    ]
    height = floor + _BELOW
    ground = tag("rect", width="100%", height="100%", fill="#ffffff")
    title = _text((_LEFT + _WIDTH - _RIGHT) / 2, height - 6, axis, "middle")
    return tag(
        "svg",
        [ground, grid, below, title, drawn, legend],
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_WIDTH:g} {height:g}",
        width=_WIDTH,
        height=height,
        role="img",
        aria_label=label,
        font_family="system-ui, sans-serif",
        font_size="12",
        fill="#5d6879",
        style="max-width: 100%; height: auto",
    )


def ticks(low: float, high: float, count: int) -> list[float]:
    """Return round values, about `count`, from at most `low` to at least `high`."""
    rough = high / count - low / count if high - low > _LEAST else 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(one * power for one in (1, 2, 2.5, 5, 10) if one * power >= rough * 0.9999)
    first = math.floor(low / step + 1e-9)
    last = max(first + 1, math.ceil(high / step - 1e-9))
    return [float(f"{step * index:.12g}") for index in range(first, last + 1)]


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    """Return the bounds of the axis: from 0, unless all values lie close together and far from 0."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    most = max(abs(low), abs(high))
    if most * 1e-9 < high - low < most / 5:
        return low, high
    return min(low, 0.0), max(high, 0.0)


def legend_of(lines: Sequence[tuple[str, str]], width: float) -> tuple[int, list[tuple[Markup, Markup]]]:
    """Return the number of rows of the legend of a chart, and its parts.

    Args:
        lines: the name and the colour of each line.
        width: the width of the chart.
    """
    parts, row, left = [], 0, _LEFT
    for name, colour in lines:
        length = 24 + _CHARACTER * len(name)
        if left > _LEFT and left + length > width - _RIGHT:
            row, left = row + 1, _LEFT
        swatch = tag("rect", x=left, y=8 + row * _ROW, width=10, height=10, rx=3, fill=colour)
        parts.append((swatch, _text(left + 15, 17 + row * _ROW, name, "start")))
        left += length + 8
    return row + 1 if lines else 0, parts


def _curve(points: Sequence[tuple[float, float]], index: int, name: str) -> Markup:
    """Return one line, or a dot for a single value. More lines than colours are dashed."""
    colour, tooltip = COLOURS[index % len(COLOURS)], tag("title", name)
    if len(points) == 1:
        return tag("circle", tooltip, cx=points[0][0], cy=points[0][1], r=2.5, fill=colour)
    return tag(
        "polyline",
        tooltip,
        points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points),
        fill="none",
        stroke=colour,
        stroke_width=1.8,
        stroke_linejoin="round",
        stroke_dasharray="5 3" if index >= len(COLOURS) else None,
    )


def _line(left: float, y: float, colour: str) -> Markup:
    return tag("line", x1=left, x2=_WIDTH - _RIGHT, y1=y, y2=y, stroke=colour)


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return tag("text", text, x=x, y=y, text_anchor=anchor)


def _is_known(value: float | None) -> TypeGuard[float]:
    return value is not None and abs(value) < _LARGEST
