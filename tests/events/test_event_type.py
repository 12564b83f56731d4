"""Event types: what a definition must say, and how recorded data are read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.base.errors import UsageError
from sim.base.registry import Definitions
from sim.events.event_text import event_text
from sim.events.event_type import (
    EVENT_TYPES,
    EventData,
    Malformed,
    OpenData,
    Published,
    described_fields,
    event_type,
    read_data,
    type_of,
)
from sim.kernel.codec import ABSENT, Absent, encode, json_keys
from sim.record.views import view_of


def test_an_event_type_is_defined_in_one_place() -> None:
    """A class in one file gives a topic its data, its text, its view and its description."""
    with Definitions():

        @event_type("praise.given")
        class PraiseGiven(Published, frozen=True, gc=False, kw_only=True):
            """An agent was praised.

            Attributes:
                times: how often.
                whom: who was praised.
            """

            times: int | Absent = ABSENT
            whom: str

            def describe(self, topic: str, agent: str | None) -> tuple[str, ...]:
                return "praise", self.whom

        assert type_of("praise.given") is PraiseGiven
        assert encode(PraiseGiven(whom="ann")) == b'{"whom":"ann"}'
        assert read_data("praise.given", {"whom": "ann", "times": 2}) == PraiseGiven(whom="ann", times=2)
        assert event_text("praise.given", {"whom": "ann"}) == ("praise", "ann")
        assert "data ->> '$.whom' AS \"whom\"" in view_of(PraiseGiven, "One row a praise.")
        assert described_fields(PraiseGiven)["times"] == "how often."
        with pytest.raises(UsageError, match="have no 'who'"):
            view_of(PraiseGiven, "One row a praise.", {"who": "$who"})
    assert type_of("praise.given") is None


def test_a_forgotten_part_fails_at_definition() -> None:
    """Fields in another order than their keys, a field without description, and a topic of another type are errors."""

    class Unsorted(EventData, frozen=True, gc=False, kw_only=True):
        """An event.

        Attributes:
            b: first.
            a: second.
        """

        b: int
        a: int

    class Undescribed(EventData, frozen=True, gc=False, kw_only=True):
        """An event."""

        a: int

    class Complete(EventData, frozen=True, gc=False, kw_only=True):
        """An event."""

    with Definitions():
        with pytest.raises(UsageError, match="order of their keys"):
            event_type("x.y")(Unsorted)
        with pytest.raises(UsageError, match="'a' has no description"):
            event_type("x.y")(Undescribed)
        with pytest.raises(UsageError, match="another event type"):
            event_type("agent.state")(Complete)


def test_each_topic_of_the_list_has_its_type() -> None:
    """The module that the list names for a topic defines its type, and the types are described and in order."""
    for topic, found in EVENT_TYPES.items():
        assert topic == found.TOPIC
        assert found.__doc__
        assert list(json_keys(found).values()) == sorted(json_keys(found).values())
        if issubclass(found, OpenData):
            assert list(json_keys(found)) == ["values"]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.slow
@given(st.sampled_from(sorted(EVENT_TYPES)), anything)
def test_forged_data_are_malformed_and_never_an_error(topic: str, data: object) -> None:
    """Data of a record that somebody else has written give an event of the type, or a sentence about what is wrong."""
    topic = topic.replace("*", "x")
    found = type_of(topic)
    assert found is not None
    read = read_data(topic, data)
    assert isinstance(read, found) or (isinstance(read, Malformed) and read.topic == topic and read.problem)
    assert "" not in event_text(topic, data)[:1]


def test_data_of_later_and_earlier_versions_are_read() -> None:
    """What a type has no field for is left out; what it needs and is not there makes the data malformed."""
    read = read_data("message.sent", {"data": 1, "sender": "a", "to": "b", "topic": "", "more": 2})
    assert read is not None
    assert encode(read) == b'{"data":1,"sender":"a","to":"b","topic":""}'
    assert isinstance(read_data("message.sent", {"data": 1}), Malformed)
