"""Effects: work whose result is not a function of (scenario, seed), and how its outcome enters the core.

An actor calls `outcome = await perform(effect)`. The work runs at the edge. The core gets the outcome only, at a
simulated time that is given in advance (modelled latency) or recorded (measured latency).
"""

import hashlib
from collections.abc import Callable, Collection, Generator
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Literal, get_args

import attrs

from sim.base.errors import ActorError, Cancelled, UsageError
from sim.kernel.actor import Actor
from sim.kernel.codec import encode
from sim.kernel.coroutines import coroutine
from sim.kernel.duration import MAX_NS
from sim.kernel.rows import ClosedRow, Ending, IntentRow, ResultRow

if TYPE_CHECKING:
    from sim.kernel.kernel import Kernel
    from sim.kernel.ports import Performer

Safety = Literal["pure", "idempotent", "unsafe"]
"""Whether an effect can be repeated after a crash.

- `pure`: it can always be repeated.
- `idempotent`: it can be repeated with the same key.
- `unsafe`: it must not be repeated unless a person decides so.
"""

OutcomeKind = Literal["ok", "error", "timeout", "abandoned"]


HOUR_NS = 3600 * 10**9


@attrs.frozen
class Effect:
    """Work outside the simulation.

    Args:
        kind: the name of this kind of work in the record, for example `http` or `tool.search`.
        request: a JSON value. The outcome may depend only on it and on the kind.
        call: a function that takes the request and the idempotency key of the effect, and returns the value of the
            outcome. It runs in a task of the host and may be async. The key is the same in each attempt.
        latency_ns: the duration in simulated nanoseconds (modelled latency), or None: the duration in real time
            (measured latency).
        deadline_ns: simulated nanoseconds after which the outcome is `timeout`.
        timeout: real seconds after which the host stops the work.
        safety: whether it can be repeated after a crash.

    Raises:
        UsageError: if a time is out of range or not a number, or the safety is not one of `Safety`.
    """

    kind: str
    request: Any
    call: Callable[[Any, str], Any]
    latency_ns: int | None = None
    deadline_ns: int = HOUR_NS
    timeout: float = 120.0
    safety: Safety = "unsafe"

    def __attrs_post_init__(self) -> None:
        latency, deadline = self.latency_ns, self.deadline_ns
        if latency is not None and (latency.__class__ is not int or not 0 <= latency <= MAX_NS):
            raise UsageError(
                f"the latency of {self.kind!r} must be a whole number of nanoseconds from 0, not {latency!r}"
            )
        if deadline.__class__ is not int or not 0 < deadline <= MAX_NS:
            raise UsageError(
                f"the deadline of {self.kind!r} must be a whole number of nanoseconds above 0, not {deadline!r}"
            )
        if not 0 < self.timeout < 1e9:
            raise UsageError(f"the timeout of {self.kind!r} must be a finite number of seconds, not {self.timeout!r}")
        if self.safety not in get_args(Safety):
            raise UsageError(
                f"the safety of {self.kind!r} must be one of {', '.join(get_args(Safety))}, not {self.safety!r}"
            )


@attrs.frozen
class Outcome:
    """How an effect ended. A failure is a value too, and is recorded like a result."""

    kind: OutcomeKind
    value: Any = None
    attempts: int = 1


class EffectHandle:
    """An effect in flight: a wait of the kernel, and the target of the entry that delivers its outcome.

    Attributes:
        request: the request as canonical JSON.
        modelled: whether the time of its delivery was fixed when it started.
        doubtful: whether it is in doubt and is about to be held.
        held: whether it is in doubt and waits for the decision of a person. This happens after a crash.
    """

    __slots__ = (
        "actor",
        "counted",
        "doubtful",
        "effect",
        "held",
        "kernel",
        "modelled",
        "ordinal",
        "outcome",
        "request",
        "request_hash",
        "state",
        "token",
        "waiting",
    )

    def __init__(self, effect: Effect) -> None:
        self.effect = effect
        self.request = encode(effect.request)  # a snapshot, because the actor may change its request later
        self.request_hash = hash_request(effect.kind, self.request)
        self.outcome: Outcome | None = None
        self.ordinal = 0
        self.token = 0
        self.waiting = 0
        self.modelled = effect.latency_ns is not None
        self.doubtful = False
        self.held = False
        self.counted = False  # whether it counts in `Effects.measured`
        self.state: Literal["new", "running", "done", "abandoned"] = "new"

    @property
    def key(self) -> str:
        """The idempotency key of this effect for external services. It is the same in each attempt."""
        return effect_key(self.kernel.effects.namespace, self.actor.name, self.ordinal)

    def arm(self, kernel: "Kernel", actor: Actor) -> None:
        """Start the effect. The kernel calls this method when the actor yields the handle."""
        self.kernel = kernel
        self.actor = actor
        self.waiting = actor.token
        kernel.effects.begin(self)

    def fire(self) -> None:
        """Deliver the outcome: the modelled latency has elapsed, or the deadline has passed."""
        if self.state == "running":
            self.kernel.effects.due(self)

    def undo(self, value: object) -> None:
        """No-op: the outcome stays on record, although the actor does not get it."""


