"""The ports of the kernel: what it asks of the clock, the recorder and whoever carries out effects.

The kernel knows these protocols only. A recorder that keeps nothing (`NullRecorder`) ships with them, so that
the kernel can be used alone.
"""

from typing import Literal, Protocol

from sim.kernel.effects import Ticket

EventRow = tuple[int, int, int, int, int, str, str, object, tuple[int, int] | None]
"""(time_ns, delta, priority, source, counter, actor, topic, data, cause): what is recorded and hashed of one
event.
"""

InputRow = tuple[int, int, int, int, int, str, object]
"""(time_ns, delta, priority, source, counter, kind, data) of a call from outside the kernel."""

IntentRow = tuple[str, int, str, str, object, Literal["modelled", "measured"], str, int]
"""(actor, ordinal, kind, request_hash, request, latency, safety, time_ns) of an effect about to start."""

ResultRow = tuple[str, int, str, object, int, int, int]
"""(actor, ordinal, outcome, result, attempts, time_ns, delta) of an effect that ended."""


class Recorder(Protocol):
    """Keeps what happened. Calls come from the kernel, in key order; rows are never changed afterwards."""

    def event(self, row: EventRow, /) -> None:
        """Keep one event. The hot path: appending to a list is all it should do."""

    def input(self, row: InputRow, /) -> None:
        """Keep one call from outside."""

    def intent(self, row: IntentRow, /) -> None:
        """Keep that an effect is about to start."""

    def result(self, row: ResultRow, /) -> None:
        """Keep how an effect ended."""

    def flush(self) -> None:
        """Hand over what is buffered."""


class NullRecorder:
    """Keeps nothing."""

    def event(self, row: EventRow, /) -> None:
        """Drop the event."""

    def input(self, row: InputRow, /) -> None:
        """Drop the input."""

    def intent(self, row: IntentRow, /) -> None:
        """Drop the intent."""

    def result(self, row: ResultRow, /) -> None:
        """Drop the result."""

    def flush(self) -> None:
        """Do nothing."""


class Performer(Protocol):
    """Carries out effects outside the core; the host is one."""

    def start(self, ticket: Ticket, /) -> None:
        """Begin the effect of `ticket`; its outcome is posted back to the kernel later."""

    def abandon(self, ticket: Ticket, /) -> None:
        """Nobody waits for the outcome of `ticket` any more."""


class Clock(Protocol):
    """Real time, for the edge: it paces a run and never enters the core."""

    def now(self) -> int:
        """Return monotonic nanoseconds."""
