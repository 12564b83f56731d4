"""Charts as images that stand alone, whatever their values and names are."""

import math
import re
from importlib.resources import files
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
from sim.base.pages.chart import COLOURS, POINTS, line_chart, ticks

ANY = st.none() | st.floats()


def curves(svg: str) -> list[list[tuple[float, float]]]:
    """Return the points of each line."""
    return [
        [(float(x), float(y)) for x, y in (pair.split(",") for pair in points.split())]
        for points in re.findall(r'<polyline points="([^"]*)"', svg)
    ]


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=8), st.lists(ANY, min_size=5, max_size=5), max_size=15))
def test_any_values_give_an_image(lines):
    """Whatever the values and names are, the image is XML without a script, and all its numbers are finite."""
    chart = line_chart("any", [0.0, 1.0, 2.0, 2.0, 1e6], lines)
    root = ET.fromstring(chart.svg)  # noqa: S314 - made here
    assert not re.search(r"\b(nan|inf)\b", re.sub(r"<title>.*?</title>|<text[^>]*>.*?</text>", "", chart.svg))
    assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {
        "svg", "rect", "line", "text", "polyline", "circle", "title",
    }  # fmt: skip


def test_values_have_their_places():
    """A line rises with its values, from the left to the right; the axis names its unit and begins at 0."""
    chart = line_chart("water", [0, 3600, 7200], {"level": [0, 5, 10]})
    ((left, middle, right),) = curves(chart.svg)
    assert left[0] < middle[0] < right[0]
    assert left[1] > middle[1] > right[1]
    assert (middle[0] - left[0], middle[1] - left[1]) == pytest.approx(
        (right[0] - middle[0], right[1] - middle[1]), abs=0.2
    )
    assert "simulated hours" in chart.svg
    assert chart.label == "water over 2 hours"
    assert repr(chart) == "<Chart: water over 2 hours>"
    assert chart._repr_svg_() == chart._repr_html_() == chart.svg


def test_missing_values_leave_gaps():
    """None and NaN end a line, and the next value begins another one; a single value is a dot."""
    values = [1, 2, None, 4, math.nan, 6, 7, 8]
    svg = line_chart("gaps", range(8), {"x": values}).svg
    assert [len(curve) for curve in curves(svg)] == [2, 3]
    assert svg.count("<circle") == 1


def test_close_values_are_not_drawn_flat():
    """Values that lie close together and far from 0 fill the chart; others are shown from 0."""
    ((low, high),) = curves(line_chart("close", [0, 1], {"x": [1000, 1010]}).svg)
    assert low[1] - high[1] > 150
    ((low, high),) = curves(line_chart("far", [0, 1], {"x": [700, 1000]}).svg)
    assert low[1] - high[1] < 100


def test_long_series_are_thinned():
    """Of very many values about a thousand are drawn, the first and the last among them."""
    count = 25_000
    (curve,) = curves(line_chart("long", range(count), {"x": range(count)}).svg)
    assert POINTS <= len(curve) <= POINTS + 2
    assert curve[-1][0] == pytest.approx(704)


def test_names_are_escaped():
    """A name cannot be markup; a legend of many names takes several rows, and lines without a colour are dashed."""
    svg = line_chart("<b>", [0, 1], {f"<script>{n}</script>": [n, n] for n in range(20)}).svg
    assert "<script" not in svg
    assert "<b>" not in svg
    assert svg.count("stroke-dasharray") == 20 - len(COLOURS)


def test_a_chart_is_saved_as_svg(tmp_path):
    """A file is replaced; another kind of file, and a folder that does not exist, are refused in one sentence."""
    chart = line_chart("x", [0, 1], {"a": [1, 2]})
    for name in (tmp_path / "x.svg", str(tmp_path / "x.svg")):
        assert chart.save(name).read_text() == chart.svg
    with pytest.raises(sim.UsageError, match=r"saved as SVG, and .*x\.png does not end with \.svg"):
        chart.save(tmp_path / "x.png")
    with pytest.raises(sim.SimError, match="cannot be written: No such file"):
        chart.save(tmp_path / "missing" / "x.svg")


@given(st.floats(-1e12, 1e12), st.floats(0, 1e12))
def test_ticks_are_round_and_cover_all_values(low, width):
    """An axis has a few equidistant marks, from at most the least value to at least the greatest."""
    marks = ticks(low, low + width, 5)
    slack = 1e-6 * max(abs(low), width, 1)
    assert 2 <= len(marks) <= 9
    assert marks[0] <= low + slack
    assert marks[-1] >= low + width - slack


def test_the_colours_are_those_of_the_pages():
    """An image has the colours of the report, which has them from a style sheet."""
    style = (files("sim.base.pages") / "base.css").read_text(encoding="utf-8")
    assert tuple(re.search(rf"--c{n}: (#\w+)", style)[1] for n in range(13)) == COLOURS  # type: ignore[index]
