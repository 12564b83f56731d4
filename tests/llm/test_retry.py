"""Which failures are tried again, and after which wait."""

from itertools import count
from typing import Any, get_args

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.base.errors import UsageError
from sim.llm.limits.retry import DEFAULT_RULES, RetryPolicy, RetryRule, parse_retry_after
from sim.llm.types import ErrorClass, ModelError

POLICY = RetryPolicy()
draws = st.floats(0, 1, exclude_max=True)


def tries(kind: ErrorClass) -> int:
    """Return how often a model that fails in one class is asked."""
    return next(made for made in count(1) if POLICY.pause(ModelError(kind, "no"), made, 0.5) is None)


def test_tries_of_each_class():
    """After the first try: rate limits and overload 2 immediate retries and 5 later, the network 3, other faults of
    the endpoint 2, an empty answer 1 at once, and the rest none.
    """
    expected = dict.fromkeys(get_args(ErrorClass), 1)
    expected |= {"rate_limit": 1 + 2 + 5, "overload": 1 + 2 + 5, "network": 1 + 3, "incomplete": 1 + 3}
    expected |= {"server": 1 + 2, "timeout": 1 + 2, "malformed": 1 + 2, "empty": 1 + 1}
    assert {kind: tries(kind) for kind in get_args(ErrorClass)} == expected


@pytest.mark.parametrize(
    ("made", "least", "most"), [(1, 1.5, 1.8), (2, 1.5, 1.8), (3, 1.0, 10.0), (4, 2.0, 20.0), (7, 12.0, 120.0)], ids=str
)
def test_two_tiers(made: int, least: float, most: float):
    """A rate limit is tried again twice at once (1.5 s), then with a backoff from 10 s that doubles, drawn in full."""
    error = ModelError("rate_limit", "later")
    assert POLICY.pause(error, made, 0.0) == pytest.approx(least)
    assert POLICY.pause(error, made, 1.0) == pytest.approx(most)


@given(st.floats(0, 1e6, exclude_min=True), draws, st.integers(1, 4))
def test_advice_is_kept(advised: float, draw: float, made: int):
    """Whoever is asked to wait waits at least that long, and at most a fifth longer."""
    pause = POLICY.pause(ModelError("rate_limit", "later", retry_after=advised), made, draw)
    assert pause is not None
    assert advised <= pause <= 1.2 * advised


@pytest.mark.parametrize("kind", ["rate_limit", "overload", "server"])
def test_no_wait_is_no_advice(kind: ErrorClass):
    """Who is asked to wait 0 s, or until a moment that has passed, waits as if nothing had been said."""
    for made in (1, 2, 3, 4):
        assert POLICY.pause(ModelError(kind, "no", retry_after=0.0), made, 0.5) == POLICY.pause(
            ModelError(kind, "no"), made, 0.5
        )
    assert POLICY.pause(ModelError("network", "a new line", retry_after=0.0), 1, 0.5) == 0


@given(st.integers(1, 10**6), draws)
def test_backoff_is_bounded(made: int, draw: float):
    """No backoff is longer than the longest, however often was tried."""
    policy = RetryPolicy({"server": RetryRule(10**9)})
    pause = policy.pause(ModelError("server", "no"), made, draw)
    assert pause is not None
    assert 0 < pause <= policy.longest


@pytest.mark.parametrize("name", ["timeout", "deadline", "longest", "immediate_delay"])
@pytest.mark.parametrize("value", [None, 0, -1, float("inf"), float("nan"), True], ids=str)
def test_no_limit_is_refused(name: str, value: Any):
    """A time limit is a finite number above 0: none at all is refused, it would wait for ever."""
    with pytest.raises(UsageError, match=name):
        attrs.evolve(POLICY, **{name: value})


def test_hard_errors_have_no_rule():
    """What another try cannot mend has no rule, so it is never tried again, even when the endpoint asks to wait."""
    for kind in ("quota", "bad_request", "context_length", "content", "auth"):
        assert kind not in DEFAULT_RULES
        assert POLICY.pause(ModelError(kind, "no", retry_after=1.0), 1, 0.0) is None


DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
UNIX = 784111777.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "120"}, 120.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
        ({"retry-after": DATE}, 100.0),
        ({"retry-after": DATE, "date": "Sun, 06 Nov 1994 08:49:30 GMT"}, 7.0),
        ({"retry-after": DATE, "date": "yesterday"}, 100.0),
        ({"retry-after": "Sunday, 06-Nov-94 08:49:37 GMT"}, 100.0),
        ({"retry-after": "Sun Nov  6 08:49:37 1994"}, 100.0),
        ({"retry-after": "Sat, 05 Nov 1994 08:49:37 GMT"}, 0.0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
    ],
    ids=str,
)
def test_forms_of_retry_after(headers: dict[str, str], seconds: float | None):
    """Milliseconds, seconds and the three forms of an HTTP date are read; a date by the response's own clock."""
    assert parse_retry_after(headers, UNIX - 100) == seconds


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms", "date"]), st.text()))
def test_any_text_is_survived(headers: dict[str, str]):
    """Whatever stands in the headers, the result is None or a time that is not negative."""
    seconds = parse_retry_after(headers, UNIX)
    assert seconds is None or seconds >= 0
