"""The program behind the tables of docs/gallery.md, on a reduced size; docs/test_gallery_page.py compares the page."""

from math import comb

import pytest

from benchmarks import gallery


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
    assert gallery.printed((heads, rows)).count("\n") == 3
