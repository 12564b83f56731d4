"""What is recorded: a row for each event, call from outside, and effect."""

from typing import Any, Literal, NamedTuple

Ending = Literal["delivered", "timeout", "abandoned"]
"""How an effect ended for its actor: it got the outcome, it waited too long, or it was cancelled and never sees it."""

EventRow = tuple[int, int, int, int, int, str, str, object, tuple[int, int] | None]
"""What is recorded and hashed of one event, as in `RecordedEvent`: a plain tuple, for it is made most often."""


class RecordedEvent(NamedTuple):
    """An event as it is on record.

    Attributes:
        time_ns, delta, priority: of the step in which it happened.
        source, counter: its identity: the ordinal of its source, and which of the source's counters it took.
        actor: the name of the agent that it happened to.
        topic: what happened.
        data: JSON-like.
        cause: the identity of the wake-up that led to the step.
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
    """A call from outside the kernel, and where it was put."""

    time_ns: int
    delta: int
    kind: str
    data: object


class IntentRow(NamedTuple):
    """An effect that is about to start."""

    actor: str
    ordinal: int
    kind: str
    request_hash: str
    request: object
    latency: Literal["modelled", "measured"]
    safety: str
    time_ns: int


class ResultRow(NamedTuple):
    """What came of an effect outside.

    Attributes:
        stamp: (time_ns, delta) where a measured one was put; a modelled one has its place already.
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
