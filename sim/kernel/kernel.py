"""The kernel: simulated time, the order of steps, and the loop that runs one actor at a time.

The order key of a step is (time, delta, priority, source, source counter). If one event wakes several actors, each
actor is a further part of the key. Sources and actors are ordered by their ranks: those that exist before the run by
the order of their declaration, then those that were made during the run, by the key of the step that made them.

Time is superdense (Lee and Zheng, "Operational semantics of hybrid systems", 2005). A step that is caused at the
present instant runs in the next delta; a later time starts at delta 0. One (time, delta) is called a round. All
entries of a round are known before the first one runs. The round is therefore sorted once, and no entry can be added
to it after it has started.

The source of an entry is the actor (or the host, scenario or supervisor) that caused it. Each source counts the entries
that it causes, so the key needs no global counter, by which SimPy and others order equal times: with one, each further
entry would change the numbers of all later ones, and an agent that is added the order of the others. Total orders
without such a counter are known from parallel simulation (McGlohon and Carothers, "Toward unbiased deterministic total
orderings of parallel simulations with simultaneous events", 2021, who break ties by random values). Entries of the
present instant are in a plain list; later entries are in the future-event list, which is no heap (see `future_events`).

The doubt about a fixed order: at equal times, the agent that is declared first always comes first, and a result can
depend on that. With `shuffled`, a hash of seed, round and source takes the place of the rank, so that runs in other
orders show whether it does.

Actors are coroutines that are resumed with `send`. They are not asyncio or trio tasks, for these reasons: asyncio
timers with equal times fire in heap order, trio shuffles each batch on purpose, and a wake-up costs two to six times
as much. The price is that an actor cannot await what belongs to an event loop: such an await is an error, and an
effect (see `effects`) does it for the actor. Threads and greenlets were not chosen either: any call could switch to
another actor then, while a coroutine shows by `await` where others run.

If the C extension is available, `compiled/loop.c` replaces `_run_some`. The doubt is that both must behave the same, so
tests run both and compare whole traces, and rare cases are left to the Python functions.
"""

import contextlib
import enum
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from functools import lru_cache
from operator import index
from typing import Any, SupportsIndex

from sim.base.errors import (
    ActorError,
    Cancelled,
    ForeignAwaitError,
    Interrupt,
    KernelError,
    OutOfMemoryError,
    RunError,
    UsageError,
)
from sim.kernel.actor import (
    FIRST_ACTOR,
    FIRST_DERIVED,
    HOST,
    SCENARIO,
    SUPERVISOR,
    Actor,
    Exit,
    Rank,
    Source,
    identity,
    owned_ordinal,
)
from sim.kernel.compiled import COMPILED
from sim.kernel.coroutines import ONE_CALL, UNDER_WAY, check_coroutine, has_begun
from sim.kernel.duration import MAX_NS, to_seconds
from sim.kernel.effects import Effects
from sim.kernel.foreign import named
from sim.kernel.future_events import NEVER, Entry, FutureEvents
from sim.kernel.order import MAX_DELTAS, WakeBatch, livelock, sort, spread
from sim.kernel.ports import HasTopic, NullRecorder, Recorder
from sim.kernel.rng import Streams, derive
from sim.kernel.rows import InputRow

_CHUNK = 256  # steps between two releases of used entries: their memory is reused while it is still in the CPU cache
ARMED = object()
"""The value that an actor yields if it has already registered itself with its wait."""

RETURNED = Exit("returned")
_RECANCELS = 100  # how often a swallowed cancellation is raised again before the actor is abandoned
_CHILD_BITS = 20  # low bits of a derived ordinal: the index of the actor among the children of its parent
_MANY_NEW = 1000  # how many new coroutines are remembered, to notice one that is spawned twice
_AFTER_ALL = (
    2  # the priority of entries that run after all others of their round; see also `sim.resources.capacity.LAST`
)
_PURGE_FROM = 1024  # minimum number of stale timers before they are removed


class Pause(enum.Enum):
    """Why `Kernel.run` returned."""

    BUDGET = "the given number of steps has run"
    LIMIT = "what comes next is not before the limit"
    IDLE = "nothing is due, ever"
    BLOCKED = "the outcome of an effect is due and not there yet"
    HALTED = "a step asked for it"


# -- targets of an entry other than an actor. Each target has a `token`, as an actor has. An entry is stale if its token
# differs from the token of its target.


class Timer:
    """A callback at a simulated time. After `cancel` it does not run."""

    __slots__ = ("callback", "kernel", "source", "token")

    def __init__(self, kernel: "Kernel", source: Source, callback: Callable[[], object]) -> None:
        self.kernel = kernel
        self.source = source
        self.callback = callback
        self.token = 0

    def fire(self) -> None:
        """Run the callback. The kernel calls this method when the timer is due."""
        self.token += 1
        self.kernel.current = self.source
        self.callback()

    def cancel(self) -> None:
        """Cancel the callback. After it has run, this is a no-op."""
        if self.token == 0:
            self.token += 1
            self.kernel.drop_timer()


class Ticker(Timer):
    """A callback that runs once per period until `cancel` is called. One object serves all calls."""

    __slots__ = ("period",)

    def __init__(self, kernel: "Kernel", source: Source, callback: Callable[[], object], period: int) -> None:
        super().__init__(kernel, source, callback)
        self.period = period

    def fire(self) -> None:
        """Schedule the next call, then run the callback: the next call precedes everything that this call causes."""
        kernel, source = self.kernel, self.source
        kernel.current = source
        source.counter = counter = source.counter + 1
        kernel.calendar.push((kernel.now + self.period, 0, source.rank, counter, self, 0))
        self.callback()


class LastTimer(Timer):
    """A callback that runs once no other entry of the present instant is left."""

    __slots__ = ()

    def fire(self) -> None:
        """Run the callback, or wait for the next round of this instant if there is one."""
        if self.kernel.ready:
            self.kernel.schedule(0, self.source, self, 0, _AFTER_ALL)
        else:
            super().fire()


