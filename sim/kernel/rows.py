"""The rows of a record: events, inputs, and the intents, results and endings of effects."""

from typing import Any, Literal, NamedTuple

Ending = Literal["delivered", "timeout", "abandoned"]
"""How an effect ended for its actor: it got the outcome, its deadline passed, or it was cancelled while it waited."""

EventRow = tuple[int, int, int, int, int, str, str, object, tuple[int, int] | None]
"""An event as it is recorded and hashed, with the fields of `RecordedEvent`. A plain tuple is the fastest to create."""


class RecordedEvent(NamedTuple):
    """A recorded event.

    Attributes:
        time_ns, delta, priority: those of the step in which it happened.
        source, counter: its identity: the ordinal of its source, and the value of the source's counter.
        actor: the name of the agent that it concerns.
        topic: the dotted name of the event.
        data: a JSON value.
        cause: the identity of the wake-up that led to the step: (source, counter).
    """

    time_ns: int
    delta: int
    priority: int
    source: int
    counter: int
    actor: str
    topic: str
    data: Any
    cause: Any


class InputRow(NamedTuple):
    """An input, with the time and delta at which it was applied."""

    time_ns: int
    delta: int
    kind: str
    data: object


class IntentRow(NamedTuple):
    """The intent to start an effect, recorded before it starts."""

    actor: str
    ordinal: int
    kind: str
    request_hash: str
    request: object
    latency: Literal["modelled", "measured"]
    safety: str
    time_ns: int


class ResultRow(NamedTuple):
    """The outcome of an effect, before it is delivered.

    Attributes:
        stamp: (time_ns, delta) of the delivery, if the latency is measured. If it is modelled, None: the time of
            delivery follows from the intent.
    """

    actor: str
    ordinal: int
    outcome: str
    value: object
    attempts: int
    stamp: tuple[int, int] | None


class ClosedRow(NamedTuple):
    """How an effect ended for its actor."""

    actor: str
    ordinal: int
    ending: Ending
    time_ns: int
    delta: int
