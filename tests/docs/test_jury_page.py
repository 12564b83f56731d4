"""docs/jury.md: its tables agree with what was published, and with what its commands print."""

import re
from pathlib import Path

import pytest

from benchmarks import juries

PAGE = (Path(__file__).parents[2] / "docs" / "jury.md").read_text(encoding="utf-8")


def _rows(head: str) -> list[list[str]]:
    """Return the rows of the table with a head."""
    lines = PAGE.partition(f"| {head} |")[2].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def _numbers(shown: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", shown)]


def test_juries_end_as_in_the_book_where_the_page_says_so():
    """The published columns are those of the program; each interval has the published share but where the page says."""
    rows = _rows("guilty at first")
    assert [int(row[1]) for row in rows[:5]] == [count for count, _ in juries.FIRST.values()]
    assert [tuple(map(int, row[2:5])) for row in rows[:5]] == [shares for _, shares in juries.FIRST.values()]
    outside = set()
    for row in rows[:5]:
        for verdict, published, shown in zip(juries.VERDICTS, row[2:5], row[6:], strict=True):
            _, low, high = _numbers(shown)
            if not low <= float(published) <= high:
                outside.add((row[0], verdict))
    assert outside == {("6", "acquitted"), ("6", "hung"), ("6", "convicted"), ("7 to 11", "acquitted")}
    kept, hung, lost = ([*_numbers(row[3]), *_numbers(row[7])] for row in rows[5:])
    assert kept[2] <= kept[0] <= kept[3]
    assert hung[2] <= hung[0] <= hung[3]
    assert lost[3] < lost[0]


def test_the_published_juries_are_the_215():
    """The juries with a majority are 215, and the minority won in 6 of them: 209 did not end with its verdict."""
    of = sum(count for (low, _), (count, _) in juries.FIRST.items() if low != 6)
    assert of == 215
    kept, hung, lost = juries._of_all()
    assert [round(2.15 * share) for share in (kept, hung, lost)] == [197, 12, 6]


def test_subjects_follow_as_in_1955_where_the_page_says_so():
    """The published column is that of the program; two rows alone are 4 points apart."""
    rows = _rows("others")
    assert [float(row[1]) for row in rows[:-1]] == list(juries.ALONE.values())
    assert float(rows[-1][1]) == juries.PARTNER
    apart = {row[0] for row in rows if abs(_numbers(row[2])[0] - float(row[1])) > 4}
    assert apart == {"2", "15"}


@pytest.mark.proof
def test_the_tables_are_what_the_commands_print():
    """Some juries end as the table says, and a run of Asch's subjects is where its row says."""
    _, rows = juries.juries(12, map)
    printed = _rows("guilty at first")
    assert [row[:5] for row in rows] == [tuple(row[:5]) for row in printed]
    assert sum(int(row[5]) for row in rows[:5]) == 12
    row = next(row for row in _rows("others") if row[0] == "7")
    follow, never = juries.subjects(7, 0, 1)
    for found, shown in ((follow, row[2]), (never, row[3])):
        mean, half = _numbers(shown)
        assert abs(found - mean) < 4 * half


def test_the_commands_are_those_of_the_program():
    """Each table has the command above it that prints it, with as many seeds as its head says."""
    assert re.findall(r"^\$ uv run python -m benchmarks.juries (\w+) --seeds (\d+)$", PAGE, re.MULTILINE) == [
        ("jury", "400"), ("asch", "5"),
    ]  # fmt: skip
    assert "juries of 400 here" in PAGE
    assert "conforming, 5 seeds, %" in PAGE
