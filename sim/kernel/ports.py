"""The ports of the kernel: what it asks of the clock, the recorder and whoever carries out effects.

The kernel knows these protocols only. A recorder that keeps nothing (`NullRecorder`) ships with them, so that
the kernel can be used alone.
"""

from collections.abc import Callable
from typing import Any, Protocol

import attrs

from sim.kernel.effects import EffectHandle, Outcome
from sim.kernel.rows import ClosedRow, EventRow, InputRow, IntentRow, ResultRow

Durable = Callable[[Exception | None], object]
"""Called with None when what was recorded is on disk, or with what went wrong; perhaps in another thread."""


class Recorder(Protocol):
    """Keeps what happened. Calls come from the kernel, in key order; rows are never changed afterwards."""

    def event(self, row: EventRow, /) -> None:
        """Keep one event. The hot path: appending to a list is all it should do."""

    def input(self, row: InputRow, /) -> None:
        """Keep one call from outside."""

    def intent(self, row: IntentRow, /) -> None:
        """Keep that an effect is about to start."""

    def result(self, row: ResultRow, /) -> None:
        """Keep what came of an effect outside."""

    def closed(self, row: ClosedRow, /) -> None:
        """Keep how an effect ended for its actor."""

    def flush(self) -> None:
        """Hand over what is buffered."""

    def durable(self, done: Durable, /) -> None:
        """Call `done` when all intents, results and inputs so far are on disk; at once if nothing is kept."""


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

    def closed(self, row: ClosedRow, /) -> None:
        """Drop the ending."""

    def flush(self) -> None:
        """Do nothing."""

    def durable(self, done: Durable, /) -> None:
        """Nothing is kept, so nothing has to be waited for."""
        done(None)


class Performer(Protocol):
    """Carries out effects outside the core; the host is one."""

    def start(self, handle: EffectHandle, /) -> bool:
        """Begin the effect of `handle`; its outcome is posted back to the kernel later.

        Returns whether real time has to pass for it: not if its outcome is on record.
        """

    def abandon(self, handle: EffectHandle, /) -> None:
        """Nobody waits for the outcome of `handle` any more."""


class Intake(Protocol):
    """Takes calls from outside a run; the host is one."""

    def submit(self, kind: str, data: object, /) -> None:
        """Queue a call, from any thread."""


@attrs.frozen
class Arrival:
    """What came from outside, as it is on record: an input, or the outcome of a measured effect.

    Args:
        time_ns, delta: its place: all that was due at this instant ran before it.
        kind: the kind of the input; empty for an outcome.
        data: the data of the input.
        effect: whose outcome it is: (actor, ordinal).
        outcome: the outcome.
    """

    time_ns: int
    delta: int
    kind: str = ""
    data: Any = None
    effect: tuple[str, int] | None = None
    outcome: Outcome | None = None

    @property
    def described(self) -> str:
        """What it is, in words."""
        return (
            f"the input {self.kind!r}"
            if self.effect is None
            else f"the outcome of effect {self.effect[1]} of {self.effect[0]}"
        )


class History(Protocol):
    """What is on record of a run that is being made again. Until it is over, nothing is done outside.

    Attributes:
        over: whether all that is on record has been made again, so that the run may go on live.
        until_ns: the simulated time up to which it is made again (exclusive).
    """

    over: bool
    until_ns: int

    def answer(self, handle: EffectHandle, /) -> tuple[bool, Outcome | None]:
        """Return whether the outcome of an effect is on record, and what it is if its place in the order is fixed.

        Other outcomes come as arrivals.
        """

    def started(self) -> None:
        """An effect that began has its outcome now, if one is on record."""

    def next_arrival(self) -> Arrival | None:
        """Return what came from outside next, None if nothing more did."""

    def arrived(self) -> None:
        """It has been brought in again."""

    def in_doubt(self, handle: EffectHandle, /) -> bool:
        """Whether an effect was begun, must not be done again without asking, and has no outcome on record."""

    def reached(self) -> None:
        """Simulated time has come to `until_ns`, so the history is over."""


class Clock(Protocol):
    """Real time, for the edge: it paces a run and never enters the core."""

    def now(self) -> int:
        """Return monotonic nanoseconds."""
