"""Lists made of lists, slices and sums in expressions: what they give, and that their work is bounded."""

from typing import Any

import pytest

from sim.base.expressions import PURE_FUNCTIONS, Expression, ExpressionError

NAMES = {"items": [3, 1, 2], "people": [{"age": 30}, {"age": 4}], "limit": 2, "word": "abcd", "long": [0] * 1000}


def value(text: str) -> Any:
    """Return the value of an expression."""
    return Expression.parse(text).evaluate(NAMES, PURE_FUNCTIONS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[x * 2 for x in items if x < 3]", [2, 4]),
        ("[x for x in items if x >= limit]", [3, 2]),
        ("sum(p.age for p in people)", 34),
        ("len([p for p in people if p.age > 18])", 1),
        ("any(p.age > 18 for p in people) and not all(p.age > 18 for p in people)", True),
        ("[[x + y for y in items] for x in [10]]", [[13, 11, 12]]),
        ("sorted(items)[1:]", [2, 3]),
        ("items[:2] + items[-1:]", [3, 1, 2]),
        ("word[::-1]", "dcba"),
        ("sum([0.1] * 1 if false else [0.1, 0.2, 0.3])", 0.6),
        ("sum([])", 0),
        ("[x + y for x in items for y in [10, 20] if x > 1]", [13, 23, 12, 22]),
        ("[y for x in [[1, 2], [3]] for y in x]", [1, 2, 3]),
        ("[a * b for a, b in zip(items, [2, 3])]", [6, 3]),
        ("[[i, p.age] for i, p in enumerate(people, 1)]", [[1, 30], [2, 4]]),
        ("range(3) + range(5, 1, -2)", [0, 1, 2, 5, 3]),
        ("[x for x in range(1, limit + 2)]", [1, 2, 3]),
        ("zip([1, 2], 'a' and [3])", [[1, 3]]),
        ("distinct([3, 1, 3.0, [1], [1], {'a': 1}, {'a': 1}, none])", [3, 1, [1], {"a": 1}, None]),
    ],
)
def test_lists_and_slices_have_values(text, expected):
    """Filters, sums, nested loops and slices give what Python's own give; sums do not depend on the order."""
    assert value(text) == expected


def test_the_name_of_a_loop_is_no_free_name():
    """What a loop binds need not exist outside of it, and does not exist there."""
    assert Expression.parse("[x for x in items if x > limit]").names == {"items", "limit"}
    assert "x" in Expression.parse("[x for x in items] + [x]").names
    assert Expression.parse("[x + y for x in items for y in x]").names == {"items"}
    assert Expression.parse("[x + y for x in y for y in x]").names == {"y"}


@pytest.mark.parametrize(
    "text",
    [
        "[1 for a in long for b in long]",
        "[[b for b in long] for a in long]",
        "sum(sum(1 for b in long) for a in long)",
        "[1 for a in long if long == long]",
        "[1 for a in long if len(sorted(long)) > 0]",
        "[1 for a in word]",
        "items[0:1.5]",
        "items[::0]",
        "limit[1:]",
        "[range(9000) for x in items]",
        "range(10 ** 9)",
        "range(1.5)",
        "range(1, 5, 0)",
        "zip(1, 2)",
        "enumerate(items, 'a')",
        "distinct(5)",
        "[a for a, b in items]",
        "[a for a, b in [[1, 2, 3]]]",
        "[a for a, b in ['ab']]",
        "[a for a, a in zip(items, items)]",
        "[a for a, [b, c] in items]",
        "[a for a.b in items]",
    ],
)
def test_the_work_of_loops_is_bounded(text):
    """Loops in loops, loops over large values and slices that make no sense are errors, and end soon (X4)."""
    with pytest.raises(ExpressionError):
        value(text)
