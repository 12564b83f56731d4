import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.base.errors import UsageError
from sim.kernel.duration import MAX_NS, NS, to_ns, to_seconds, to_text

DAY = 86400 * NS


@pytest.mark.parametrize(
    ("value", "nanoseconds"),
    [
        (0, 0),
        (0.0, 0),
        (1, NS),
        (0.25, NS // 4),
        ("90s", 90 * NS),
        ("5m", 300 * NS),
        ("1h30m", 5400 * NS),
        ("2d", 2 * DAY),
        ("1.5h", 5400 * NS),
        ("7ns", 7),
        ("3us", 3000),
        ("20ms", 20 * 10**6),
        (" 1s ", NS),
        ("40000d0.123456789s", 40000 * DAY + 123456789),
    ],
)
def test_durations(value, nanoseconds):
    """Seconds and text with units both become exact nanoseconds."""
    assert to_ns(value) == nanoseconds


@pytest.mark.parametrize(
    "value",
    [
        math.nan, math.inf, -math.inf, -1, -0.5, -1e-12, True, False, None, [], b"1s", 1e308, 10**400, MAX_NS,
        "", "s", "5", "-5s", "5 m", "1e3s", "nan", "inf", "1h30", "9" * 5000 + "s", "200000d",
    ],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_what_is_no_duration_is_refused(value):
    """NaN, infinite, negative, too long, bool, and text that is no duration are refused with one kind of
    error.
    """
    with pytest.raises(UsageError):
        to_ns(value)


@given(st.integers(0, MAX_NS))
def test_text_round_trip(nanoseconds):
    """Text made from a duration stands for exactly that duration."""
    assert to_ns(to_text(nanoseconds)) == nanoseconds


@given(st.integers(0, 10**6 * NS))
def test_seconds_round_trip(nanoseconds):
    """Seconds as a float carry every nanosecond of spans up to some weeks."""
    assert to_ns(to_seconds(nanoseconds)) == nanoseconds


@given(st.floats())
def test_any_float_is_a_duration_or_refused(value):
    """No float leads to anything but a duration in range or the one error."""
    try:
        assert 0 <= to_ns(value) <= MAX_NS
        assert value >= 0
    except UsageError:
        assert not 0 <= value <= MAX_NS / NS