class Throw:
    """A target that raises an error in an actor at the place where it waits."""

    __slots__ = ("actor", "error", "expected", "kernel", "token")

    def __init__(self, kernel: "Kernel", actor: Actor, error: BaseException) -> None:
        self.kernel = kernel
        self.actor = actor
        self.error = error
        self.token = 0
        self.expected = actor.token

    def fire(self) -> None:
        """Raise the error, unless another event has woken or ended the actor in the meantime."""
        if self.actor.token == self.expected and self.actor.coro is not None:
            self.kernel.throw_now(self.actor, self.error)


class Interruption(Throw):
    """Like `Throw`; afterwards it schedules the next queued interrupt of the same actor.

    Attributes:
        queue: the interrupts that follow. The kernel drops its reference to it when the actor ends, so that a later
            life of the same actor does not get them.
    """

    __slots__ = ("queue",)

    def __init__(self, kernel: "Kernel", actor: Actor, error: BaseException, queue: list[Interrupt]) -> None:
        super().__init__(kernel, actor, error)
        self.queue = queue

    def fire(self) -> None:
        """Raise the interrupt. An actor that has been resumed in the meantime gets it at its next wait."""
        kernel, actor = self.kernel, self.actor
        if actor.token != self.expected and isinstance(self.error, Interrupt):
            self.queue.insert(0, self.error)
        super().fire()
        kernel.current = actor
        kernel.interrupt_next(actor, self.queue)


_WOKEN = (Actor, Throw, Interruption, WakeBatch)  # an entry with such a target is a wake-up


