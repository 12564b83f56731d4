"""Effects: everything that is not a function of (scenario, seed), and how it enters the core.

An actor says `outcome = await perform(effect)`. The work runs at the edge; the core only ever sees its
outcome, at a place in the order that is fixed (modelled latency) or recorded (measured latency).
"""

import hashlib
import types
from collections.abc import Awaitable, Callable, Generator
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Literal

import attrs

from sim.errors import ActorError, Cancelled
from sim.kernel.codec import encode
from sim.kernel.duration import MAX_NS
from sim.kernel.source import Actor

if TYPE_CHECKING:
    from sim.kernel.ports import Performer
    from sim.kernel.scheduler import Kernel

Safety = Literal["pure", "idempotent", "unsafe"]
"""What may be done again after a crash: anything, the same call with the same key, or nothing without asking.
"""

OutcomeKind = Literal["ok", "error", "timeout", "abandoned"]

HOUR_NS = 3600 * 10**9


@attrs.frozen
class Effect:
    """One piece of work for the outside.

    Args:
        kind: what it is, for the record (`http`, `tool.search`).
        request: the JSON-like request; with the kind it is all that the outcome may depend on.
        call: makes the outcome from the request; an async function that runs in a host task.
        latency_ns: the simulated time it takes (modelled), or None to let simulated time follow real time
            (measured).
        deadline_ns: simulated time after which the outcome is `timeout`.
        timeout: real seconds after which the edge gives up.
        safety: whether it may be repeated after a crash.
    """

    kind: str
    request: Any
    call: Callable[[Any], Awaitable[Any]]
    latency_ns: int | None = None
    deadline_ns: int = HOUR_NS
    timeout: float = 120.0
    safety: Safety = "unsafe"


@attrs.frozen
class Outcome:
    """How an effect ended: failures are values, recorded like results."""

    kind: OutcomeKind
    value: Any = None
    attempts: int = 1


class Ticket:
    """One effect under way: a wait of the kernel, and the target of its own delivery entry."""

    __slots__ = (
        "actor",
        "effect",
        "kernel",
        "ordinal",
        "outcome",
        "request_hash",
        "state",
        "token",
        "waiting",
    )

    def __init__(self, effect: Effect) -> None:
        self.effect = effect
        self.request_hash = hashlib.sha256(effect.kind.encode() + b"\0" + encode(effect.request)).hexdigest()
        self.outcome: Outcome | None = None
        self.ordinal = 0
        self.token = 0
        self.waiting = 0
        self.state: Literal["new", "running", "done", "abandoned"] = "new"

    def arm(self, kernel: "Kernel", actor: Actor) -> None:
        """Begin the effect: the kernel calls this when the actor has yielded the ticket."""
        self.kernel = kernel
        self.actor = actor
        self.waiting = actor.token
        kernel.effects.begin(self)

    def fire(self) -> None:
        """Deliver: the place in the order that was fixed for the outcome has come."""
        if self.state != "running":
            return
        if self.outcome is None:  # only a deadline fires before the outcome is there
            self.outcome = Outcome("timeout")
            self.kernel.effects.release(self)
        self.kernel.effects.end(self)

    def undo(self, value: object) -> None:
        """Nothing to give back: the outcome is recorded, the actor just never sees it."""


@types.coroutine
def perform(effect: Effect) -> Generator[Any, Any, Outcome]:
    """Have `effect` done outside the core and wait for its outcome.

    Raises:
        ActorError: if the request is not a JSON-like value.
    """
    ticket = Ticket(effect)
    try:
        outcome: Outcome = yield ticket
    except (Cancelled, Exception):  # not GeneratorExit: nothing is recorded while memory is freed
        if ticket.state == "running":
            ticket.kernel.effects.abandon(ticket)
        raise
    return outcome