def effect_key(namespace: str, actor: str, ordinal: int) -> str:
    """Return the idempotency key (32 hex digits) of an effect of an actor, the prefix of whose run is `namespace`."""
    return hashlib.sha256(encode((namespace, actor, ordinal))).hexdigest()[:32]


def hash_request(kind: str, request: bytes) -> str:
    """Return the hash (64 hex digits) of an effect's kind and its request as canonical JSON."""
    return hashlib.sha256(kind.encode() + b"\0" + request).hexdigest()


@coroutine
def perform(effect: Effect) -> Generator[Any, Any, Outcome]:
    """Run `effect` outside the core and wait for its outcome.

    Raises:
        ActorError: if the request is not a JSON value.
    """
    return (yield from _wait(EffectHandle(effect)))


@coroutine
def perform_handle(handle: EffectHandle) -> Generator[Any, Any, Outcome]:
    """Run the effect of a handle as `perform` does, for a caller that has to name the effect in the record."""
    return (yield from _wait(handle))


def _wait(handle: EffectHandle) -> Generator[Any, Any, Outcome]:
    try:
        outcome: Outcome = yield handle
    except (Cancelled, Exception):  # not GeneratorExit: garbage collection must not record anything
        if handle.state == "running":
            handle.kernel.effects.abandon(handle)
        raise
    return outcome


