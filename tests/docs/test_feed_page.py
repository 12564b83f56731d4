"""docs/feed.md: its tables agree with what its commands print."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks import feed

PAGE = (Path(__file__).parents[2] / "docs" / "feed.md").read_text(encoding="utf-8")


def _rows(head: str) -> list[list[str]]:
    """Return the rows of the table with a head."""
    lines = PAGE.partition(f"| {head} |")[2].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def _number(shown: str) -> tuple[float, float]:
    mean, half = shown.split(" ± ")
    return float(mean), float(half)


def test_a_first_vote_matters_where_likes_follow_it():
    """The intervals of up and untreated do not meet in the row as shipped, and do in the one without a herd."""
    (_, *published), (_, *shipped), (_, *without) = _rows("likes")
    assert tuple(published[3:]) == feed.PUBLISHED
    (up, half), (untreated, other) = _number(shipped[0]), _number(shipped[1])
    assert up - half > untreated + other
    (up, half), (untreated, other) = _number(without[0]), _number(without[1])
    assert abs(up - untreated) < half + other


def test_a_day_of_ten_thousand_users_takes_less_than_a_minute():
    """The page has each policy that the command measures, in less than 60 CPU seconds."""
    rows = _rows("policy")
    assert [row[0] for row in rows] == list(feed.POLICIES)
    assert all(0 < int(row[1]) < 60 for row in rows)


def test_a_cascade_grows():
    """Scale, depth and breadth never fall over the hours of the table."""
    rows = [[_number(cell)[0] for cell in row[1:]] for row in _rows("hours")]
    for one, two in pairwise(rows):
        assert all(before <= after for before, after in zip(one, two, strict=True))


@pytest.mark.proof
def test_the_tables_are_what_the_commands_print():
    """A run of each scenario falls where the tables say, and a tenth of the users of the day are shown posts."""
    means = feed.votes("", 1)
    for mean, cell in zip(means, _rows("likes")[1][1:4], strict=True):
        assert abs(_number(cell)[0] - mean) < 6 * _number(cell)[1]
    for size, cell in zip(feed.sizes("followed", 24, 1), _rows("hours")[3][1:], strict=True):
        assert abs(_number(cell)[0] - size) < 10 * _number(cell)[1]


def test_the_commands_are_those_of_the_program():
    """Each table has the command above it that prints it."""
    assert re.findall(r"^\$ uv run python -m benchmarks.feed (\w+)", PAGE, re.MULTILINE) == [
        "propagation",
        "herd",
        "day",
    ]
