import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.base.errors import ActorError
from sim.kernel.codec import Raw, decode, encode

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=20,
)  # fmt: skip


def _reversed(value: object) -> object:
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in reversed(value)}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


@pytest.mark.slow
@given(JSON)
def test_canonical(value):
    """Equal values give equal bytes whatever the order of their keys, and come back equal."""
    assert encode(value) == encode(_reversed(value))
    assert decode(encode(value)) == value


def test_keys_are_sorted():
    """Keys are sorted at every depth."""
    assert encode({"b": {"d": 1, "c": [2]}, "a": "é"}) == '{"a":"é","b":{"c":[2],"d":1}}'.encode()


def test_raw_is_copied():
    """Bytes that are canonical already are not encoded again."""
    assert encode({"a": Raw(encode({"c": 1, "b": 2}))}) == b'{"a":{"b":2,"c":1}}'


def test_decode_makes_new_objects():
    """What is decoded twice is not shared, so changing one does not change the other."""
    data = encode([1])
    decode(data).append(2)
    assert decode(data) == [1]


@pytest.mark.parametrize("value", [object(), 1j, print, Ellipsis, {1: 2}, {(1, 2): 3}, {None: 1}, "\ud800"])
def test_foreign_values_are_refused(value):
    """A value that is not JSON-like is refused by name, also deep inside another."""
    for wrapped in (value, [value], {"a": {"b": value}}):
        with pytest.raises(ActorError, match="JSON-like"):
            encode(wrapped)


def test_endless_values_are_refused():
    """A list that holds itself is refused, not followed for ever."""
    value: list[object] = []
    value.append(value)
    with pytest.raises(ActorError, match="JSON-like"):
        encode(value)