class Effects:
    """The effects of one kernel, with their deadlines and order.

    Attributes:
        performer: the object that carries them out.
        namespace: a prefix of their idempotency keys, which is unique to the run: its id.
        in_flight: the handles by (actor, ordinal).
        measured: the number of effects in flight for which simulated time has to follow real time.
        ended_ns: by actor, the time at which its last effect ended, in simulated nanoseconds.
        counts: the number of ended effects by kind of outcome.
        on_end: a function that is called after each end. A runner that waits at a barrier uses it.
        on_timeout: a function that is called with each handle that had no outcome at its deadline.
    """

    def __init__(self, kernel: "Kernel") -> None:
        self.performer: Performer | None = None
        self.namespace = ""
        self.in_flight: dict[tuple[str, int], EffectHandle] = {}
        self.measured = 0
        self.ended_ns: dict[str, int] = {}
        self.counts: dict[OutcomeKind, int] = {"ok": 0, "error": 0, "timeout": 0, "abandoned": 0}
        self.on_end: Callable[[], object] | None = None
        self.on_timeout: Callable[[EffectHandle], object] | None = None
        self._kernel = kernel
        self._held = 0
        self._ordinals: dict[str, int] = {}
        self._due: list[tuple[int, str, int, EffectHandle]] = []

    def begin(self, handle: EffectHandle) -> None:
        """Record the intent, schedule the delivery or the deadline, and let the performer start."""
        kernel, actor, effect = self._kernel, handle.actor, handle.effect
        if self.performer is None:
            raise ActorError(
                f"{actor.name} performs {effect.kind!r}, but this run has no host that carries out effects"
            )
        ordinal = handle.ordinal = self._ordinals.get(actor.name, 0) + 1
        self._ordinals[actor.name] = ordinal
        latency_kind: Literal["modelled", "measured"] = "modelled" if handle.modelled else "measured"
        kernel.recorder.intent(
            IntentRow(
                actor=actor.name,
                ordinal=ordinal,
                kind=effect.kind,
                request_hash=handle.request_hash,
                request=effect.request,
                latency=latency_kind,
                safety=effect.safety,
                time_ns=kernel.now,
            )
        )
        handle.state = "running"
        self.in_flight[actor.name, ordinal] = handle
        latency = effect.deadline_ns
        if effect.latency_ns is not None and effect.latency_ns < latency:
            latency = effect.latency_ns
            heappush(self._due, (kernel.now + latency, actor.name, ordinal, handle))
            kernel.look_out(kernel.now + latency)
        kernel.schedule(latency, actor, handle, handle.token)
        self._start(handle)

    def _start(self, handle: EffectHandle) -> None:
        assert self.performer is not None
        if self.performer.start(handle) and not handle.modelled:
            handle.counted = True
            self.measured += 1
            self._kernel.pause()  # from now on simulated time has to follow real time, which only the host knows

    def waits(self, actor: str) -> bool:
        """Return whether `actor` waits for an effect that is not held, so that it ends without a person."""
        handle = self.in_flight.get((actor, self._ordinals.get(actor, 0)))
        return handle is not None and not handle.held

    def under_way(self, actor: str) -> bool:
        """Return whether `actor` waits for an effect, held or not."""
        return (actor, self._ordinals.get(actor, 0)) in self.in_flight

    @property
    def pending(self) -> int:
        """The number of effects in flight that are not held."""
        return len(self.in_flight) - self._held

    def first_missing(self) -> int:
        """Return the earliest time (nanoseconds) at which an outcome is due that has not arrived yet."""
        due = self._due
        while due and not self._missing(due[0][3]):
            heappop(due)
        return due[0][0] if due else MAX_NS

    def lacking_beside(self, recorded: Collection[EffectHandle]) -> bool:
        """Return whether simulated time cannot go on even if the outcomes of some effects had arrived.

        Args:
            recorded: these effects.
        """
        first, due, places = self.first_missing(), self._due, [0]
        while places:  # through the part of the heap that is due first
            place = places.pop()
            if place < len(due) and due[place][0] == first:
                if self._missing(due[place][3]) and due[place][3] not in recorded:
                    return True
                places += (2 * place + 1, 2 * place + 2)
        return False

    def only_doubts(self) -> bool:
        """Return whether the kernel is blocked at this instant, and only by effects in doubt."""
        due = [handle for time, *_, handle in self._due if time <= self._kernel.now and self._missing(handle)]
        return bool(due) and all(handle.doubtful for handle in due)

    def _missing(self, handle: EffectHandle) -> bool:
        return handle.outcome is None and handle.state == "running" and handle.modelled

    def wanted(self, handle: EffectHandle) -> bool:
        """Return whether an outcome is still needed: the effect has not timed out and was not abandoned."""
        effect = handle.effect
        if handle.state != "running" or handle.outcome is not None:
            return False
        # A modelled latency that is not below the deadline always times out, even if the outcome arrives early.
        return not (handle.modelled and effect.latency_ns is not None and effect.latency_ns >= effect.deadline_ns)

    def record(self, handle: EffectHandle, outcome: Outcome) -> None:
        """Record the outcome of an effect. With measured latency, it is delivered at the present time and delta."""
        kernel = self._kernel
        stamp = None if handle.modelled else (kernel.now, kernel.delta)
        kernel.recorder.result(
            ResultRow(handle.actor.name, handle.ordinal, outcome.kind, outcome.value, outcome.attempts, stamp)
        )

    def post(self, handle: EffectHandle, outcome: Outcome) -> None:
        """Accept a recorded outcome. If the latency is measured, deliver it now, else at its scheduled time."""
        handle.outcome = outcome
        if not handle.modelled:
            self._kernel.drop_timer()
            self.end(handle)

    def due(self, handle: EffectHandle) -> None:
        """Deliver the outcome at its scheduled time, or time out at the deadline if there is none."""
        if handle.outcome is None:
            handle.outcome = Outcome("timeout")
            self.end(handle, "timeout")
            self._release(handle)
            if self.on_timeout is not None:
                self.on_timeout(handle)
        else:
            self.end(handle)

    def end(self, handle: EffectHandle, ending: Ending = "delivered") -> None:
        """Close `handle` and wake its actor."""
        self._close(handle, ending)
        if handle.actor.token == handle.waiting:
            self._kernel.wake(handle.actor, handle.outcome, handle, source=handle.actor)
        if self.on_end is not None:
            self.on_end()

    def abandon(self, handle: EffectHandle) -> None:
        """End the effect without an outcome, because its actor was cancelled while it waited."""
        handle.outcome = Outcome("abandoned")
        self._kernel.drop_timer()
        self._close(handle, "abandoned")
        self._release(handle)

    def abandon_all(self) -> None:
        """Record all effects in flight as abandoned, because the run ends."""
        for handle in list(self.in_flight.values()):
            self.abandon(handle)

    # -- effects in doubt, after a crash between an intent and its outcome

    def hold(self, handle: EffectHandle) -> None:
        """Hold an effect in doubt: it has no deadline and no outcome until a person decides."""
        handle.held = True
        self._held += 1
        handle.modelled = False  # it will end at the time at which the decision, or then the outcome, arrives
        handle.token += 1
        self._kernel.drop_timer()
        self._uncount(handle)
        if self.on_end is not None:
            self.on_end()  # a barrier need not wait for it

    def again(self, handle: EffectHandle) -> None:
        """Start a held effect again, as a person has decided."""
        self._unhold(handle)
        self._kernel.schedule(handle.effect.deadline_ns, handle.actor, handle, handle.token)
        self._start(handle)

    def settle(self, handle: EffectHandle, outcome: Outcome) -> None:
        """End a held effect with the outcome that a person has given."""
        self._unhold(handle)
        self.post(handle, outcome)

    def _unhold(self, handle: EffectHandle) -> None:
        self._held -= handle.held
        handle.held = False

    def _uncount(self, handle: EffectHandle) -> None:
        self.measured -= handle.counted
        handle.counted = False

    def _release(self, handle: EffectHandle) -> None:
        if self.performer is not None:
            self.performer.abandon(handle)

    def _close(self, handle: EffectHandle, ending: Ending) -> None:
        kernel, outcome = self._kernel, handle.outcome
        assert outcome is not None
        handle.state = "abandoned" if ending == "abandoned" else "done"
        handle.token += 1
        self._uncount(handle)
        self._unhold(handle)
        del self.in_flight[handle.actor.name, handle.ordinal]
        self.ended_ns[handle.actor.name] = kernel.now
        self.counts[outcome.kind] += 1
        kernel.recorder.closed(ClosedRow(handle.actor.name, handle.ordinal, ending, kernel.now, kernel.delta))
