"""Compiled expressions: they mean what a direct interpreter of the syntax tree says, and their errors say why."""

import ast
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.base.expressions import PURE_FUNCTIONS, Expression, ExpressionError
from tests.expressions.reference import interpret

NAMES: dict[str, Any] = {
    "a": 3, "b": 2.5, "s": "red", "t": True, "n": None, "xs": [1, 2, 3], "mixed": [1, None, "p"], "long": "x" * 400,
    "d": {"k": 1, "m": [4]}, "i": 7, "big": 2**62,
}  # fmt: skip


def _drawn() -> list[str]:
    raise KeyError("inner")


FUNCTIONS = {**PURE_FUNCTIONS, "pair": lambda: [1, 2], "broken": _drawn}
ATOMS = st.sampled_from(
    [*NAMES, "1", "0", "2.5", "'red'", "'k'", "true", "none", "1e300", "9223372036854775807", "pair()", "broken()",
     "unknown", "{'k': 2}", "-1"]
)  # fmt: skip


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def of(form: str) -> st.SearchStrategy[str]:
        return st.tuples(*[inner] * form.count("{}")).map(lambda parts: form.format(*parts))

    operator = st.sampled_from(
        ["+", "-", "*", "/", "//", "%", "**", "<", "<=", "==", "!=", "in", "not in", "and", "or"]
    )
    return st.one_of(
        st.tuples(inner, operator, inner).map(lambda parts: "({} {} {})".format(*parts)),
        st.tuples(st.sampled_from(sorted(PURE_FUNCTIONS)), inner).map(lambda parts: "{}({})".format(*parts)),
        st.sampled_from(
            ["({} if {} else {})", "(not {})", "(-{})", "(1 < {} < {})", "[{}, {}]", "({})[{}]", "({}).k", "({})[{}:]",
             "[{} for i in {}]", "sum([{} for i in xs if {}])", "({} is none)", "[i + j for i in xs for j in [{}]]",
             "[a for a, b in zip(xs, {})]", "distinct([{}, {}])", "enumerate({})", "range({}, {})",
             "{{'k': {}, s: {}}}", "max({}, {})"]
        ).flatmap(of),
    )  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(st.recursive(ATOMS, _larger, max_leaves=8))
def test_compiled_code_means_what_the_tree_says(text: str) -> None:
    """The value is that of a direct interpreter; where that has none, or a limit is met, the expression is refused."""
    expression = Expression.parse(text)
    try:
        expected = interpret(expression.tree, NAMES, FUNCTIONS)
    except Exception:
        with pytest.raises(ExpressionError):
            expression.evaluate(NAMES, FUNCTIONS)
        return
    try:
        found = expression.evaluate(NAMES, FUNCTIONS)
    except ExpressionError as error:
        assert "steps" in str(error)  # noqa: PT017 - the one limit that the interpreter does not have
        return
    assert repr(found) == repr(expected)


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        ("n + 1", "`n` has no value (null)", "test it first: n is not None and ..."),
        ("1 + (a if false else n)", "`n if a else a` has no value (null)", None),
        ("1 - n", "`n` has no value (null)", None),
        ("n < 1", "`n` has no value (null)", None),
        ("1 < a < n", "`n` has no value (null)", None),
        ("d.k <= n", "`n` has no value (null)", None),
        ("none + 1", "`None` has no value (null)", None),
        ("-n", "`n` has no value (null)", None),
        ("sqrt(n)", "`n` has no value (null)", None),
        ("max(a, n)", "`n` has no value (null)", None),
        ("[x for x in sorted(n)]", "`n` has no value (null)", None),
        ("[x for x in [1] if [y for y in [n < 2]]]", "`n` has no value (null)", None),
        ("[x + n for x in xs]", "`n` has no value (null)", None),
        ("[x < a for x in mixed]", "`x` has no value (null)", None),
        ("aa + 1", "there is no name 'aa' here", "did you mean 'a'?"),
        ("[aa for x in xs]", "there is no name 'aa' here", "did you mean 'a'?"),
        ("pairs()", "there is no function 'pairs' here", "did you mean 'pair'?"),
        ("broken() + n", "'inner'", None),
        ("[broken() for x in xs]", "'inner'", None),
        ("d.kk", "there is no key 'kk'", "did you mean 'k'?"),
        ("1 / 0", "division by zero", None),
        ("[1 / x for x in [0]]", "division by zero", None),
        ("'a' < 1", "'<' not supported between instances of 'str' and 'int'", None),
    ],
)
def test_an_error_says_what_failed(text: str, error: str, hint: str | None) -> None:
    """The operand without a value, the unknown name, the reason of a function: also within loops, and only once."""
    text = text.replace("(a if false else n)", "(n if a else a)")
    with pytest.raises(ExpressionError) as caught:
        Expression.parse(text).evaluate(NAMES, FUNCTIONS)
    assert str(caught.value) == f"{text!r}: {error}"
    if hint is not None:
        assert caught.value.hint == hint


def test_a_failure_is_explained_without_evaluating_again() -> None:
    """What draws or counts is called once, also if the expression fails behind it."""
    calls: list[int] = []

    def draw() -> int:
        calls.append(1)
        return 5

    with pytest.raises(ExpressionError, match="no value"):
        Expression.parse("draw() + n").evaluate({"n": None}, {"draw": draw})
    assert calls == [1]


def test_no_word_of_an_author_is_an_identifier() -> None:
    """Names, functions, keys, loop variables: the code has only identifiers of our own, and no builtins."""
    expression = Expression.parse("[thing.inner + secret for thing in things if helper(thing, word=1)] or len(other)")
    names = {"things": [], "secret": 1, "other": "abc"}
    assert expression.evaluate(names, {"helper": lambda thing, word: True}) == 3
    run = expression._code.strict
    codes, seen = [run.__code__], set[str]()
    while codes:
        code = codes.pop()
        seen |= {*code.co_names, *code.co_varnames, *code.co_cellvars, *code.co_freevars}
        codes += [constant for constant in code.co_consts if hasattr(constant, "co_names")]
    words = {node.id for node in ast.walk(expression.tree) if isinstance(node, ast.Name)} | {"inner"}
    assert not seen & words
    assert run.__globals__["__builtins__"] == {}


@pytest.mark.parametrize("word", ["N", "F", "W", "g0", "t1", "b1", "class_", "len"])
def test_names_of_the_code_are_free_for_authors(word: str) -> None:
    """A name that the code uses itself means what the author says."""
    assert Expression.parse(f"[{word} + x for x in [1, 2] if {word} > 0]").evaluate({word: 40}, {}) == [41, 42]
    assert Expression.parse(f"[{word} + x for {word} in [1, 2]]").evaluate({"x": 1}, {}) == [2, 3]


@pytest.mark.parametrize("nested", ["[{} for x in [0]]", "[y for y in {}]", "[{} for x in [0] for y in [0]]"])
def test_loops_within_each_other_are_limited(nested: str) -> None:
    """Ten loops within each other are compiled, more are refused: newer versions of Python crash at twenty or more."""
    each = nested.count("for")
    text = "[1]"
    for _ in range(10 // each):
        text = nested.format(text)
    assert Expression.parse(text).evaluate({}, {})
    with pytest.raises(ExpressionError, match="more than 10 loops within each other"):
        Expression.parse(nested.format(text))
