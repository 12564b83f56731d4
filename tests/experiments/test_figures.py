"""Estimates and charts of values that are negative, or very large."""

import math
import re
from itertools import pairwise

import pytest

from sim.base.text import number as shown
from sim.experiments.arms import AgentReach, ArmReach, Difference
from sim.experiments.charts import Bar, ChartLine, bars, lines, number
from sim.experiments.estimate import Estimate, least_effect
from sim.experiments.experiment import PointEstimates
from sim.experiments.figures import difference_drawing, outcome_drawings, reach_drawing
from sim.experiments.points import as_number

HUGE = 1.7e308


@pytest.mark.parametrize("values", [[HUGE, HUGE, HUGE], [HUGE, -HUGE], [HUGE, HUGE, -HUGE, 1.0]])
def test_sums_that_are_no_floats_have_estimates(values: list[float]) -> None:
    """The mean, the interval and the least effect of very large values are finite, and charts can be drawn of them."""
    found = Estimate.of(values)
    assert found is not None
    assert found.mean == pytest.approx(sum(value / len(values) for value in values))
    assert all(math.isfinite(one) for one in (found.half or 0, found.low, found.high, least_effect(values) or 0))
    assert bars("x", [Bar("a", "red", found, "")]).html()


def test_negative_means_are_drawn_below_zero() -> None:
    """A bar of a negative mean goes to the left of 0, and a line below 0; else the axis begins at 0."""
    low, high = Estimate(3, -40.0, 5.0), Estimate(3, 20.0, 30.0)
    drawn = bars("x", [Bar("low", "red", low, "-40"), Bar("high", "red", high, "20")]).html()
    (left, width), (right, _) = re.findall(r'x="([\d.]+)" y="[\d.]+" width="([\d.]+)" height="20"', drawn)
    assert float(left) + float(width) == pytest.approx(float(right), abs=0.2)
    assert float(width) > 50
    (first, last) = re.findall(
        r'cy="([\d.]+)"', lines("x", [ChartLine("s", "red", [(1, low), (2, high)])], "axis").html()
    )
    assert float(first) > float(last)
    above = bars("x", [Bar("high", "red", Estimate(3, 20.0, 15.0), "20")]).html()
    assert re.search(r">-\d+<", above) is None


def test_intervals_below_zero_are_drawn_whole() -> None:
    """Of 0.1 ± 3, as much is drawn below the mean as above it, in bars and in lines."""
    value = Estimate(3, 0.1, 3.0)
    drawn = bars("x", [Bar("a", "red", value, "")]).html()
    (interval,) = re.findall(r'd="M([\d.]+) [\d.]+v8m0 -4H([\d.]+)', drawn)
    (left, width) = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', drawn)[0]
    low, high = map(float, interval)
    assert (low + high) / 2 == pytest.approx(float(left) + float(width), abs=0.3)
    drawn = lines("x", [ChartLine("s", "red", [(1, value), (2, value)])], "axis").html()
    (top, bottom), *_ = re.findall(r" ([\d.]+)h8m-4 0V([\d.]+)m", drawn)
    middle, *_ = re.findall(r'cy="([\d.]+)"', drawn)
    assert float(bottom) - float(middle) == pytest.approx(float(middle) - float(top), abs=0.3)


def test_long_names_leave_room_for_the_bars() -> None:
    """A long name is cut beside its bar; all of it is in the title. Labels of an axis do not cover each other."""
    name = "state.text=" + "L" * 200
    drawn = bars("x", [Bar(name, "red", Estimate(1, 1.0, None), "1")]).html()
    assert (f">{name}<" in drawn, f"{name}: 1" in drawn) == (False, True)
    many = [(float(place), Estimate(1, 1.0, None)) for place in range(1, 500)]
    assert len(re.findall("<text", lines("x", [ChartLine("s", "red", many)], "axis").html())) < 50


def test_agents_that_are_reached_last_are_drawn() -> None:
    """The number of reached agents stays until the end of the axis, whose unit fits the times."""
    arms = [ArmReach(name, Estimate(1, 1.0, None), (AgentReach("a", (at,)),)) for name, at in (("x", 6.0), ("y", 3.0))]
    drawn = reach_drawing(arms).html()
    ends = [re.findall(r"H([\d.]+)", path) for path in re.findall(r' d="(M[^"]+Z)"', drawn)]
    assert [float(last) > float(first) for first, *_, last in ends] == [True, True]
    assert ends[0][-1] == ends[1][-1]
    assert "simulated seconds" in drawn


@pytest.mark.parametrize(("count", "bars_of", "reached"), [(40, 24, 13), (24, 24, 13), (13, 13, 13)])
def test_charts_say_what_they_leave_out(count: int, bars_of: int, reached: int) -> None:
    """A chart that has room for some of the combinations or arms says how many; one that shows all says nothing."""
    value = Estimate(2, 1.0, 0.5)
    names = [f"arm-{index}" for index in range(count)]
    rows = [PointEstimates(name, {"text": name}, 2, 0, {"y": value}) for name in names]
    arms = [ArmReach(name, value, (AgentReach("a", (1.0,)),)) for name in names]
    differences = [Difference(name, "y", value, value, 1.0, 2) for name in names]
    drawn = [
        (next(outcome_drawings(rows, "y"))[1], bars_of, "combinations"),
        (difference_drawing(differences, "y"), bars_of, "arms"),
        (reach_drawing(arms), reached, "arms"),
    ]
    for drawing, most, what in drawn:
        said = f"the first {most} of {count} {what}"
        assert [said in text for text in (drawing.card("y"), drawing.image().svg)] == [most < count] * 2
        assert most < count or "the first" not in drawing.card("y")


def test_large_numbers_are_short() -> None:
    """A number of 300 digits would make a table useless."""
    assert (shown(1.5e307), number(-1.5e307), shown(12345.0)) == ("1.5e+307", "-1.5e+307", "12,345")


def test_only_finite_texts_are_places_on_an_axis() -> None:
    """`nan` and `inf` are words, such as any other value of a key."""
    assert [as_number(text) for text in ("nan", "inf", "1e999", "x", "1.5")] == [None, None, None, None, 1.5]


def test_an_axis_is_logarithmic_if_its_numbers_grow_by_factors() -> None:
    """Evenly spread numbers are drawn evenly, however wide their range; an axis that is logarithmic says so."""

    def drawn(*places: float) -> tuple[bool, list[float]]:
        value = Estimate(3, 1.0, None)
        text = lines("x", [ChartLine("s", "red", [(place, value) for place in places])], "axis").html()
        return "axis (logarithmic)" in text, [float(at) for at in re.findall(r'cx="([\d.]+)"', text)]

    for logarithmic, places in ((False, (0.02, 0.08, 0.14, 0.2)), (True, (10.0, 100.0, 1000.0)), (False, (1.0, 100.0))):
        told, at = drawn(*places)
        gaps = [high - low for low, high in pairwise(at)]
        assert told is logarithmic
        assert max(gaps) == pytest.approx(min(gaps), abs=0.3)
    assert drawn(-1.0, 10.0, 100.0)[0] is False
