"""Lanes: a picture of steps in simulated time, a lane for each name, with what led from one to another."""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from sim.base.pages.chart import COLOURS, UNITS, Chart, legend_of, ticks
from sim.base.pages.markup import Markup, tag
from sim.base.text import number

_WIDTH: Final = 720.0
_RIGHT, _BELOW, _LANE, _CHARACTER = 24.0, 44.0, 30.0, 6.8
_LONGEST: Final = 24  # characters of a name beside its lane


@attrs.frozen
class Dot:
    """A step.

    Attributes:
        lane: the name of its lane.
        time: its simulated time in seconds.
        since: the time of the first of the steps that are folded into it; `time` if none is.
        label: what it is; shown as a tooltip, where the pointer rests on the dot.
        strong: whether it is the one that the picture is about.
    """

    lane: str
    time: float
    since: float
    label: str
    strong: bool = False


def lane_chart(title: str, dots: Sequence[Dot], links: Mapping[str, Sequence[tuple[int, int]]]) -> Chart:
    """Return a picture of steps.

    Args:
        title: what they are.
        dots: the steps. Texts are not trusted.
        links: by what led from one step to the next: pairs of places in `dots`, the earlier one first.
    """
    lanes = {name: place for place, name in enumerate(dict.fromkeys(dot.lane for dot in dots))}
    begin, end = min(dot.since for dot in dots), max(dot.time for dot in dots)
    unit, unit_name = next((one for one in UNITS if end - begin >= 2 * one[0]), UNITS[-1])
    left = 20 + _CHARACTER * max(len(_cut(name)) for name in lanes)
    rows, legend = legend_of([(name, COLOURS[at]) for at, name in enumerate(links)], _WIDTH)
    top = 24 + rows * 20.0
    floor = top + _LANE * len(lanes)
    marks = ticks(begin / unit, max(end, begin + unit / 10) / unit, 7)

    def at(dot: Dot, time: float) -> tuple[float, float]:
        share = (time / unit - marks[0]) / (marks[-1] - marks[0])
        return left + share * (_WIDTH - left - _RIGHT), top + _LANE * (lanes[dot.lane] + 0.5)

    ground = [tag("rect", width="100%", height="100%", fill="#ffffff")]
    for name, place in lanes.items():
        y = top + _LANE * (place + 0.5)
        ground.append(tag("line", x1=left, x2=_WIDTH - _RIGHT, y1=y, y2=y, stroke="#e2e6ec"))
        ground.append(tag("text", _cut(name), x=left - 10, y=y + 4, text_anchor="end"))
    for mark in marks:
        x = left + (mark - marks[0]) / (marks[-1] - marks[0]) * (_WIDTH - left - _RIGHT)
        ground.append(tag("text", number(mark), x=x, y=floor + 18, text_anchor="middle"))
    axis = tag("text", f"simulated {unit_name}", x=(left + _WIDTH - _RIGHT) / 2, y=floor + 38, text_anchor="middle")
    drawn = [
        _link(at(dots[one], dots[one].time), at(dots[other], dots[other].since), COLOURS[place])
        for place, pairs in enumerate(links.values())
        for one, other in pairs
    ]
    height = floor + _BELOW
    return Chart(
        title,
        tag(
            "svg",
            [ground, axis, drawn, [_dot(dot, at(dot, dot.since), at(dot, dot.time)) for dot in dots], legend],
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {_WIDTH:g} {height:g}",
            width=_WIDTH,
            height=height,
            role="img",
            aria_label=title,
            font_family="system-ui, sans-serif",
            font_size="12",
            fill="#5d6879",
            style="max-width: 100%; height: auto",
        ),
    )


def _dot(dot: Dot, since: tuple[float, float], now: tuple[float, float]) -> list[Markup]:
    colour = "#c8403a" if dot.strong else "#1d2430"
    return [
        tag("line", x1=since[0], x2=now[0], y1=now[1], y2=now[1], stroke="#9aa3b0", stroke_width=4),
        tag("circle", tag("title", dot.label), cx=now[0], cy=now[1], r=6 if dot.strong else 4, fill=colour),
    ]


def _link(one: tuple[float, float], other: tuple[float, float], colour: str) -> Markup:
    """Return a line from one step to another; between two of one lane or of one time, it is bent."""
    bend = 12 if one[1] == other[1] or one[0] == other[0] else 0
    middle = (one[0] + other[0]) / 2 - (bend if one[0] == other[0] else 0), (one[1] + other[1]) / 2 - bend
    points = [f"{x:.1f},{y:.1f}" for x, y in (one, middle, other)]
    return tag("path", d=f"M {points[0]} Q {points[1]} {points[2]}", fill="none", stroke=colour, stroke_width=1.6)


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
