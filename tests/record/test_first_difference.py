"""The first event that differs between two runs, and the words for it."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.base.errors import ActorError
from sim.kernel.codec import Raw, decode, encode
from sim.kernel.rows import RecordedEvent
from sim.record import open_run
from sim.record.first_difference import ABSENT, FirstDifference, ValueDifference, first_difference, first_value

ROW = (90_000_000_000, 1, 0, 12, 7, "walker-1", "step.made", {"arguments": {"to": "a", "n": 1}}, (12, 6))

numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
rows = st.builds(lambda data, cause, time: (time, 0, 0, 3, 1, "a", "t", data, cause), values,
                 st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9)), st.integers(0, 2**62))  # fmt: skip


def row(**changes):
    """An event with some fields changed."""
    return tuple(changes.get(name, value) for name, value in zip(RecordedEvent._fields, ROW, strict=True))


def many(count):
    """Different events."""
    return [row(counter=place) for place in range(count)]


def stored(events):
    """Events as they come from a run file."""
    return [tuple(event) for event in decode(encode(events))]


@pytest.mark.slow
@given(st.lists(rows, max_size=5))
def test_what_is_read_equals_what_was_recorded(events):
    """Live rows and the same rows decoded from a file do not differ, whatever their data."""
    assert first_difference(events, stored(events)) is None
    assert first_difference(iter(events), iter(events)) is None


@pytest.mark.slow
@given(st.lists(rows, max_size=4), st.lists(rows, max_size=4))
def test_differs_exactly_where_the_hash_would(left, right):
    """The first event that differs is the first whose canonical bytes do; what is named in it really differs."""
    encoded = [[encode(event) for event in side] for side in (left, right)]
    found = first_difference(left, right)
    if encoded[0] == encoded[1]:
        assert found is None
        return
    assert found is not None
    place = found.number - 1
    assert encoded[0][:place] == encoded[1][:place]
    assert encoded[0][place : place + 1] != encoded[1][place : place + 1]
    assert (found.left, found.right) == tuple(next(islice(side, place, None), None) for side in (left, right))
    assert f"event {found.number}" in found.sentence()


@pytest.mark.slow
@given(values, values)
def test_the_value_named_is_at_the_path_named(left, right):
    """Following the keys on each side leads to the values that are said to differ."""
    found = first_value(left, right)
    assert (found is None) == (encode(left) == encode(right))
    if found is None:
        return
    for side, value in ((left, found.left), (right, found.right)):
        if value is ABSENT:
            with pytest.raises((KeyError, IndexError)):
                _follow(side, found.keys)
        else:
            assert encode(_follow(side, found.keys)) == encode(value)
    assert all(len(text) <= 86 for text in found.texts())


def _follow(value, keys):
    for key in keys:
        value = value[key]
    return value


@pytest.mark.parametrize("count", [0, 1, 1023, 1024, 1025, 2048, 3000])
def test_a_run_that_is_a_beginning_of_the_other(count):
    """The first event that one run lacks is the difference, also where events are read in batches."""
    longer = many(count + 1)
    found = first_difference(longer[:count], longer, start=10)

    assert found == FirstDifference(count + 10, None, longer[count])
    assert found.value is None
    assert first_difference(longer, longer[:count], start=10) == FirstDifference(count + 10, longer[count], None)
    assert first_difference(longer, stored(longer)) is None
    assert found.sentence("in the record", "in the replay") == (
        f"event {count + 10:,} is step.made of walker-1 at 1m30s in the replay, and there is none in the record"
    )


@pytest.mark.parametrize("place", [0, 1, 1023, 1024, 2999])
def test_the_first_of_several_differences(place):
    """Of several events that differ the first is found, in any batch."""
    left = many(3000)
    right = [row(counter=event[4], priority=1) if number >= place else event for number, event in enumerate(left)]
    found = first_difference(left, right)

    assert found == FirstDifference(place + 1, left[place], right[place])
    assert found.value is not None
    assert found.value.path == "priority"


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"time_ns": 91_000_000_000, "actor": "door"}, "time_ns"),
        ({"actor": "door", "source": 3, "topic": "x"}, "actor"),
        ({"topic": "x", "data": None}, "topic"),
        ({"data": {"arguments": {"to": "b", "n": 1}}, "counter": 8}, "data.arguments.to"),
        ({"data": {"arguments": {"to": "a", "n": 1.0}}}, "data.arguments.n"),
        ({"data": {"arguments": {"to": "a", "n": True}}}, "data.arguments.n"),
        ({"data": {"arguments": {"to": "a"}}}, "data.arguments.n"),
        ({"data": {"arguments": {"to": "a", "n": 1}, "a b": 1}}, 'data["a b"]'),
        ({"data": [1]}, "data"),
        ({"delta": 2, "priority": 1}, "delta"),
        ({"cause": (12, 5)}, "cause[1]"),
        ({"cause": None}, "cause"),
    ],
)
def test_each_field(changes, path):
    """A difference in any field is found and named; what people know comes before the numbers that follow from it."""
    changed = row(**changes)
    found = first_difference([ROW], [changed])

    assert found == FirstDifference(1, ROW, changed)
    assert found.value is not None
    assert found.value.path == path
    assert f"differ in {path}" in found.sentence() or f"differs in {path}, which is " in found.sentence()


def test_sentences():
    """The sentence names the event, the agent, the exact simulated time, both sides and the field."""
    data = first_difference([ROW], [row(data={"arguments": {"n": 2}})])
    actor = first_difference([ROW], [row(time_ns=90_000_000_001, actor="door")])
    assert data is not None
    assert actor is not None

    assert data.sentence("in the record", "in the replay") == (
        "event 1 (step.made of walker-1 at 1m30s) differs in data.arguments.n, "
        "which is 1 in the record and 2 in the replay"
    )
    assert actor.sentence() == (
        "event 1 is step.made of walker-1 at 1m30s on the left and step.made of door at 1m30.000000001s on the right; "
        "they differ in time_ns"
    )


def test_long_values_show_where_they_differ():
    """Of a long text only the surroundings of the first sign that differs are shown."""
    left, right = "same " * 1000 + "left" + " rest" * 1000, "same " * 1000 + "right"
    found = first_value({"prompt": [left]}, {"prompt": [right]})

    assert found is not None
    assert found.path == "prompt[0]"
    ours, theirs = found.texts()
    assert ours.startswith("...")
    assert ours.endswith("...")
    assert "same left rest" in ours
    assert theirs.endswith('same right"')
    assert len(ours) < 100


def test_a_value_that_only_one_side_has():
    """A value that one side lacks is told from null."""
    found = first_value({"a": None}, {})

    assert found is not None
    assert found.texts() == ("null", "nothing")
    assert first_value([1, 2], [1]) == ValueDifference((1,), 2, ABSENT)


def test_raw_data_counts_by_its_value():
    """Data that is already encoded equals the value it stands for, however it is spaced, and is looked into."""
    live = row(data=Raw(b'{"arguments":{"n":1,"to":"a"}}'))
    spaced = row(data=Raw(b'{"arguments": {"to":"a", "n":1}}'))
    other = row(data=Raw(b'{"arguments":{"n":2,"to":"a"}}'))

    assert first_difference([live, spaced], stored([ROW, ROW])) is None
    found = first_difference([spaced, other], [ROW, ROW])
    assert found is not None
    assert found.number == 2
    assert found.value == ValueDifference(("data", "arguments", "n"), 2, 1)


def test_what_is_not_json_names_its_actor():
    """An event that cannot be recorded is an error of its actor, not a difference."""
    with pytest.raises(ActorError, match=r"an event of walker-1 with topic step\.made"):
        first_difference([ROW, row(data={"x": object()})], [ROW, ROW])


def test_a_recorded_run(record):
    """A run file, cut into chunks, equals the rows it was made of, up to the event that is changed."""
    facts = [("t", {"n": n}) for n in range(5000)]
    changed = [*facts[:4500], ("t", {"n": 0}), *facts[4501:]]
    with open_run(record(*facts)) as one, open_run(record(*facts)) as same, open_run(record(*changed)) as other:
        assert first_difference(one.events(), same.events()) is None
        found = first_difference(one.events(), other.events())

    assert found is not None
    assert found.sentence() == (
        "event 4,501 (t of a1 at 1h15m) differs in data.n, which is 4500 on the left and 0 on the right"
    )
