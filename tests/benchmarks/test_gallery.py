"""The program behind the tables of docs/gallery.md, on a reduced size; docs/test_gallery_page.py compares the page."""

import re
from math import comb

import pytest

from benchmarks import gallery
from benchmarks.tables import printed


@pytest.mark.slow
def test_regions_are_counted_when_nothing_can_change():
    """A run of few features ends long before its time, with at least one region; the same seed gives as many again."""
    found = [gallery.regions(2, 3, seed) for seed in (1, 1)]
    assert 1 <= found[0] == found[1] <= 100


def test_predicted_means_are_those_of_the_binomial_distribution():
    """If one run in twenty has a 2, and the others a 1, the interval of a mean of ten runs is the binomial one."""
    assert gallery.predicted([3, 3], 10) == (3, 3)
    share = [comb(10, n) * 0.05**n * 0.95 ** (10 - n) for n in range(11)]
    assert sum(share[:2]) < 0.975 < sum(share[:3])
    assert gallery.predicted([1.0] * 19 + [2.0], 10) == pytest.approx((1, 1.2))


def test_the_table_has_a_row_for_each_cell():
    """Each row has Axelrod's mean, our mean with its interval, and where means of ten runs lie."""
    cells = [(5, 15), (15, 15)]
    heads, rows = gallery.culture(4, lambda what, *jobs: iter([10.0, 20.0, 30.0, 20.0, 1.0, 1.0, 1.0, 1.0]), cells)
    assert len(heads) == 5
    assert rows[0][:4] == ("5", "15", "20.0", "20.0 ± 13.0")
    assert rows[1] == ("15", "15", "1.2", "1.00 ± 0.00", "1.0 to 1.0")
    assert printed((heads, rows)).count("\n") == 3


@pytest.mark.slow
@pytest.mark.parametrize("model", gallery.PAIRS)
def test_mesa_and_the_scenario_are_measured_alike(model):
    """A few turns of each give a row for each number, with both means and their intervals."""
    pytest.importorskip("mesa")
    heads, rows = gallery.beside_mesa(model, 2, map, turns=3)
    assert heads == ("settings", "measured", "Mesa, 2 seeds", "here, 2 seeds")
    assert [row[1] for row in rows] == [name for pair in gallery.PAIRS[model] for name in pair.measured]
    assert all(re.fullmatch(r"\d+\.\d+ ± \d+\.\d+", shown) for row in rows for shown in row[2:])


def test_both_meadows_begin_alike():
    """After a turn, each has about the 100 sheep and 20 wolves that it began with, and half of the grass or less."""
    pytest.importorskip("mesa")
    (pair, _) = gallery.PAIRS["wolf_sheep"]
    for sheep, wolves, grass, *most, none in (pair.ours(1, 1), pair.mesa(1, 1)):
        assert 80 <= sheep <= 120
        assert 15 <= wolves <= 25
        assert most == [sheep, wolves]
        assert 300 < grass < 500
        assert none == 0
