"""Effects: everything that is not a function of (scenario, seed), and how it enters the core.

An actor says `outcome = await perform(effect)`. The work runs at the edge; the core only ever sees its
outcome, at a place in the order that is fixed (modelled latency) or recorded (measured latency).
"""

import hashlib
import types
from collections.abc import Callable, Generator
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Literal, get_args

import attrs

from sim.errors import ActorError, Cancelled, UsageError
from sim.kernel.actor import Actor
from sim.kernel.codec import encode
from sim.kernel.duration import MAX_NS
from sim.kernel.rows import ClosedRow, Ending, IntentRow, ResultRow

if TYPE_CHECKING:
    from sim.kernel.kernel import Kernel
    from sim.kernel.ports import Performer

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
        call: makes the outcome from the request; runs in a host task, and may be async. Its second argument is the
            effect's key, which is the same each time the effect is tried again: for services that honour one.
        latency_ns: the simulated time it takes (modelled), or None to let simulated time follow real time
            (measured).
        deadline_ns: simulated time after which the outcome is `timeout`.
        timeout: real seconds after which the edge gives up.
        safety: whether it may be repeated after a crash.

    Raises:
        UsageError: if a time is negative or not a number, or the safety is none.
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
            raise UsageError(f"the deadline of {self.kind!r} must be a whole number of nanoseconds, not {deadline!r}")
        if not 0 < self.timeout < 1e9:
            raise UsageError(f"the timeout of {self.kind!r} must be a finite number of seconds, not {self.timeout!r}")
        if self.safety not in get_args(Safety):
            raise UsageError(f"the safety of {self.kind!r} is {', '.join(get_args(Safety))}, not {self.safety!r}")


@attrs.frozen
class Outcome:
    """How an effect ended: failures are values, recorded like results."""

    kind: OutcomeKind
    value: Any = None
    attempts: int = 1


class EffectHandle:
    """One effect under way: a wait of the kernel, and the target of its own delivery entry.

    Attributes:
        request: what is asked for, as canonical JSON.
        modelled: whether its place of delivery was fixed when it began.
        doubtful: it is going to be held: whoever brings in what comes from outside knows it already.
        held: nobody knows whether it was done outside, and a person has not said yet (after a crash).
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
        self.request = encode(effect.request)  # as it is now: the actor may go on changing its own
        self.request_hash = hash_request(effect.kind, self.request)
        self.outcome: Outcome | None = None
        self.ordinal = 0
        self.token = 0
        self.waiting = 0
        self.modelled = effect.latency_ns is not None
        self.doubtful = False
        self.held = False
        self.counted = False  # simulated time follows real time for it
        self.state: Literal["new", "running", "done", "abandoned"] = "new"

    @property
    def key(self) -> str:
        """The key of this effect for services that honour one: the same whenever it is tried again."""
        name = encode((self.kernel.effects.namespace, self.actor.name, self.ordinal))
        return hashlib.sha256(name).hexdigest()[:32]

    def arm(self, kernel: "Kernel", actor: Actor) -> None:
        """Begin the effect: the kernel calls this when the actor has yielded the handle."""
        self.kernel = kernel
        self.actor = actor
        self.waiting = actor.token
        kernel.effects.begin(self)

    def fire(self) -> None:
        """Deliver: the place in the order that was fixed for the outcome, or the deadline, has come."""
        if self.state == "running":
            self.kernel.effects.due(self)

    def undo(self, value: object) -> None:
        """Nothing to give back: the outcome is recorded, the actor just never sees it."""


def hash_request(kind: str, request: bytes) -> str:
    """Return the hash (64 hex digits) of an effect's kind and its request as canonical JSON."""
    return hashlib.sha256(kind.encode() + b"\0" + request).hexdigest()


@types.coroutine
def perform(effect: Effect) -> Generator[Any, Any, Outcome]:
    """Have `effect` done outside the core and wait for its outcome.

    Raises:
        ActorError: if the request is not a JSON-like value.
    """
    handle = EffectHandle(effect)
    try:
        outcome: Outcome = yield handle
    except (Cancelled, Exception):  # not GeneratorExit: nothing is recorded while memory is freed
        if handle.state == "running":
            handle.kernel.effects.abandon(handle)
        raise
    return outcome


