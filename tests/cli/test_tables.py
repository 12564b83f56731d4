"""Tables on stdout, and how they fit a terminal."""

import os
import shutil
import sys

import click
import pytest

from sim.cli.render.table import print_pairs, print_rows, print_table


@pytest.fixture
def wide(monkeypatch):
    """Stdout as a terminal of a given width."""

    def make(columns: int) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setattr(shutil, "get_terminal_size", lambda *_, **__: os.terminal_size((columns, 24)))

    return make


def test_numbers_are_right_aligned(capsys):
    """Numbers stand right, rounded unless they are to be exact; texts stand left, and no line ends in spaces."""
    print_table(["name", "n", "share"], [["a", 12345, 0.123456], ["longer", None, None]])
    assert capsys.readouterr().out.splitlines() == [
        "name         n   share",
        "a       12,345  0.1235",
        "longer",
    ]
    print_table(["n"], [[12345]], exact=True)
    assert capsys.readouterr().out == "    n\n12345\n"


def test_nothing_is_a_table_of_headings(capsys):
    """A table without rows has its headings, and pairs without any print nothing."""
    print_table(["a", "b"], [])
    print_pairs([])
    assert capsys.readouterr().out == "a  b\n"


def test_signs_of_two_columns_take_two(capsys):
    """Signs of East Asia take two columns of a terminal and accents none, so that the next column stands straight."""
    print_table(["name", "x"], [["東京", "a"], ["e\u0301te", "b"], ["abcd", "c"]])
    assert capsys.readouterr().out.splitlines()[1:] == ["東京  a", "e\u0301te   b", "abcd  c"]


@pytest.mark.parametrize("columns", [1, 8, 20, 30, 79])
def test_a_table_fits_the_terminal(columns, capsys, wide):
    """No line is wider than the terminal where that is possible; nothing is lost, and a named column stays whole."""
    wide(columns)
    words = "the quick brown fox jumps over the lazy dog"
    print_table(["run", "text", "n"], [["a-run", words, 1], ["b-run", "x" * 60, 2]], named=True)
    lines = click.unstyle(capsys.readouterr().out).splitlines()
    assert any(line.startswith("a-run") for line in lines)
    assert columns < 20 or max(map(len, lines)) <= columns
    assert "".join(lines).count("x") == 60 + ("x" in "text") + words.count("x")
    texts = "".join(line[5:] for line in lines).replace(" ", "")
    assert columns < 20 or all(word[:3] in texts for word in words.split())


def test_hostile_text_is_harmless(capsys):
    """Control characters are shown as escapes, also in headings."""
    print_table(["a\x1b[31m"], [["x\ny\u202e"]])
    print_pairs([("a\x07", "b\r")])
    out = capsys.readouterr().out
    assert all(sign.isprintable() or sign == "\n" for sign in out)
    assert out.count("\n") == 3


@pytest.mark.parametrize(("columns", "as_list"), [(20, True), (30, True), (50, False), (200, False)])
def test_a_row_that_is_too_wide_is_a_list(columns, as_list, capsys, wide):
    """Where a table would wrap texts within a few columns, each cell has a line of its own beside its heading."""
    wide(columns)
    print_rows(["first", "second", "n"], [["a quick brown fox jumps", "over a lazy dog and", 1], ["x", None, 2]])
    lines = click.unstyle(capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= columns
    assert (lines[0].split() == ["first", "second", "n"]) is not as_list
    if as_list:
        assert lines[-4:] == ["", "first   x", "second", "n       2"]


def test_the_end_of_a_long_text_is_left_out_and_counted(capsys):
    """In a list, 500 characters of a text are shown, and how many more there are; a table of one column is whole."""
    print_rows([*"abcdefghijklmnopqr", "text"], [[*["some words"] * 18, "x" * 2000]])
    out = capsys.readouterr().out
    assert out.count("x") == 501  # and the heading
    assert "[1,500 more characters; --json has all]" in " ".join(out.split())
    print_rows(["text"], [["x" * 2000]])
    assert capsys.readouterr().out.count("x") == 2001  # and the heading
