"""The ports of the kernel: the protocols of the clock, the recorder, the performer of effects, and the history.

The kernel depends on these protocols only. `NullRecorder` stores nothing, so that the kernel can be used alone.
"""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, ClassVar, Protocol

import attrs

from sim.kernel.effects import EffectHandle, Outcome
from sim.kernel.rows import ClosedRow, EventRow, InputRow, IntentRow, ResultRow

Durable = Callable[[Exception | None], object]
"""A callback: it gets None when the recorded rows are on disk, or the error. It may be called in another thread."""


class Guard(Protocol):
    """Decides who may change something: a kernel, which lets only its steps do so, or `ANYONE`.

    A change begins with `if gate.current is None: gate.acting()`, which raises for a call from outside the run. The
    condition saves a call.
    """

    current: Any

    def acting(self) -> object:
        """Raise if the caller may not change it."""


class _Anyone:
    """Lets any caller change what is part of no run."""

    current: Any = "anyone"

    def acting(self) -> object:
        """Return that anyone may."""
        return self.current


ANYONE: Guard = _Anyone()


class HasTopic(Protocol):
    """Data of events that name their topic; see `sim.events.event_type`."""

    TOPIC: ClassVar[str]


class Recorder(Protocol):
    """Stores what happens in a run. The kernel calls it in key order, and never changes a row afterwards."""

    def event(self, row: EventRow, /) -> None:
        """Store an event. This is a hot path: an implementation should only append to a list."""

    def input(self, row: InputRow, /) -> None:
        """Store an input."""

    def intent(self, row: IntentRow, /) -> None:
        """Store the intent to start an effect."""

    def result(self, row: ResultRow, /) -> None:
        """Store the outcome of an effect."""

    def closed(self, row: ClosedRow, /) -> None:
        """Store how an effect ended for its actor."""

    def flush(self) -> None:
        """Hand over buffered rows."""

    def durable(self, done: Durable, /) -> None:
        """Call `done` when all intents, results and inputs so far are on disk; immediately if nothing is stored."""


class NullRecorder:
    """A recorder that stores nothing."""

    def event(self, row: EventRow, /) -> None:
        """Ignore the event."""

    def input(self, row: InputRow, /) -> None:
        """Ignore the input."""

    def intent(self, row: IntentRow, /) -> None:
        """Ignore the intent."""

    def result(self, row: ResultRow, /) -> None:
        """Ignore the outcome."""

    def closed(self, row: ClosedRow, /) -> None:
        """Ignore the ending."""

    def flush(self) -> None:
        """No-op: nothing is buffered."""

    def durable(self, done: Durable, /) -> None:
        """Call `done` immediately, because nothing is stored."""
        done(None)


class Performer(Protocol):
    """Carries out effects outside the core; the host is one."""

    def start(self, handle: EffectHandle, /) -> bool:
        """Start the effect of `handle`. Its outcome is posted to the kernel later.

        Returns:
            Whether real time passes until the outcome arrives. It does not if the outcome is on record.
        """

    def abandon(self, handle: EffectHandle, /) -> None:
        """Stop the effect of `handle` if possible: its outcome is no longer needed."""


class Background(Protocol):
    """Runs work beside a kernel, in the event loop of its effects; the host is one."""

    def beside(self, work: Callable[[], Awaitable[None]], /) -> None:
        """Start work that ends, at the latest, with the run. Its error ends the run."""

    async def idle(self) -> int:
        """Wait until the kernel cannot continue before an effect ends, and every outcome so far is on disk.

        Returns:
            The number of effects that are being carried out.
        """


class Call(Protocol):
    """A call on a run. It takes effect without `await`, and can be awaited until it has.

    Attributes:
        done: whether it has taken effect, or was refused.
    """

    @property
    def done(self) -> bool:
        """Whether it has taken effect, or was refused."""

    def __await__(self) -> Generator[Any, Any, Any]:
        """Wait until it has taken effect, and return its value, or raise why it was refused."""


class _Done:
    """A call from inside the run, which has taken effect when it returns."""

    __slots__ = ()
    done = True

    def __await__(self) -> Generator[Any, Any, None]:
        return
        yield


DONE: Call = _Done()
"""The call from inside the run."""


class Intake(Protocol):
    """Accepts inputs from outside a run; the host is one."""

    def submit(self, kind: str, data: object, /) -> None:
        """Queue an input. Safe to call from any thread."""

    def call(self, kind: str, data: object, name: str, /) -> Call:
        """Queue an input and return its call; `name` is for messages. Safe to call from any thread."""

    def watch(self, name: str, register: Callable[[Callable[[Any], object]], object], /) -> Call:
        """Return a wait for something in the run; `register` gets the function to call with its value."""

    def in_other_thread(self) -> bool:
        """Whether the caller runs in another thread than the run."""


@attrs.frozen
class Arrival:
    """A recorded arrival from outside the core: an input, or the outcome of an effect with measured latency.

    Args:
        time_ns, delta: when it was applied: after all entries of this instant that were due by then.
        kind: the kind of the input; empty for an outcome.
        data: the data of the input.
        effect: the effect that the outcome belongs to: (actor, ordinal); None for an input.
        outcome: the outcome; None for an input.
    """

    time_ns: int
    delta: int
    kind: str = ""
    data: Any = None
    effect: tuple[str, int] | None = None
    outcome: Outcome | None = None

    @property
    def described(self) -> str:
        """A short description for error messages."""
        return (
            f"the input {self.kind!r}"
            if self.effect is None
            else f"the outcome of effect {self.effect[1]} of {self.effect[0]}"
        )


class History(Protocol):
    """The record of a run that is being replayed. Until the replay is over, no effect is carried out.

    Attributes:
        over: whether the whole record has been replayed, so that the run can continue live.
        until_ns: the simulated time up to which the run is replayed (nanoseconds, exclusive).
    """

    over: bool
    until_ns: int

    def answer(self, handle: EffectHandle, /) -> tuple[bool, Outcome | None]:
        """Return whether the outcome of an effect is on record and, if its latency is modelled, the outcome.

        Outcomes with measured latency are returned by `next_arrival`.
        """

    def started(self) -> None:
        """Confirm that an effect has started and, if its outcome is on record, that the outcome is set."""

    def next_arrival(self) -> Arrival | None:
        """Return the next arrival on record, or None if there is no further one."""

    def arrived(self) -> None:
        """Confirm that the arrival has been applied."""

    def is_held(self, handle: EffectHandle, /) -> bool:
        """Return whether an effect without a recorded outcome is held: all are, or it is unsafe and was started."""

    def reached(self) -> None:
        """Confirm that simulated time has reached `until_ns`, so that the replay is over."""


class Clock(Protocol):
    """Real time. Only the edge uses it, to pace a run; the core never reads it."""

    def now(self) -> int:
        """Return monotonic nanoseconds."""