class Kernel:
    """Runs actors in simulated time.

    Args:
        seed: the seed of all random streams.
        shuffled: whether ties are ordered by a hash of (seed, time, delta, source) instead of by source rank.
        order: with `shuffled`, which of the orders of this seed: a further part of what is hashed, unless it is 0.
        max_deltas: the number of rounds at one instant after which a livelock is reported.
        recorder: stores events, inputs and effects.

    Attributes:
        now: simulated time in nanoseconds.
        delta: the index of the round within the present instant.
        current: the source on whose behalf code runs now, or None while the kernel is paused.
        steps: the number of entries that have run.
        inputs: the handler of each kind of input.
        surroundings: makes a context in which code of actors runs. A host hides its event loop by it.
        placed: by kind of input, a function that is called when the input is accepted, before its handler runs.
        addressee: returns whom an input (kind, data) concerns, or an empty text.
        advancing: called with the next time (nanoseconds) before simulated time advances to it, when all of the present
            instant has happened. It only reads. None, the default: nothing watches; watching makes the loop slower.
    """

    __slots__ = (
        "__weakref__",
        "_begun",
        "_blocked_from",
        "_children",
        "_declared",
        "_entry",
        "_halted",
        "_horizon",
        "_interrupts",
        "_limit",
        "_made",
        "_max_deltas",
        "_midway",
        "_names",
        "_new",
        "_new_at",
        "_owned",
        "_purge_at",
        "_reached",
        "_running",
        "_shuffled",
        "_stale",
        "actors",
        "addressee",
        "advancing",
        "calendar",
        "crowded",
        "current",
        "delta",
        "effects",
        "host",
        "inputs",
        "kept",
        "now",
        "placed",
        "ready",
        "recorder",
        "scenario",
        "seed",
        "steps",
        "streams",
        "supervisor",
        "surroundings",
        "throws",
    )

    def __init__(
        self,
        seed: int = 0,
        *,
        shuffled: bool = False,
        order: int = 0,
        max_deltas: int = MAX_DELTAS,
        recorder: Recorder | None = None,
    ) -> None:
        if max_deltas.__class__ is not int or max_deltas < 1:
            raise UsageError(f"max_deltas is a whole number from 1, not {max_deltas!r:.60}")
        self.now = 0
        self.delta = 0
        self.steps = 0
        self.seed = seed = _whole(seed)
        self.actors: dict[int, Actor] = {}  # by ordinal; the only strong reference to a waiting actor
        self._shuffled = 1 + order if shuffled else 0  # the order, counted from 1
        self._max_deltas = max_deltas
        self.calendar = FutureEvents()
        self.ready: list[Entry] = []  # entries for the next round of this instant; never replaced by another list
        self.crowded = False  # whether `ready` holds a WakeBatch
        self._entry: Entry = (0, 0, SCENARIO, 0, None, 0)  # the entry that runs now
        self._begun = -1  # the latest instant that has started; `now` may be later
        self._limit = 0
        self._horizon = 0  # from this time on, the loop must check whether it has to pause
        self._blocked_from = MAX_NS  # the earliest time at which an outcome may be missing
        self._halted = False
        self._running = False
        self._midway = False  # whether the budget or an error stopped the loop, possibly within an instant
        self.streams = Streams(seed)
        self.recorder: Recorder = recorder or NullRecorder()
        self.kept: frozenset[str] | None = None  # the topics whose events the recorder gets; None: all
        self.host = Source("host", HOST)
        self.scenario = Source("scenario", SCENARIO)
        self.supervisor = Source("supervisor", SUPERVISOR)
        self.current: Source | None = self.scenario
        self.effects = Effects(self)
        self.inputs: dict[str, Callable[[Any], object]] = {}
        self.placed: dict[str, Callable[[Any], object]] = {}
        self.addressee: Callable[[str, Any], str] = lambda kind, data: ""
        self.advancing: Callable[[int], object] | None = None
        self._owned: dict[tuple[object, ...], Source] = {}
        self._names: dict[int, str] = {}  # by ordinal: the names of the actors, for shuffled ties
        self._declared = 0
        self._made = 0  # the number of actors made during the run; it orders those of one step only
        self._children: dict[int, int] = {}  # by ordinal of the parent: the number of actors it made during the run
        self.surroundings: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
        self.throws = 0  # the number of errors that were raised in actors
        self._interrupts: dict[int, list[Interrupt]] = {}  # by ordinal: interrupts queued after the pending one
        self._new = set[int]()  # ids of the coroutines that were spawned last in this round; only for a check
        self._new_at = (0, 0)
        self._stale = 0
        self._purge_at = _PURGE_FROM
        self._reached: int | None = None  # the committed time, while an actor runs ahead of it

    @property
    def seconds(self) -> float:
        """Simulated time in seconds."""
        return to_seconds(self.now)

    @property
    def running(self) -> bool:
        """Whether the caller is code of a step."""
        return self._running

    # -- the loop

    def run(self, limit: int = MAX_NS, budget: int = 2**62) -> Pause:
        """Run all entries before `limit` (nanoseconds, exclusive), at most `budget` steps. Return why it stopped.

        Raises:
            KernelError: if it is called within a step: the loop is not re-entrant.
            LivelockError: if simulated time does not advance.
            BaseException: the error of an actor that crashed and has no `on_exit`.
        """
        if self._running:
            raise KernelError("the kernel is already running", hint="within a step, spawn an actor or use call_at")
        self._limit = 0 if self._halted else limit
        self._look_at_limits()
        self._running = True
        self._new.clear()  # they begin now
        try:
            with self.surroundings():
                while budget > 0:
                    pause = self._run_some(min(budget, _CHUNK))
                    if pause is not Pause.BUDGET:
                        return pause
                    self.calendar.relieve(self._begun)
                    budget -= _CHUNK
            return Pause.BUDGET
        finally:
            self._running = False

    def drain(self) -> None:
        """Run the entries caused at this instant, and their consequences, but not the entries scheduled for it."""
        due = self.calendar.cut(self.now)
        try:
            self.run(0)
        finally:
            self.calendar.insert(due)
            self._begun = -1  # if the scheduled entries run later, their instant starts again

    def keep_only(self, actors: Collection[Actor]) -> None:
        """Drop all entries of this instant but those of `actors`. At the end of a run, nothing else may happen."""
        self.calendar.cut(self.now)
        self.ready[:] = [entry for entry in self.ready if entry[4] in actors]

    def _run_some(self, left: int) -> Pause:  # noqa: C901 - inlined for speed: a call costs a tenth of a wake-up
        budget, ready, calendar, bucket_of = left, self.ready, self.calendar, self.calendar.buckets.get
        self._midway = True
        begun = self._begun
        try:
            while True:
                shift = calendar.shift
                for entry in calendar.reader:  # the main loop: in key order, each actor runs until its next wait
                    time = entry[0]
                    if time != begun:
                        if ready and time > self.now and self.now < self._blocked_from:
                            entry = self._caused()  # the next round of this instant precedes later entries
                            begun = time = self.now
                        elif time >= self._horizon or (ready and time > self.now):
                            calendar.rewind()
                            break
                        else:
                            self.now = begun = time
                            self.delta = 0
                    target = entry[4]
                    token = entry[5]
                    if target.token == token:  # else the entry is stale: the target was cancelled or woken otherwise
                        self._entry = entry
                        if target.__class__ is Actor:
                            self.current = target
                            target.token = token = (token | 1) + 1
                            try:
                                request = target.coro.send(target.value)  # type: ignore[union-attr]  # hot path
                            except BaseException as error:
                                self._ended(target, error)
                            else:
                                if request.__class__ is int:
                                    due = time + request
                                    bucket = bucket_of(due >> shift)
                                    if bucket is not None and request > 0:  # a bucket found here is not open yet
                                        target.counter = counter = target.counter + 1
                                        bucket.append((due, 0, target.rank, counter, target, token))
                                    else:
                                        self._rest(target, request, token)
                                elif request is not ARMED:
                                    self._arm(target, request)
                        else:
                            target.fire()
                    left -= 1
                    if not left:
                        return Pause.BUDGET
                self._begun = begun
                pause = self._go_on()
                if pause is not None:
                    self._midway = False
                    return pause
                begun = self._begun
        finally:
            self._begun = begun
            self.current = None
            self.steps += budget - left

    def _go_on(self) -> Pause | None:
        """Put the entries that run next in front of the calendar's reader, or return why none may run."""
        calendar = self.calendar
        time = calendar.due()
        if self.ready and time > self.now:
            if self._blocked_from <= self.now and self._missing(self.now):
                return Pause.BLOCKED
            calendar.insert(self._next_delta())
            self._begun = self.now
            return None
        if time >= self._limit:
            if self._halted:
                self._halted = False
                return Pause.HALTED
            return Pause.IDLE if time == NEVER else Pause.LIMIT
        if self._blocked_from <= time and self._missing(time):
            return Pause.BLOCKED
        if not self._horizon:  # each instant begins here
            if self.advancing is not None and time > self.now:
                self.advancing(time)
            self.now = self._begun = time
            self.delta = 0
            if self._shuffled:
                self._shuffle(calendar.open)
        return None

    def _caused(self) -> Entry:
        """Insert the next round of this instant before the entry that was read last. Return the round's first entry."""
        if len(self.ready) > 1 or self.crowded or self.delta == self._max_deltas:
            self.calendar.rewind()  # before `_next_delta`, which may raise LivelockError
            self.calendar.insert(self._next_delta())
            return next(self.calendar.reader)  # type: ignore[no-any-return]
        self.delta += 1
        entry = self.ready.pop()  # fast path for a single entry, common with resources
        calendar = self.calendar
        calendar.open.insert(len(calendar.open) - calendar.reader.__length_hint__() - 1, entry)
        return entry

    def _next_delta(self) -> list[Entry]:
        """Start the next round of this instant and return its entries in order."""
        batch = self.ready.copy()
        if self.delta == self._max_deltas:
            raise livelock(spread(batch), self.now, self._max_deltas)
        self.delta += 1
        if len(batch) > 1:
            sort(batch, self._ties if self._shuffled else None)
        self.ready.clear()
        if self.crowded:
            self.crowded = False
            if self._shuffled:
                return spread(batch, self._ties)
            return batch if COMPILED else spread(batch)  # the C loop expands each WakeBatch itself
        return batch

    def _shuffle(self, bucket: list[Entry]) -> None:
        """Shuffle the entries of this instant in place."""
        start = end = len(bucket) - self.calendar.reader.__length_hint__()
        while end < len(bucket) and bucket[end][0] == self.now:
            end += 1
        batch = bucket[start:end]
        sort(batch, self._ties)
        bucket[start:end] = batch

    def _ties(self, rank: int | Rank) -> int:
        """Return the place of a source among ties, by its name: its ordinal depends on how many others there are."""
        ordinal = identity(rank)
        return derive(self.seed, self.now, self.delta, self._names.get(ordinal, ordinal), *self.order)

    @property
    def order(self) -> tuple[int, ...]:
        """What distinguishes this shuffled order from others of the same seed; empty for the first one."""
        return (self._shuffled - 1,) if self._shuffled > 1 else ()

    def _missing(self, time: int) -> bool:
        self._blocked_from = self.first_missing()
        self._look_at_limits()
        return self._blocked_from <= time

    def _look_at_limits(self) -> None:
        """Set the time from which the loop checks for a pause before each instant.

        In shuffled order, and if the advance of time is watched, it always does.
        """
        always = self._shuffled or self.advancing is not None
        self._horizon = 0 if always else min(self._limit, self._blocked_from)

    def schedule(self, delay: int, source: Source, target: Any, token: int, priority: int = 0) -> None:
        """Add an entry for `target` after `delay` nanoseconds, caused by `source`.

        Raises:
            KernelError: if the delay is negative.
        """
        source.counter += 1
        now = self.now
        if delay > 0:
            self.calendar.push((now + delay, priority, source.rank, source.counter, target, token))
        elif delay == 0:
            self.ready.append((now, priority, source.rank, source.counter, target, token))
        else:
            raise KernelError(f"{source.name} asked for a wake-up {-delay} ns in the past")

    # -- what steps do

    def wake(self, actor: Actor, value: Any, via: Any, source: Source | None = None) -> None:
        """End the wait of `actor`: it runs at this instant in the next delta, and its wait returns `value`.

        Args:
            actor: the waiting actor; its other registrations become stale.
            value: the value that its wait returns.
            via: the wait that gave the value and can take it back.
            source: the source that causes the wake-up; `current` by default.
        """
        source = source or self.current or self.acting()
        actor.token = token = actor.token + 1
        actor.value = value
        actor.via = via
        source.counter = counter = source.counter + 1
        self.ready.append((self.now, 0, source.rank, counter, actor, token))

    def throw(self, actor: Actor, error: BaseException) -> None:
        """Raise `error` in `actor` where it waits, at this instant in the next delta."""
        self._throw(actor, error)

    def _throw(self, actor: Actor, error: BaseException, queue: list[Interrupt] | None = None) -> None:
        """Withdraw the wait of `actor`, and raise `error` in it in the next delta; then the interrupts in `queue`."""
        source = self.acting()
        self.throws += 1
        value, via = actor.value, actor.via if actor.token & 1 else None
        actor.token = (actor.token | 1) + 1
        actor.value = None
        actor.via = None
        throw = Throw(self, actor, error) if queue is None else Interruption(self, actor, error, queue)
        self.schedule(0, source, throw, throw.token)
        self.drop_timer()  # the actor may have slept; an overcount only makes the next purge earlier
        if via is not None:
            via.undo(value)

    def _too_late(self, actor: Actor) -> bool:
        """Return whether the wait of `actor` has ended for good, because others already use what it gave them.

        The actor then sees the end of its wait, and an interrupt or a cancellation comes at its next wait. trio has the
        same rule for every operation that has succeeded.
        """
        final = getattr(actor.via, "final", None) if actor.token & 1 else None
        return final is not None and final()

    def _after_step(self, actor: Actor, callback: Callable[[], object]) -> None:
        """Call `callback` after the step for which `actor` has been woken: priority 1 is behind all wake-ups."""
        source = self.acting()
        timer = Timer(self, source, callback)
        self.schedule(0, source, timer, timer.token, 1)

    def cancel(self, actor: Actor) -> None:
        """Cancel `actor`: `Cancelled` is raised where it waits, and again at each later wait until it ends.

        A value that was handed over to the actor but not yet received is given back. What it has put is withdrawn,
        unless another actor has taken it already: then its wait ends, and `Cancelled` is raised at its next wait.
        """
        if actor.exit is not None or actor.cancelling:
            return
        if self._too_late(actor):
            coro = actor.coro
            self._after_step(actor, lambda: self.throw(actor, Cancelled()) if actor.coro is coro else None)
        else:
            self.throw(actor, Cancelled())  # correct for self-cancellation too: the error is due after the next wait
        actor.cancelling = True

    def interrupt(self, actor: Actor, cause: object = None) -> bool:
        """Raise `Interrupt(cause)` in `actor` where it waits, at this instant in the next delta.

        The wait is withdrawn immediately: it takes nothing. A value that was handed over but not yet received is given
        back. What the actor has put is withdrawn, unless another actor has taken it already: then the wait ends, and
        the interrupt is raised at the next wait. An actor that has not started is interrupted at its first wait.
        Several interrupts arrive in order, one after the other.

        Args:
            actor: the actor to interrupt.
            cause: the reason, which the actor reads from `Interrupt.cause`.

        Returns:
            Whether the actor gets the interrupt. It does not if it has ended or is being cancelled. An agent does not
            between two iterations, see `AgentLoop.interrupt`.

        Raises:
            UsageError: if an actor interrupts itself.
        """
        source = self.acting()
        if actor is source:
            raise UsageError(f"{actor.name} cannot interrupt itself", hint="raise an error, or return")
        if actor.listener is not None and (answer := actor.listener.on_interrupt()) is not None:
            return answer
        if actor.coro is None or actor.cancelling:
            return False
        if actor.ordinal in self._interrupts:
            self._interrupts[actor.ordinal].append(Interrupt(cause))
            return True
        queue = self._interrupts[actor.ordinal] = []
        if not has_begun(actor.coro) or self._too_late(actor):
            queue.append(Interrupt(cause))
            self._after_step(actor, lambda: self.interrupt_next(actor, queue))
        else:
            self._throw(actor, Interrupt(cause), queue)
        return True

    def interrupt_next(self, actor: Actor, queue: list[Interrupt]) -> None:
        """Raise the next queued interrupt of `actor`, if it is still alive and can be interrupted."""
        if self._interrupts.get(actor.ordinal) is not queue:
            return  # the actor has ended since
        while queue and not actor.cancelling:
            if self._too_late(actor):
                self._after_step(actor, lambda: self.interrupt_next(actor, queue))
                return
            interrupt = queue.pop(0)
            answer = None if actor.listener is None else actor.listener.on_interrupt()
            if answer is None:
                self._throw(actor, interrupt, queue)
                return
            if not answer and actor.listener is not None:
                actor.listener.missed(interrupt)
        self._interrupts.pop(actor.ordinal, None)

    def spawn(
        self,
        name: str,
        coro: Coroutine[Any, Any, Any],
        *,
        on_exit: Callable[[Actor, Exit], object] | None = None,
    ) -> Actor:
        """Start an actor at this instant in the next delta. See `adopt` for its ordinal.

        Raises:
            UsageError: if `coro` is not a coroutine, or has been started or spawned before.
        """
        check_coroutine(name, coro)
        self._note_new(name, coro)
        actor = self.adopt(name)
        actor.on_exit = on_exit
        self.begin(actor, coro)
        return actor

    def _note_new(self, name: str, coro: Coroutine[Any, Any, Any]) -> None:
        """Refuse a coroutine that was spawned in the present round: its state does not show this before it begins."""
        self.acting()  # first: it refuses a call from outside before anything changes
        place = self.now, self.delta
        if place != self._new_at or len(self._new) > _MANY_NEW:
            self._new_at = place
            self._new.clear()
        if id(coro) in self._new:
            raise UsageError(f"the coroutine of {name} was spawned already", hint=ONE_CALL)
        self._new.add(id(coro))

    def adopt(self, name: str) -> Actor:
        """Create an actor without a coroutine.

        Before the run, the actor gets the next declared ordinal. During the run, its ordinal is derived from the
        ordinal of its parent (the source that creates it), so that it does not depend on what others create. Its place
        in the order follows from the step that creates it, see `Rank`.

        Raises:
            KernelError: if another actor has the same ordinal.
        """
        parent = self.acting()
        if parent is self.scenario:
            ordinal = FIRST_ACTOR + self._declared
            self._declared += 1
        else:
            children = self._children[parent.ordinal] = self._children.get(parent.ordinal, 0) + 1
            ordinal = FIRST_DERIVED + _block(parent.ordinal) + children
        if ordinal in self.actors:
            raise KernelError(f"the actors {name} and {self.actors[ordinal].name} have the same ordinal {ordinal}")
        actor = Actor(name, ordinal)
        if parent is not self.scenario:
            _, priority, source, counter, target, _ = self._entry
            ran = getattr(target, "actor", target)  # a Throw runs its actor
            self._made += 1
            rank = ran.rank if isinstance(ran, Actor) else SCENARIO
            actor.rank = Rank(ordinal, (self.now, self.delta, priority, source, counter), rank, self._made)
        return actor

    def begin(self, actor: Actor, coro: Coroutine[Any, Any, Any]) -> None:
        """Give `actor` a coroutine and run it at this instant in the next delta."""
        self.wake(actor, None, None)
        actor.coro = coro
        actor.cancelling = False
        self.actors[actor.ordinal] = actor
        if self._shuffled:
            self._names[actor.ordinal] = actor.name

    def begin_now(self, actor: Actor, coro: Coroutine[Any, Any, Any]) -> None:
        """Give `actor` a coroutine and run its first step immediately, within the present step."""
        self.run_now(actor, lambda: coro)

    def run_now(self, actor: Actor, step: Callable[[], Coroutine[Any, Any, Any] | None]) -> None:
        """Run a step of `actor` immediately, within the present step, as the first step of a coroutine.

        Args:
            actor: an actor without a coroutine.
            step: does the work as far as it does not wait, and returns a coroutine with the rest; None: it is done.
        """
        actor.coro = UNDER_WAY
        actor.cancelling = False
        actor.token = (actor.token | 1) + 1
        actor.value = actor.via = None
        before, self.current = self.current, actor
        try:
            rest = step()
            if rest is not None:
                self.actors[actor.ordinal] = actor
                actor.coro = rest
                request = rest.send(None)
        except BaseException as error:
            self._ended(actor, error)
        else:
            if rest is None:
                self._close(actor, RETURNED)
            else:
                self._arm(actor, request)
        finally:
            self.current = before

    def resume_now(self, actor: Actor, value: Any) -> None:
        """Run the next step of `actor` immediately, within the present step. Its wait returns `value`."""
        assert actor.coro is not None
        actor.token = (actor.token | 1) + 1
        before, self.current = self.current, actor
        try:
            request = actor.coro.send(value)
        except BaseException as error:
            self._ended(actor, error)
        else:
            self._arm(actor, request)
        finally:
            self.current = before

    def call_at(
        self, time: int, callback: Callable[[], object], source: Source | None = None, *, priority: int = 0
    ) -> Timer:
        """Call `callback` at a simulated time (nanoseconds, not before `now`) on behalf of `source`.

        With a negative `priority` it is called before everything else that is due in its round.

        Raises:
            UsageError: if the time or the priority is not a whole number.
            KernelError: if the time has passed.
        """
        if time.__class__ is not int or priority.__class__ is not int:
            raise UsageError(
                f"the time (ns) and the priority of a call are whole numbers, not {time!r:.60} and {priority!r:.60}",
                hint="write round(seconds * 1e9)",
            )
        source = source or self.current or self.acting()
        timer = Timer(self, source, callback)
        self.schedule(time - self.now, source, timer, 0, priority)
        return timer

    def call_for(self, owner: Source, time: int, callback: Callable[[], object], source: Source) -> Timer:
        """Call `callback` as `call_at`; `source` gives the order key, and what the callback does, `owner` causes."""
        timer = Timer(self, owner, callback)
        self.schedule(time - self.now, source, timer, 0)
        return timer

    def call_last(self, callback: Callable[[], object], source: Source) -> Timer:
        """Call `callback` on behalf of `source` at this instant, after all other entries and their consequences.

        Only inputs and outcomes of effects, which the host places at the end of an instant, can come later.
        """
        timer = LastTimer(self, source, callback)
        self.schedule(0, source, timer, 0, _AFTER_ALL)
        return timer

    def call_every(self, period: int, callback: Callable[[], object], source: Source | None = None) -> Ticker:
        """Call `callback` every `period` nanoseconds on behalf of `source`, until the returned ticker is cancelled.

        This is the cheapest kind of agent: it has no coroutine and no state machine, and one object serves all steps.

        Raises:
            UsageError: if the period is not a positive integer.
        """
        if period.__class__ is not int or period <= 0:
            raise UsageError(f"a period must be a whole number of nanoseconds above 0, not {period!r}")
        source = source or self.acting()
        ticker = Ticker(self, source, callback, period)
        self.schedule(period, source, ticker, 0)
        return ticker

    def emit(self, topic: str, data: object, actor: str | None = None) -> tuple[int, int]:
        """Record an event and return its identity: (source ordinal, source counter).

        An event that is not kept has an identity as well, so that the run is the same whatever is recorded of it.

        Args:
            topic: the dotted name of the event.
            data: a JSON value. It must not be changed afterwards.
            actor: the name of the actor that the event concerns; the present source by default.
        """
        source = self.current or self.acting()
        ordinal = source.ordinal
        source.counter = counter = source.counter + 1
        if self.kept is not None and topic not in self.kept:
            return ordinal, counter
        entry = self._entry
        cause = identity(entry[2]), entry[3]
        self.recorder.event(
            (self.now, self.delta, entry[1], ordinal, counter, actor or source.name, topic, data, cause)
        )
        return ordinal, counter

    def report(self, data: HasTopic, actor: str | None = None) -> tuple[int, int]:
        """Record an event of the simulation itself; see `emit`.

        Args:
            data: its data, which name its topic.
            actor: see `emit`.
        """
        return self.emit(data.TOPIC, data, actor)

    def pass_over(self, topic: str, data: object, actor: str) -> None:
        """Count an event that is not recorded, and tell it to those who listen to the recorder; see `emit`."""
        source = self.current or self.acting()
        source.counter = counter = source.counter + 1
        hear = getattr(self.recorder, "unrecorded", None)
        if hear is not None:
            entry = self._entry
            cause = identity(entry[2]), entry[3]
            hear((self.now, self.delta, entry[1], source.ordinal, counter, actor, topic, data, cause))

    @contextlib.contextmanager
    def one_event(self) -> Iterator[None]:
        """Treat all wake-ups within the block as one event, which takes one counter of the source."""
        source = self.acting()
        source.counter += 1
        counter, mark = source.counter, len(self.ready)
        yield
        self.wake_as_one(mark, source, counter)

    def wake_as_one(self, mark: int, source: Source, counter: int) -> None:
        """Give all wake-ups that one event caused the same order key; among them, the ranks of the actors decide.

        Args:
            mark: the length of `ready` before the event.
            source: the source of the event.
            counter: the counter of the event. The source counts on from there if only these wake-ups have used
                counters since.
        """
        ready = self.ready
        if len(ready) <= mark + 1 and self._wake_one(mark, source, counter):
            return
        woken, rest, counted = list[Any](), list[Entry](), 0
        for entry in ready[mark:]:
            _, priority, rank, _, target, token = entry
            if priority or target.__class__ not in _WOKEN:
                rest.append(entry)
                continue
            counted += rank == source.rank
            woken += target.waiting if target.__class__ is WakeBatch else (target, token)
        ready[mark:] = rest
        if woken:
            ready.append(self._entry_for(woken, source, counter))
        if source.counter - counter == counted:
            source.counter = counter

    def _wake_one(self, mark: int, source: Source, counter: int) -> bool:
        """Handle the case of at most one plain wake-up (the hot path of messages). Return whether it applied."""
        if len(self.ready) == mark:
            return True
        time, priority, rank, _, target, token = self.ready[mark]
        if priority or target.__class__ is not Actor or rank != source.rank or source.counter != counter + 1:
            return False
        self.ready[mark] = (time, 0, rank, counter, target, token)
        source.counter = counter
        return True

    def _entry_for(self, woken: list[Any], source: Source, counter: int) -> Entry:
        if len(woken) == 2:
            return (self.now, 0, source.rank, counter, woken[0], woken[1])
        batch = WakeBatch(self.throws)
        batch.waiting = woken
        batch.fired = True
        batch.sort()
        self.crowded = True
        return (self.now, 0, source.rank, counter, batch, 0)

    @property
    def entry(self) -> Entry:
        """The entry that runs, or that has run last."""
        return self._entry

    @property
    def owned(self) -> Mapping[tuple[object, ...], Source]:
        """The sources that act for one owner, in the order in which they came; see `source_for`."""
        return self._owned

    def step_under_way(self) -> object:
        """Return an object that is different at each step, or None between runs. The watchdog uses it."""
        return None if self.current is None else self._entry

    def acting(self) -> Source:
        """Return the source on whose behalf code runs now.

        Raises:
            KernelError: if the kernel is paused. Only a step of the run, or an input, may change the world.
        """
        if self.current is None:
            raise KernelError(
                "the world cannot be changed from outside while the run is paused",
                hint="sim.Control queues calls from outside (start, stop, stop_all, send, wake, publish, set, ...);"
                " for any other change write world.on_input('restock', function) before the run, and then"
                " world.submit('restock', data): the function is called with the data inside the run, and in a replay",
            )
        return self.current

    @contextlib.contextmanager
    def acting_as(self, source: Source | None) -> Iterator[None]:
        """Act on behalf of `source` within the block. A runner needs this while the kernel is paused.

        With None, code in the block is not part of the run, and cannot change it.
        """
        before, self.current = self.current, source
        try:
            yield
        finally:
            self.current = before

    def halt(self) -> None:
        """Pause, and report to the host that the run is over."""
        self._halted = True
        self.pause()

    def reseed(self, seed: int) -> None:
        """Use another seed from now on for all random streams and for the shuffled order of ties."""
        self.seed = seed
        self.streams.reseed(seed)

    def has_only(self, accepts: Callable[[object], bool]) -> bool:
        """Return whether a function accepts the target of each pending entry that is not stale."""
        return not self.ready and all(entry[4].token != entry[5] or accepts(entry[4]) for entry in self.calendar)

    # -- how steps end

    def _rest(self, actor: Actor, span: int, token: int) -> None:
        """Schedule the end of a pause with the token of the step: it is stale if the actor has cancelled itself."""
        if span > 0:
            actor.counter += 1
            self.calendar.push((self.now + span, 0, actor.rank, actor.counter, actor, token))
        else:
            self._arm(actor, span)

    def _arm(self, actor: Actor, request: Any, again: bool = False) -> None:
        if request is ARMED or actor.cancelling:  # if the actor cancelled itself, the entry that raises it is scheduled
            return
        try:
            if request.__class__ is not int:
                request.arm(self, actor)
            elif request >= 0:
                self.schedule(request, actor, actor, actor.token)
            else:
                raise UsageError(f"{actor.name} asked for a pause of {request} ns, which is negative")
        except Exception as error:
            self._refuse(actor, request, error, again)

    def _refuse(self, actor: Actor, request: Any, error: Exception, again: bool) -> None:
        """Raise the error in an actor whose wait could not be armed.

        What is no wait at all is refused within the same step, but an actor that keeps awaiting such things gets the
        next error in the next delta, so that one that does it for ever becomes a livelock error.
        """
        if isinstance(error, RunError):
            raise error
        if not hasattr(request, "arm") and request.__class__ is not int:
            error = ForeignAwaitError(
                f"{actor.name} awaited {type(request).__name__!r}, which is not a wait of this kernel",
                hint="use perform(effect) for work outside the simulation, and the sleep, queues and signals of sim",
            )
            if not again and actor.coro is not None:
                try:
                    request = actor.coro.throw(error)
                except BaseException as raised:
                    self._ended(actor, raised)
                else:
                    self._arm(actor, request, again=True)
                return
        self.throw(actor, error)

    def throw_now(self, actor: Actor, error: BaseException) -> None:
        """Raise `error` in the actor now. While it swallows its cancellation, raise `Cancelled` again."""
        assert actor.coro is not None
        self.current = actor
        for _ in range(_RECANCELS):
            try:
                request = actor.coro.throw(error)
            except BaseException as raised:
                self._ended(actor, raised)
                return
            if not actor.cancelling:
                self._arm(actor, request)
                return
            error = Cancelled()
        self._close(actor, Exit("abandoned", error=Cancelled(f"{actor.name} keeps swallowing its cancellation")))

    def _ended(self, actor: Actor, error: BaseException) -> None:
        if isinstance(error, StopIteration):
            self._close(actor, RETURNED if error.value is None else Exit("returned", value=error.value))
        elif isinstance(error, Cancelled) and actor.cancelling:
            self._close(actor, Exit("cancelled", error=error.with_traceback(None)))  # a traceback keeps frames alive
        elif isinstance(error, KeyboardInterrupt | RunError):
            raise error
        elif isinstance(error, MemoryError):
            raise OutOfMemoryError(actor.name, str(error)) from error
        else:
            self._close(actor, Exit("crashed", error=named(actor.name, error)))

    def _close(self, actor: Actor, end: Exit) -> None:
        actor.coro = None
        actor.token = (actor.token | 1) + 1
        actor.value = end
        self.actors.pop(actor.ordinal, None)
        if self._interrupts:
            self._interrupts.pop(actor.ordinal, None)
        if actor.held is not None and actor.listener is None:
            release_all(actor)
        if actor.on_exit is not None:
            actor.on_exit(actor, end)
        elif end.kind == "crashed":  # without `on_exit`, a crash stops the run
            raise crash_of(actor, end)

    # -- between runs

    def ahead(self, time: int, delta: int, actor: Actor, work: Callable[[], object]) -> list[Entry]:
        """Run `work` of an actor as if the present were (`time`, `delta`). Synchronised rounds use this.

        Args:
            time: the time at which the work runs, in nanoseconds.
            delta: the delta at which it runs.
            actor: the source of everything that the work causes.
            work: what to run.

        Returns:
            The entries that the work caused at that instant. The caller adds them with `bring_in` after all earlier
            entries have run. Entries for later times are in the future-event list already.

        Raises:
            KernelError: if entries of the present instant have not run yet.
        """
        if self.ready or self._midway:
            raise KernelError("an actor cannot run ahead while entries of the present instant have not run yet")
        now, before, entry = self.now, self.delta, self._entry
        self._reached = now
        self.now, self.delta = time, delta
        self._entry = (time, 0, actor.rank, actor.counter, actor, 0)  # the cause of what the work causes
        try:
            with self.acting_as(actor):
                work()
            return self.ready.copy()
        finally:
            self.now, self.delta, self._entry = now, before, entry
            self._reached = None
            self.ready.clear()

    @property
    def reached(self) -> int:
        """The time that all actors have reached: `now`, or, while an actor runs ahead, `now` before it did."""
        return self.now if self._reached is None else self._reached

    def bring_in(self, time: int, delta: int, entries: list[Entry]) -> None:
        """Make `entries`, which `ahead` returned for (`time`, `delta`), the next ones to run.

        All earlier entries must have run.
        """
        self.now, self.delta = time, delta
        self.ready.extend(entries)
        self.crowded = True  # the entries may include a WakeBatch

    def begin_anew(self, source: Source | None = None, counter: int = 0) -> None:
        """Set the cause of what follows, by default the supervisor: the entry that ran last may be arbitrary."""
        self._entry = (self.now, 0, (source or self.supervisor).ordinal, counter, None, 0)

    def source_for(self, owner: str, name: str = "supervisor", purpose: str = "") -> Source:
        """Return the source that acts for one owner, the same at each call.

        What is done for other owners does not change its counter. At one instant such sources run before all actors.

        Args:
            owner: the name of the agent for which it acts, or of another owner.
            name: the name under which its events are recorded: of the part of the simulation that acts.
            purpose: the purpose for which it acts.
        """
        label = (name, purpose, owner)
        source = self._owned.get(label)
        if source is None:
            source = self._owned[label] = Source(name, owned_ordinal(derive("source", *label)))
        return source

    def apply(self, kind: str, data: object, applied: Callable[[object], object] | None = None) -> None:
        """Accept an input: record it with the present time and delta. Its handler runs in the next delta, as the host.

        Args:
            kind: the key of its handler in `inputs`.
            data: a JSON value, as recorded.
            applied: a function that is called with the answer of the handler. It must not change the run.
        """
        handler = self.inputs[kind]
        self.recorder.input(InputRow(self.now, self.delta, kind, data))
        if kind in self.placed:
            self.placed[kind](data)
        concerned = self.addressee(kind, data)
        source = self.source_for(concerned, "host") if concerned else self.host
        work = (lambda: handler(data)) if applied is None else (lambda: applied(handler(data)))
        self.schedule(0, source, Timer(self, source, work), 0)

    def whole(self) -> bool:
        """Whether all entries of this instant have run. Inputs and outcomes are added only then."""
        return not self.ready and not self._midway and self.calendar.due() > self.now

    def advance_to(self, time: int) -> None:
        """Advance simulated time to `time` (nanoseconds).

        Raises:
            KernelError: if an entry is due before `time`.
        """
        due = self.next_time()
        if self._midway or (due is not None and due < time):
            raise KernelError(f"time cannot advance to {time} ns: an entry that is due at {due} ns has not run")
        if time > self.now:
            if self.advancing is not None:
                self.advancing(time)
            self.now = time
            self.delta = 0

    def next_time(self) -> int | None:
        """Return the time of the next entry (nanoseconds), or None."""
        if self.ready or self._midway:
            return self.now
        time = self.calendar.due()
        return None if time == NEVER else time

    def pause(self) -> None:
        """Make `run` return after the last round of this instant, as if its limit was reached."""
        self._limit = self._horizon = 0

    def look_out(self, time: int) -> None:
        """From `time` on, check before each instant that no outcome is missing."""
        self._blocked_from = min(self._blocked_from, time)
        self._look_at_limits()

    def drop_timer(self) -> None:
        """Count a timer that has become stale, and remove all stale timers if there are many."""
        self._stale += 1
        if self._stale >= self._purge_at:
            live = self.calendar.purge(lambda entry: entry[4].token == entry[5])
            live += sum(entry[4].thin_out() - 1 for entry in self.calendar.unread() if entry[4].__class__ is WakeBatch)
            self._stale = 0
            self._purge_at = max(_PURGE_FROM, live)

    def close(self) -> None:
        """Close all coroutines. Afterwards no code of an actor runs any more."""
        for actor in list(self.actors.values()):
            if actor.coro is not None:
                with contextlib.suppress(Exception, Cancelled):
                    actor.coro.close()
        self.actors.clear()

    def first_missing(self) -> int:
        """Return the earliest time (nanoseconds) at which an outcome is due that has not arrived yet."""
        return self.effects.first_missing()


def _whole(seed: object) -> int:
    """Return a seed, which can be a number of NumPy, as a whole number of Python."""
    if not isinstance(seed, SupportsIndex) or isinstance(seed, bool):
        raise UsageError(f"a seed is a whole number, not {seed!r:.60}")
    return index(seed)


@lru_cache(maxsize=1024)  # those that have children have many
def _block(parent: int) -> int:
    """Return the ordinals of the children of a source: 62 bits, of which the low ones are the index of the child."""
    return derive("ordinal", parent) >> 22 << _CHILD_BITS


def release_all(holder: Source) -> None:
    """Release all slots that a source still holds, because it has ended."""
    held = holder.held
    for pool in [*held] if held.__class__ is dict else () if held is None else (held,):
        pool.release_all(holder)


def crash_of(actor: Actor, end: Exit) -> Exception:
    """Return the error of a crashed actor as an `Exception` that can be raised elsewhere."""
    if isinstance(end.error, Exception):
        return end.error
    error = ActorError(f"{actor.name} ended with {end.error!r}")
    error.__cause__ = end.error
    return error