class Effects:
    """The effects of one kernel: those in flight, their deadlines and their order."""

    def __init__(self, kernel: "Kernel") -> None:
        self.performer: Performer | None = None
        self.in_flight: dict[tuple[str, int], Ticket] = {}
        self.measured = 0  # in flight, with measured latency
        self.counts: dict[OutcomeKind, int] = {"ok": 0, "error": 0, "timeout": 0, "abandoned": 0}
        self.on_end: Callable[[], object] | None = None  # for a runner that waits at a barrier
        self._kernel = kernel
        self._ordinals: dict[str, int] = {}
        self._due: list[tuple[int, str, int, Ticket]] = []

    def begin(self, ticket: Ticket) -> None:
        """Record the intent, fix the place of delivery or the deadline, and let the performer start."""
        kernel, actor, effect = self._kernel, ticket.actor, ticket.effect
        if self.performer is None:
            raise ActorError(
                f"{actor.name} performs {effect.kind!r}, but this run has no host that carries out effects"
            )
        ordinal = ticket.ordinal = self._ordinals.get(actor.name, 0) + 1
        self._ordinals[actor.name] = ordinal
        modelled = effect.latency_ns is not None
        kernel.recorder.intent(
            (actor.name, ordinal, effect.kind, ticket.request_hash, effect.request,
             "modelled" if modelled else "measured", effect.safety, kernel.now)
        )  # fmt: skip
        ticket.state = "running"
        self.in_flight[actor.name, ordinal] = ticket
        latency = effect.deadline_ns if effect.latency_ns is None else effect.latency_ns
        if effect.latency_ns is not None and latency < effect.deadline_ns:
            heappush(self._due, (kernel.now + latency, actor.name, ordinal, ticket))
            kernel.look_out(kernel.now + latency)
        else:
            latency = effect.deadline_ns
        if not modelled:
            self.measured += 1
            kernel.pause()  # from now on simulated time follows real time, which only the host knows
        kernel.schedule(latency, actor, ticket, ticket.token)
        self.performer.start(ticket)

    def waits(self, actor: str) -> bool:
        """Whether `actor` waits for an effect."""
        return (actor, self._ordinals.get(actor, 0)) in self.in_flight

    def first_missing(self) -> int:
        """Return the earliest time at which an outcome must be delivered that is not there yet."""
        due = self._due
        while due and (due[0][3].outcome is not None or due[0][3].state != "running"):
            heappop(due)
        return due[0][0] if due else MAX_NS

    def post(self, ticket: Ticket, outcome: Outcome) -> None:
        """Take an outcome from the edge: a measured one is delivered now, a modelled one at its time."""
        effect = ticket.effect
        if ticket.state != "running" or ticket.outcome is not None:
            return  # too late: timed out or abandoned, and recorded so
        if effect.latency_ns is not None and effect.latency_ns >= effect.deadline_ns:
            return  # it times out, however soon the real answer came
        ticket.outcome = outcome
        if effect.latency_ns is None:
            self._kernel.drop_timer()
            self.end(ticket)

    def end(self, ticket: Ticket) -> None:
        """Record the outcome of `ticket` and wake its actor."""
        self._close(ticket, "done")
        if ticket.actor.token == ticket.waiting:
            self._kernel.wake(ticket.actor, ticket.outcome, ticket, source=ticket.actor)
        if self.on_end is not None:
            self.on_end()

    def abandon(self, ticket: Ticket) -> None:
        """The actor was cancelled while it waited: it never sees the outcome."""
        ticket.outcome = Outcome("abandoned")
        self._kernel.drop_timer()
        self._close(ticket, "abandoned")
        self.release(ticket)

    def release(self, ticket: Ticket) -> None:
        """Tell the performer that nobody waits for `ticket` any more."""
        if self.performer is not None:
            self.performer.abandon(ticket)

    def abandon_all(self) -> None:
        """The run ends: what is in flight is recorded as abandoned."""
        for ticket in list(self.in_flight.values()):
            self.abandon(ticket)

    def _close(self, ticket: Ticket, state: Literal["done", "abandoned"]) -> None:
        kernel, outcome = self._kernel, ticket.outcome
        assert outcome is not None
        ticket.state = state
        ticket.token += 1
        del self.in_flight[ticket.actor.name, ticket.ordinal]
        self.measured -= ticket.effect.latency_ns is None
        self.counts[outcome.kind] += 1
        kernel.recorder.result(
            (
                ticket.actor.name,
                ticket.ordinal,
                outcome.kind,
                outcome.value,
                outcome.attempts,
                kernel.now,
                kernel.delta,
            )
        )
