"""docs/games.md: its tables agree with what was published, and with what its commands print."""

import re
from pathlib import Path

import pytest

from benchmarks import games

PAGE = (Path(__file__).parents[2] / "docs" / "games.md").read_text(encoding="utf-8")


def _rows(head: str) -> list[list[str]]:
    """Return the rows of the table with a head."""
    lines = PAGE.partition(f"| {head} |")[2].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def _number(shown: str) -> tuple[float, float]:
    mean, half = shown.split(" ± ")
    return float(mean), float(half)


def test_tit_for_tat_is_among_the_first_five():
    """Its mean score is among the five best, with each seed, and the published column is that of the program."""
    rows = _rows("program")
    assert [(row[0], float(row[2])) for row in rows] == list(games.PUBLISHED.items())
    assert [int(row[1]) for row in rows] == list(range(1, 16))
    assert int(rows[0][3]) <= 5
    assert int(rows[0][4].split(" to ")[1]) <= 5
    means = [_number(row[5])[0] for row in rows]
    assert [sorted(means, reverse=True).index(mean) + 1 for mean in means] == [int(row[3]) for row in rows]


def test_hawks_settle_where_no_mutant_gains():
    """The interval of each row has V / C in it."""
    for both, cost, share, shown in _rows("two hawks get"):
        mean, half = _number(shown)
        assert games.HAWKS[float(both)] == pytest.approx(2 / float(cost)) == pytest.approx(float(share), abs=0.005)
        assert abs(mean - 2 / float(cost)) < half


@pytest.mark.proof
def test_the_tables_are_what_the_commands_print():
    """A run of the tournament and one of hawks fall where the tables say."""
    _, rows = games.axelrod(1, map)
    for row, (name, _, _, _, span, shown) in zip(rows, _rows("program"), strict=True):
        low, high = map(int, span.split(" to "))
        mean, half = _number(shown)
        assert row[0] == name
        assert low <= int(row[3]) <= high
        assert abs(_number(row[5])[0] - mean) < 4 * half
    (mean, half) = _number(_rows("two hawks get")[1][3])
    assert abs(games.hawks(-1.0, 1) - mean) < 4 * half


def test_the_commands_are_those_of_the_program():
    """Each table has the command above it that prints it."""
    assert re.findall(r"^\$ uv run python -m benchmarks.games (\w+) --seeds 10$", PAGE, re.MULTILINE) == [
        "hawk_dove", "axelrod",
    ]  # fmt: skip
