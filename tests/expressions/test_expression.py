import contextlib
import json
import timeit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.base.expressions import PURE_FUNCTIONS, Expression, ExpressionError, Literal, did_you_mean, nearest
from sim.base.expressions.expression import INSTEAD

NAMES = {
    "energy": 2,
    "hunger": 3,
    "event": {"topic": "rain.fell", "data": {"mm": 5}},
    "nothing": None,
    "items": [1, 2, 3],
}


def value(text):
    """Return the value of an expression over NAMES."""
    return Expression.parse(text).evaluate(NAMES, PURE_FUNCTIONS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("energy < 3 and hunger > 2", True),
        ("not energy", False),
        ("1 < energy < 3", True),
        ("energy", 2),
        ("7", 7),
        ("event.data.mm", 5),
        ("event.data['mm'] + 1", 6),
        ("items[-1]", 3),
        ("'b' in ['a', 'b']", True),
        ("4 not in items", True),
        ("nothing is None", True),
        ("nothing is not none", False),
        ("true and null", None),
        ("'yes' if energy > 1 else 'no'", "yes"),
        ("-energy ** 2", -4),
        ("7 // 2 + 7 % 2", 4),
        ("(1, 2)", (1, 2)),
        ("{'a': energy}", {"a": 2}),
        ("'a' + 'b'", "ab"),
        ("[1] + items", [1, 1, 2, 3]),
        ("max(items)", 3),
        ("round(2.567, 1)", 2.6),
        ("first([])", None),
        ("first(items)", 1),
        ("contains('abc', 'b')", True),
        ("min(3, energy)", 2),
        ("int('12')", 12),
        ("log(8, 2)", 3.0),
        ("floor(-1.5)", -2),
        ("ceil(1.2)", 2),
        ("bool([])", False),
        ("str(energy)", "2"),
        ("0 or 'x'", "x"),
        ("energy >\n 1", True),
        ("2 ** -1", 0.5),
        ("False or true", True),
        ("len(items) == 3", True),
        ("abs(-2.5)", 2.5),
        ("items != [1]", True),
    ],
)
def test_the_grammar_means_what_python_means(text, expected):
    """Every construct of the grammar has Python's value."""
    assert expected == value(text)


def test_what_an_expression_refers_to_is_known():
    """The roots of names, the functions and the literal arguments are collected once."""
    expression = Expression.parse("count('sheep', key) + event.data.mm > min(1, true)")

    assert frozenset({"event", "key"}) == expression.names
    assert frozenset({"count", "min"}) == expression.functions
    assert (Literal("count", 0, "sheep"),) == expression.literals


def test_unknown_names_and_functions_are_refused_with_the_nearest():
    """A typo is found when the expression is parsed, with a hint."""
    with pytest.raises(ExpressionError, match="no name 'enrgy'") as name:
        Expression.parse("enrgy", {"energy"}, set())
    with pytest.raises(ExpressionError, match="no function 'mim'") as function:
        Expression.parse("mim(1)", {"energy"}, {"min"})

    assert name.value.hint == "did you mean 'energy'?"
    assert function.value.hint == "did you mean 'min'?"


def test_a_missing_key_is_an_error_with_the_nearest():
    """A key that a mapping lacks is no silent None."""
    with pytest.raises(ExpressionError, match="no key 'topik'") as caught:
        value("event.topik")

    assert caught.value.hint == "did you mean 'topic'?"


def test_the_text_stands_in_the_error():
    """Who reads the error of a run sees which expression it was."""
    with pytest.raises(ExpressionError, match="'energy / 0'"):
        value("energy / 0")


def test_a_failing_function_is_a_condition_error():
    """Errors of a host's function do not leak as they are."""

    def fail():
        raise KeyError("inner")

    with pytest.raises(ExpressionError, match="inner"):
        Expression.parse("fail()").evaluate({}, {"fail": fail})


def test_a_function_may_evaluate_another_expression():
    """Evaluations nest without disturbing each other."""
    inner = Expression.parse("x + 1")
    outer = Expression.parse("f() + x")

    assert outer.evaluate({"x": 10}, {"f": lambda: inner.evaluate({"x": 1}, {})}) == 12


def test_evaluation_is_fast():
    """A typical condition takes well under 8 microseconds; the bound here leaves room for busy machines."""
    expression = Expression.parse("energy < 3 and hunger > 2")

    seconds = min(timeit.repeat(lambda: expression.evaluate(NAMES, PURE_FUNCTIONS), number=1000, repeat=10))

    assert seconds / 1000 < 40e-6


def test_nearest_name():
    """The nearest name is found, and nothing when nothing is near."""
    assert nearest("enrgy", {"energy", "hunger"}) == "energy"
    assert nearest("xyz", {"energy"}) is None


@given(st.text(max_size=60) | st.text(alphabet="energy()[]{}.,<>=+-*/%'\"0123456789 _:notadr\\\n", max_size=60))
def test_any_text_gives_a_value_or_a_condition_error(text):
    """No text whatever raises anything else."""
    with contextlib.suppress(ExpressionError):
        Expression.parse(text).evaluate(NAMES, PURE_FUNCTIONS)


numbers = st.integers(-50, 50).map(str) | st.floats(-50, 50).map(repr)
texts = st.recursive(
    numbers | st.sampled_from(["True", "False", "energy", "hunger"]),
    lambda inner: st.one_of(
        st.tuples(
            inner,
            st.sampled_from(["+", "-", "*", "/", "//", "%", "<", "<=", "==", "!=", ">", ">=", "and", "or"]),
            inner,
        ).map(lambda parts: "({} {} {})".format(*parts)),
        inner.map(lambda part: f"(not {part})"),
        inner.map(lambda part: f"(-{part})"),
        st.tuples(inner, inner, inner).map(lambda parts: "({} if {} else {})".format(*parts)),
        st.tuples(inner, inner).map(lambda parts: "max({}, {})".format(*parts)),
    ),
    max_leaves=12,
)


@settings(max_examples=30)
@given(texts)
def test_random_expressions_agree_with_python(text):
    """On random small expressions the value is Python's, or both fail; we alone refuse more than 64 bits."""
    try:
        expected = eval(text, {"max": max, "__builtins__": {}}, dict(NAMES))  # noqa: S307  # our own text
    except ArithmeticError:
        with pytest.raises(ExpressionError):
            value(text)
        return

    with contextlib.suppress(TooBig):
        assert json.dumps(expected) == json.dumps(value_or_too_big(text))


class TooBig(Exception):
    """The one refusal that Python does not share."""


def value_or_too_big(text):
    """Return the value of an expression, which may fail for the size of a number only."""
    try:
        return value(text)
    except ExpressionError as error:
        if "too big" in str(error):
            raise TooBig from error
        raise


@pytest.mark.parametrize("name", sorted(INSTEAD))
def test_functions_of_python_say_what_to_write(name: str) -> None:
    """The hint for a function that expressions do not have is what to write instead, not a name that looks alike."""
    with pytest.raises(ExpressionError, match=f"there is no function '{name}'") as caught:
        Expression.parse(f"{name}(3)", names=(), functions={*PURE_FUNCTIONS, "usage", "chance"})
    assert caught.value.hint == INSTEAD[name]


def test_a_hint_is_a_name_that_looks_alike() -> None:
    """A transposed or missing letter is found; a name that shares half of its letters by chance is not."""
    assert did_you_mean("usgae", ["usage", "uniform"]) == "did you mean 'usage'?"
    assert did_you_mean("rang", ["usage", "uniform"]) is None
    assert did_you_mean("range", ["usage", "uniform"]) is None
