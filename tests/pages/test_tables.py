"""Tables as text and as HTML."""

from sim.base.pages import Table

ROWS = [("ann", 1234, 0.5, True), ("bob", None, 12.25, None)]


def test_text_is_aligned():
    """Columns are as wide as their widest cell; numbers stand at the right, and None is nothing."""
    assert Table(("name", "n", "x", "ok"), ROWS).text().splitlines() == [
        "name      n      x  ok",
        "ann   1,234    0.5  True",
        "bob          12.25",
    ]


def test_html_is_escaped():
    """Headings and cells are text, never markup."""
    html = Table(("<i>",), [("<script>",)]).html()
    assert html == (
        '<table><thead><tr><th align="left">&lt;i&gt;</th></tr></thead>'
        '<tbody><tr><td align="left">&lt;script&gt;</td></tr></tbody></table>'
    )


def test_without_headings_the_first_column_names_the_rest():
    """Pairs of a name and a value have no headings; the names are set as such."""
    html = Table((), [("seed", 3)]).html()
    assert html == '<table><tbody><tr><th align="left">seed</th><td align="right">3</td></tr></tbody></table>'


def test_a_table_may_be_empty():
    """No rows are no error, and long or dangerous text is cut and escaped."""
    assert Table(("a", "b"), []).text() == "a  b"
    assert Table((), []).text() == ""
    assert Table(("a",), [("x" * 100 + "\x1b",)]).text().splitlines()[1] == "x" * 57 + "..."
