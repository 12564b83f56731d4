"""The figures that metrics and rules can use, against values worked by hand."""

from typing import Any

import pytest

import sim
from sim.scenario import loads
from sim.scenario.assembly.build import build
from sim.world import Places


def sampled(tmp_path: Any, expression: str, wealth: str = "[1, 2, 3, 4]") -> float:
    """Return a metric at the end of a run in which agent n of `a` has wealth[n] and has observed it once."""
    path = tmp_path / "figures.yaml"
    path.write_text(
        "name: figures\nuntil: 1m\n"
        f"agents: [{{name: a, count: {wealth.count(',') + 1}, state: {{all: {wealth}, wealth: '={wealth}[index]'}},"
        " rules: [{when: iteration == 1, record: {seen: =wealth}}, {do: stop}]}]\n"
        f'metrics: {{values: {{x: "{expression}"}}}}\n'
    )
    return float(sim.run(path, out=None).metrics["x"][-1])


@pytest.mark.parametrize(
    ("wealth", "expected"),
    [
        ("[1, 2, 3, 4]", 0.25),  # (-3*1 - 1*2 + 1*3 + 3*4) / (4 * 10)
        ("[4, 2, 1, 3]", 0.25),
        ("[10, 20, 30, 40]", 0.25),
        ("[5, 5, 5, 5]", 0.0),
        ("[0, 0, 0, 8]", 0.75),  # one has all: (n - 1) / n
        ("[0, 0, 0, 0]", 0.0),
        ("[1, 3]", 0.25),  # (-1 + 3) / (2 * 4)
        ("[0.5, 1.5, 4]", 7 / 18),  # (-2*0.5 + 0*1.5 + 2*4) / (3 * 6)
    ],
)
def test_gini(tmp_path, wealth, expected):
    """The Gini coefficient is sum((2 i - n - 1) x_i) / (n sum(x)) of the sorted values, in any order and any unit."""
    assert sampled(tmp_path, "gini('a', 'wealth')", wealth) == pytest.approx(expected, abs=1e-12)


def test_gini_of_debts_is_refused(tmp_path):
    """Of negative values the Gini coefficient means nothing: the error names the variable, the group and the value."""
    with pytest.raises(sim.SimError, match="gini needs numbers of at least 0, and wealth of a has -1"):
        sampled(tmp_path, "gini('a', 'wealth')", "[-1, 2]")


QUANTILES = [
    ("[10, 1, 3, 2, 4]", 0, 1.0),
    ("[10, 1, 3, 2, 4]", 0.25, 2.0),
    ("[10, 1, 3, 2, 4]", 0.5, 3.0),
    ("[10, 1, 3, 2, 4]", 0.9, 7.6),  # between 4 and 10, at 0.9 * 4 = 3.6
    ("[10, 1, 3, 2, 4]", 1, 10.0),
    ("[1, 2, 3, 4]", 0.5, 2.5),
    ("[1, 2, 3, 4]", 0.95, 3.85),
    ("[7, 7]", 0.3, 7.0),
    ("[7]", 0.99, 7.0),
]


@pytest.mark.parametrize("function", ["quantile_of('seen', {})", "quantile('a', 'wealth', {})"])
@pytest.mark.parametrize(("wealth", "share", "expected"), QUANTILES)
def test_quantiles(tmp_path, function, wealth, share, expected):
    """A quantile lies between the two nearest values, at the place share * (n - 1) of the sorted ones."""
    assert sampled(tmp_path, function.format(share), wealth) == pytest.approx(expected, abs=1e-12)


def test_quantiles_of_nothing_and_of_no_share(tmp_path):
    """Before the first observation a quantile has no value; a share outside 0 to 1 is refused with its value."""
    text = "name: x\nagents: [{name: a, rules: [{when: false, record: {seen: 1}}]}]\n"
    assert build(loads(text)).metric_functions.quantile_of("seen", 0.5) is None
    for share in (1.5, -0.1):
        with pytest.raises(sim.SimError, match=f"from 0 to 1, not {share}"):
            sampled(tmp_path, f"quantile_of('seen', {share})")


@pytest.mark.parametrize(
    ("diagonals", "place", "expected"),
    [
        (False, "0,0", {"1,0", "0,1"}),
        (False, "1,0", {"0,0", "2,0", "1,1"}),
        (False, "1,1", {"1,0", "0,1", "2,1", "1,2"}),
        (True, "0,0", {"1,0", "0,1", "1,1"}),
        (True, "2,0", {"1,0", "1,1", "2,1"}),
        (True, "0,1", {"0,0", "1,0", "1,1", "0,2", "1,2"}),
        (True, "1,1", {"0,0", "1,0", "2,0", "0,1", "2,1", "0,2", "1,2", "2,2"}),
    ],
)
def test_adjacent_places_of_a_grid(diagonals, place, expected):
    """On a grid 4 places are adjacent, with diagonals 8, and fewer at its border; each is named once."""
    text = f"name: x\nplaces: {{grid: [3, 3], diagonals: {str(diagonals).lower()}}}\nagents: [{{name: a}}]\n"
    places = build(loads(text)).world.places
    assert places is not None
    found = places.adjacent(place)
    assert set(found) == expected
    assert len(found) == len(expected)


def test_ways_of_a_grid_are_counted():
    """A grid of c by r has r (c-1) + c (r-1) ways, with diagonals 2 (c-1) (r-1) more; each leads both ways."""
    for diagonals, ways in ((False, 3 * 3 + 4 * 2), (True, 3 * 3 + 4 * 2 + 2 * 3 * 2)):
        grid = Places.grid(4, 3, 0, diagonals=diagonals)
        assert sum(len(grid.adjacent(node)) for node in grid.nodes) == 2 * ways
        assert all(node in grid.adjacent(other) for node in grid.nodes for other in grid.adjacent(node))


def test_a_rule_sees_the_adjacent_places(tmp_path):
    """`adjacent()` in a rule names the places around the agent; none if it stands nowhere."""
    path = tmp_path / "around.yaml"
    path.write_text(
        "name: around\nuntil: 1m\nplaces: {grid: [3, 3], diagonals: true}\nagents:\n"
        "  - {name: a, place: '2,2', rules: [{do: stop, record: {found: '=len(adjacent())'}}]}\n"
        "  - {name: b, rules: [{do: stop, record: {none: '=len(adjacent())'}}]}\n"
    )
    seen = sim.run(path, out=None).observations
    assert (seen["found"].maximum, seen["none"].maximum) == (3, 0)