class Effects:
    """The effects of one kernel: those in flight, their deadlines and their order.

    Attributes:
        performer: who carries them out.
        namespace: what makes their keys differ from those of other runs: the run's id.
        in_flight: by (actor, ordinal).
        measured: how many of these simulated time follows real time for.
        ended_ns: when the last of each actor ended, simulated nanoseconds.
        on_end: called when one has ended, for a runner that waits at a barrier.
        on_timeout: called with one that had no outcome at its deadline.
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
        """Record the intent, fix the place of delivery or the deadline, and let the performer start."""
        kernel, actor, effect = self._kernel, handle.actor, handle.effect
        if self.performer is None:
            raise ActorError(
                f"{actor.name} performs {effect.kind!r}, but this run has no host that carries out effects"
            )
        ordinal = handle.ordinal = self._ordinals.get(actor.name, 0) + 1
        self._ordinals[actor.name] = ordinal
        known: Literal["modelled", "measured"] = "modelled" if handle.modelled else "measured"
        kernel.recorder.intent(
            IntentRow(
                actor.name, ordinal, effect.kind, handle.request_hash, effect.request, known, effect.safety, kernel.now
            )
        )  # fmt: skip
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
            self._kernel.pause()  # from now on simulated time follows real time, which only the host knows

    def waits(self, actor: str) -> bool:
        """Whether `actor` waits for an effect that will end without a person."""
        handle = self.in_flight.get((actor, self._ordinals.get(actor, 0)))
        return handle is not None and not handle.held

    def under_way(self, actor: str) -> bool:
        """Whether `actor` waits for an effect, one that a person has to decide about included."""
        return (actor, self._ordinals.get(actor, 0)) in self.in_flight

    @property
    def pending(self) -> int:
        """How many are in flight and will end without a person."""
        return len(self.in_flight) - self._held

    def first_missing(self) -> int:
        """Return the earliest time at which an outcome must be delivered that is not there yet."""
        due = self._due
        while due and not self._missing(due[0][3]):
            heappop(due)
        return due[0][0] if due else MAX_NS

    def only_doubts(self) -> bool:
        """Whether nothing but effects in doubt keeps the kernel from going on at this instant."""
        due = [handle for time, *_, handle in self._due if time <= self._kernel.now and self._missing(handle)]
        return bool(due) and all(handle.doubtful for handle in due)

    def _missing(self, handle: EffectHandle) -> bool:
        return handle.outcome is None and handle.state == "running" and handle.modelled

    def wanted(self, handle: EffectHandle) -> bool:
        """Whether an outcome from outside still counts: it did not time out, and was not abandoned."""
        effect = handle.effect
        if handle.state != "running" or handle.outcome is not None:
            return False
        # One that takes longer than its deadline times out, however soon the real answer came.
        return not (handle.modelled and effect.latency_ns is not None and effect.latency_ns >= effect.deadline_ns)

    def record(self, handle: EffectHandle, outcome: Outcome) -> None:
        """Record what came of an effect; a measured one gets its place in the order: here and now."""
        kernel = self._kernel
        stamp = None if handle.modelled else (kernel.now, kernel.delta)
        kernel.recorder.result(
            ResultRow(handle.actor.name, handle.ordinal, outcome.kind, outcome.value, outcome.attempts, stamp)
        )

    def post(self, handle: EffectHandle, outcome: Outcome) -> None:
        """Take an outcome that is wanted and recorded: a measured one is delivered now, a modelled one at its time."""
        handle.outcome = outcome
        if not handle.modelled:
            self._kernel.drop_timer()
            self.end(handle)

    def due(self, handle: EffectHandle) -> None:
        """The time of delivery has come, or the deadline, which alone may come without an outcome."""
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
        """The actor was cancelled while it waited: it never sees the outcome."""
        handle.outcome = Outcome("abandoned")
        self._kernel.drop_timer()
        self._close(handle, "abandoned")
        self._release(handle)

    def abandon_all(self) -> None:
        """The run ends: what is in flight is recorded as abandoned."""
        for handle in list(self.in_flight.values()):
            self.abandon(handle)

    # -- after a crash between an intent and its outcome

    def hold(self, handle: EffectHandle) -> None:
        """Nobody knows whether the effect was done: neither an outcome nor a deadline comes until a person decides."""
        handle.held = True
        self._held += 1
        handle.modelled = False  # its place in the order will be where the decision, or its outcome, arrives
        handle.token += 1
        self._kernel.drop_timer()
        self._uncount(handle)
        if self.on_end is not None:
            self.on_end()  # a barrier need not wait for it

    def again(self, handle: EffectHandle) -> None:
        """A person has decided that a held effect is to be done (again)."""
        self._unhold(handle)
        self._kernel.schedule(handle.effect.deadline_ns, handle.actor, handle, handle.token)
        self._start(handle)

    def settle(self, handle: EffectHandle, outcome: Outcome) -> None:
        """A person has said what came of a held effect."""
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
