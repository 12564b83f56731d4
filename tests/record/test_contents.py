"""Requests are taken apart and put together again."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.kernel.codec import decode, encode
from sim.record.contents import content_hash, join, split

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=400)
KEYS = st.sampled_from(["$", "messages", "a", ""]) | TEXT
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
    | TEXT.map(lambda text: text * 9),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=25,
)
MARKS = st.builds(lambda first, count: {"$": [first, count]}, st.integers(-2, 5), st.integers(-2, 5))


def joined(skeleton: bytes, parts: list[bytes]) -> Any:
    """Return the value of a skeleton and of parts as they are stored."""
    return join(skeleton, [decode(part) for part in parts])


def same(value: Any) -> bool:
    """Whether a value comes back as it was recorded: 1 and 1.0 are two values."""
    return encode(joined(*split(value))) == encode(value)


@pytest.mark.slow
@given(JSON)
def test_what_was_taken_apart_comes_back(value):
    """Any JSON value, of any size, with any keys, is the same after it was taken apart and put together."""
    assert same(value)
    assert joined(*split(value)) == decode(encode(value))


@pytest.mark.slow
@given(st.recursive(MARKS | TEXT, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=15))
def test_what_looks_like_a_place_is_a_value(value):
    """A request may hold what looks like the place of a part: it comes back as it was."""
    assert same(value)


@given(st.lists(st.text(alphabet="abc", min_size=64, max_size=80), max_size=12), TEXT)
def test_each_item_is_a_part_of_its_own(items, text):
    """Items of a list that are long enough are parts, in order, and the skeleton does not grow with them."""
    skeleton, parts = split({"messages": items, "note": text[:50]})
    assert parts == [encode(item) for item in items]
    assert len(skeleton) < 60 + 6 * 50 + 2


def test_an_item_that_is_added_leaves_the_other_parts_as_they_are():
    """The parts of a longer history begin with those of the shorter one, so they are stored once."""
    history = [{"role": "user", "content": f"message {number} " * 10} for number in range(50)]
    for length in range(1, 50):
        assert split(history[: length + 1])[1][:length] == split(history[:length])[1]


def test_small_values_stay_where_they_are():
    """A part costs a row: what is shorter is kept in the skeleton."""
    value = {"model": "m", "temperature": 0.5, "tools": ["a", "b"], "stop": None}
    assert split(value) == (encode(value), [])


def test_the_hash_of_a_part_is_that_of_its_bytes():
    """Anybody can check a part with the tools of the system: SHA-256."""
    assert content_hash(b'"x"') == hashlib.sha256(b'"x"').hexdigest()
