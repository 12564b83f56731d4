"""The kernel: simulated time, the order of steps, and the loop that runs one actor at a time.

The key of a step is (time, delta, priority, source ordinal, source counter); of those that one event wakes, also the
ordinal of the actor. Time is superdense (Lee and
Zheng, "Operational semantics of hybrid systems", 2005): what a step causes at the same instant runs at its
cause's delta + 1, a later time starts at delta 0. So all that runs at one (time, delta) is known before the
first of it runs: it is sorted once, and nothing can enter behind it. The source is whoever caused the step
and counts what it causes, so the key needs no global state. Entries of the present instant are kept in a
plain list, later ones in the future-event list.

Actors are coroutines resumed by `send`. asyncio and trio tasks were rejected as actors: equal asyncio timers
fire in heap order, trio shuffles every batch on purpose, and a wake-up costs two to six times as much.

Where it could be compiled, `_speedups/loop.c` takes the place of `_run_some`; what it does is what is written here.
"""

import contextlib
import enum
import inspect
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from sim._speedups import COMPILED
from sim.errors import (
    ActorError,
    Cancelled,
    ForeignAwaitError,
    Interrupt,
    KernelError,
    OutOfMemoryError,
    RunError,
    UsageError,
)
from sim.kernel.actor import FIRST_ACTOR, FIRST_DERIVED, HOST, SCENARIO, SUPERVISOR, Actor, Exit, Source
from sim.kernel.duration import MAX_NS, to_seconds
from sim.kernel.effects import Effects
from sim.kernel.future_events import NEVER, Entry, FutureEvents
from sim.kernel.order import WakeBatch, livelock, sort, spread
from sim.kernel.ports import NullRecorder, Recorder
from sim.kernel.rng import Streams, derive
from sim.kernel.rows import InputRow

_CHUNK = 256  # steps after which entries that have run are let go, so that their memory is used again while in cache
ARMED = object()
"""What an actor yields that has been registered already with what it waits for."""

_RETURNED = Exit("returned")
_RECANCELS = 100  # times a swallowed cancellation is raised again before the actor is abandoned
_CHILD_BITS = 20  # of an ordinal: the number of an actor among those of its maker
_PURGE_FROM = 1024  # stale timers before they are looked for


class Pause(enum.Enum):
    """Why `Kernel.run` returned."""

    BUDGET = "the given number of steps has run"
    LIMIT = "what comes next is not before the limit"
    IDLE = "nothing is due, ever"
    BLOCKED = "the outcome of an effect is due and not there yet"
    HALTED = "a step asked for it"


# -- targets: what an entry of the order can aim at besides an actor. Each has a `token` like an actor: an entry is
# stale when its token is no longer the one of its target.


class Timer:
    """A callback at a simulated time; `cancel` makes sure it never runs."""

    __slots__ = ("callback", "kernel", "source", "token")

    def __init__(self, kernel: "Kernel", source: Source, callback: Callable[[], object]) -> None:
        self.kernel = kernel
        self.source = source
        self.callback = callback
        self.token = 0

    def fire(self) -> None:
        """Run the callback: the kernel calls this when the time has come."""
        self.token += 1
        self.kernel.current = self.source
        self.callback()

    def cancel(self) -> None:
        """Make sure the callback never runs; once it has run, this does nothing."""
        if self.token == 0:
            self.token += 1
            self.kernel.drop_timer()


class Ticker(Timer):
    """A callback once every period; `cancel` ends it. One object serves all its calls."""

    __slots__ = ("period",)

    def __init__(self, kernel: "Kernel", source: Source, callback: Callable[[], object], period: int) -> None:
        super().__init__(kernel, source, callback)
        self.period = period

    def fire(self) -> None:
        """Run the callback; its next call has its place in the order before anything that this one causes."""
        kernel, source = self.kernel, self.source
        kernel.current = source
        source.counter = counter = source.counter + 1
        kernel.calendar.push((kernel.now + self.period, 0, source.ordinal, counter, self, 0))
        self.callback()


class Throw:
    """An entry's target: raise an error in an actor where it waits."""

    __slots__ = ("actor", "error", "expected", "kernel", "token")

    def __init__(self, kernel: "Kernel", actor: Actor, error: BaseException) -> None:
        self.kernel = kernel
        self.actor = actor
        self.error = error
        self.token = 0
        self.expected = actor.token

    def fire(self) -> None:
        """Raise the error, unless something else has been decided for the actor since."""
        if self.actor.token == self.expected and self.actor.coro is not None:
            self.kernel.throw_now(self.actor, self.error)


class Interruption(Throw):
    """As `Throw`; then it is the turn of the next interrupt of the same actor."""

    __slots__ = ()

    def fire(self) -> None:
        """Raise the interrupt, unless the actor was cancelled since."""
        super().fire()
        self.kernel.current = self.actor
        self.kernel.interrupt_next(self.actor)


_WOKEN = (Actor, Throw, Interruption, WakeBatch)  # targets of entries that are wake-ups


class Kernel:
    """Runs actors in simulated time.

    Args:
        seed: of all random streams.
        shuffled: order what falls together by a hash of (seed, time, delta, source) instead of by ordinal.
        max_deltas: rounds at one instant before it counts as a livelock.
        recorder: keeps events, inputs and effects.

    Attributes:
        now: simulated time in nanoseconds.
        delta: the round within the present instant.
        current: the source on whose behalf code runs now, or None while the kernel is paused.
        steps: how many entries have run.
        inputs: what calls from outside do, by kind.
        placed: what is done already when one is given its place, before it runs, by kind.
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
        "_max_deltas",
        "_midway",
        "_purge_at",
        "_reached",
        "_running",
        "_shuffled",
        "_stale",
        "actors",
        "calendar",
        "crowded",
        "current",
        "delta",
        "effects",
        "host",
        "inputs",
        "now",
        "placed",
        "ready",
        "recorder",
        "scenario",
        "seed",
        "steps",
        "streams",
        "supervisor",
        "throws",
    )

    def __init__(
        self,
        seed: int = 0,
        *,
        shuffled: bool = False,
        max_deltas: int = 10_000,
        recorder: Recorder | None = None,
    ) -> None:
        self.now = 0
        self.delta = 0
        self.steps = 0
        self.seed = seed
        self.actors: dict[int, Actor] = {}  # all that live: nothing else keeps a waiting actor
        self._shuffled = shuffled
        self._max_deltas = max_deltas
        self.calendar = FutureEvents()
        self.ready: list[Entry] = []  # what has been caused at this instant; always the same list
        self.crowded = False  # whether there is a crowd among it
        self._entry: Entry = (0, 0, SCENARIO, 0, None, 0)  # what runs now
        self._begun = -1  # the latest instant that was begun; time may have passed further
        self._limit = 0
        self._horizon = 0  # from here on there may be a reason to pause
        self._blocked_from = MAX_NS  # the earliest time at which an outcome might be missing
        self._halted = False
        self._running = False
        self._midway = False  # stopped by its budget or an error, perhaps within an instant
        self.streams = Streams(seed)
        self.recorder: Recorder = recorder or NullRecorder()
        self.host = Source("host", HOST)
        self.scenario = Source("scenario", SCENARIO)
        self.supervisor = Source("supervisor", SUPERVISOR)
        self.current: Source | None = self.scenario
        self.effects = Effects(self)
        self.inputs: dict[str, Callable[[Any], object]] = {}
        self.placed: dict[str, Callable[[Any], object]] = {}
        self._declared = 0
        self._children: dict[int, int] = {}  # by ordinal: how many actors it has made during the run
        self.throws = 0  # errors that were raised in actors
        self._interrupts: dict[int, list[Interrupt]] = {}  # by ordinal: what comes after the one under way
        self._stale = 0
        self._purge_at = _PURGE_FROM
        self._reached: int | None = None  # while work runs ahead

    @property
    def seconds(self) -> float:
        """Simulated seconds since the start."""
        return to_seconds(self.now)

    # -- the loop

    def run(self, limit: int = MAX_NS, budget: int = 2**62) -> Pause:
        """Run all before `limit` (nanoseconds, exclusive), at most `budget` steps; say why it stopped.

        Raises:
            KernelError: if it is called within a step: only one thing can run.
            LivelockError: if time does not advance.
            BaseException: what an actor that nobody watches raised.
        """
        if self._running:
            raise KernelError("the kernel runs already", hint="in a step, spawn an actor or use call_at")
        self._limit = 0 if self._halted else limit
        self._look_at_limits()
        self._running = True
        try:
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
        """Run what has been caused at this instant, and what that causes, but nothing that was due at it."""
        due = self.calendar.cut(self.now)
        try:
            self.run(0)
        finally:
            self.calendar.insert(due)
            self._begun = -1  # what was due begins anew if it is run at all

    def _run_some(self, left: int) -> Pause:  # noqa: C901 - written out on purpose: a call costs a tenth of a wake-up
        budget, ready, calendar, bucket_of = left, self.ready, self.calendar, self.calendar.buckets.get
        self._midway = True
        begun = self._begun
        try:
            while True:
                shift = calendar.shift
                for entry in calendar.reader:  # This is the loop: in key order, an actor runs until it waits.
                    time = entry[0]
                    if time != begun:
                        if ready and time > self.now and self.now < self._blocked_from:
                            entry = self._caused()  # comes first
                            begun = time = self.now
                        elif time >= self._horizon or (ready and time > self.now):
                            calendar.rewind()
                            break
                        else:
                            self.now = begun = time
                            self.delta = 0
                    target = entry[4]
                    token = entry[5]
                    if target.token == token:  # else it was cancelled, or woken by something else
                        self._entry = entry
                        if target.__class__ is Actor:
                            self.current = target
                            target.token = token = (token | 1) + 1
                            try:
                                request = target.coro.send(target.value)  # type: ignore[union-attr]  # a check costs here
                            except BaseException as error:
                                self._ended(target, error)
                            else:
                                if request.__class__ is int:
                                    due = time + request
                                    bucket = bucket_of(due >> shift)
                                    if bucket is not None and request > 0:  # it exists, so it is not open yet
                                        target.counter = counter = target.counter + 1
                                        bucket.append((due, 0, target.ordinal, counter, target, token))
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
        """Put what runs next in front of the calendar's reader, or return why nothing may run."""
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
        if self._shuffled:
            self.now = self._begun = time
            self.delta = 0
            self._shuffle(calendar.open)
        return None

    def _caused(self) -> Entry:
        """Put what has been caused at this instant before the entry that was read last, and return the first of it."""
        if len(self.ready) > 1 or self.crowded or self.delta == self._max_deltas:
            self.calendar.rewind()  # first, for the guard against livelocks may refuse
            self.calendar.insert(self._next_delta())
            return next(self.calendar.reader)  # type: ignore[no-any-return]
        self.delta += 1
        entry = self.ready.pop()  # the hot path of resources
        calendar = self.calendar
        calendar.open.insert(len(calendar.open) - calendar.reader.__length_hint__() - 1, entry)
        return entry

    def _next_delta(self) -> list[Entry]:
        """Return what has been caused at this instant, in order: it runs next."""
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
            return batch if COMPILED else spread(batch)  # the loop in C makes the entries as it goes
        return batch

    def _shuffle(self, bucket: list[Entry]) -> None:
        """Put the entries of this instant into shuffled order, where they stand."""
        start = end = len(bucket) - self.calendar.reader.__length_hint__()
        while end < len(bucket) and bucket[end][0] == self.now:
            end += 1
        batch = bucket[start:end]
        sort(batch, self._ties)
        bucket[start:end] = batch

    def _ties(self, ordinal: int) -> int:
        return derive(self.seed, self.now, self.delta, ordinal)

    def _missing(self, time: int) -> bool:
        self._blocked_from = self.first_missing()
        self._look_at_limits()
        return self._blocked_from <= time

    def _look_at_limits(self) -> None:
        """Set the time from which the loop has to ask before it begins an instant; shuffled, that is always."""
        self._horizon = 0 if self._shuffled else min(self._limit, self._blocked_from)

    def schedule(self, delay: int, source: Source, target: Any, token: int, priority: int = 0) -> None:
        """Add an entry for `target` after `delay` nanoseconds, caused by `source`."""
        source.counter += 1
        now = self.now
        if delay > 0:
            self.calendar.push((now + delay, priority, source.ordinal, source.counter, target, token))
        elif delay == 0:
            self.ready.append((now, priority, source.ordinal, source.counter, target, token))
        else:
            raise KernelError(f"{source.name} asked for a wake-up {-delay} ns in the past")

    # -- what steps do

    def wake(self, actor: Actor, value: Any, via: Any, source: Source | None = None) -> None:
        """Decide the wait of `actor`: it runs at this instant, next delta, and gets `value`.

        Args:
            actor: who waits; its registrations elsewhere become stale.
            value: what its wait returns.
            via: the wait that gave the value and can take it back.
            source: who causes it; the present one by default.
        """
        source = source or self.current or self.acting()
        actor.token = token = actor.token + 1
        actor.value = value
        actor.via = via
        source.counter = counter = source.counter + 1
        self.ready.append((self.now, 0, source.ordinal, counter, actor, token))

    def throw(self, actor: Actor, error: BaseException) -> None:
        """Raise `error` in `actor` where it waits, at this instant, next delta."""
        self._throw(actor, error, Throw)

    def _throw(self, actor: Actor, error: BaseException, kind: type[Throw]) -> None:
        source = self.acting()
        self.throws += 1
        value, via = actor.value, actor.via if actor.token & 1 else None
        actor.token = (actor.token | 1) + 1
        actor.value = None
        actor.via = None
        throw = kind(self, actor, error)
        self.schedule(0, source, throw, throw.token)
        self.drop_timer()  # perhaps it slept; counting too many only means looking too early
        if via is not None:
            via.undo(value)

    def cancel(self, actor: Actor) -> None:
        """Cancel `actor`: `Cancelled` is raised where it waits, and again at every later wait until it ends.

        A value that was handed over but not yet seen goes back: cancelled means it did not happen.
        """
        if actor.exit is None and not actor.cancelling:
            self.throw(actor, Cancelled())  # also if it cancels itself: it waits by the time this is due
            actor.cancelling = True

    def interrupt(self, actor: Actor, cause: object = None) -> bool:
        """Raise `Interrupt(cause)` in `actor` where it waits, at this instant, next delta.

        The wait is withdrawn at once: it takes nothing, and a value that was handed over but not yet seen goes back.
        An actor that has not begun is interrupted at its first wait. Several interrupts arrive one after the other,
        in order.

        Args:
            actor: who is interrupted.
            cause: the reason, which the actor finds in `Interrupt.cause`.

        Returns:
            Whether the actor gets the interrupt: not if it has ended or is being cancelled.

        Raises:
            UsageError: if an actor interrupts itself.
        """
        source = self.acting()
        if actor is source:
            raise UsageError(f"{actor.name} cannot interrupt itself", hint="raise an error, or return")
        if actor.coro is None or actor.cancelling:
            return False
        if actor.ordinal in self._interrupts:
            self._interrupts[actor.ordinal].append(Interrupt(cause))
        elif _has_begun(actor.coro):
            self._interrupts[actor.ordinal] = []
            self._throw(actor, Interrupt(cause), Interruption)
        else:
            self._interrupts[actor.ordinal] = [Interrupt(cause)]
            timer = Timer(self, source, lambda: self.interrupt_next(actor))
            self.schedule(0, source, timer, timer.token, 1)  # when all of the next round has run, this actor too
        return True

    def interrupt_next(self, actor: Actor) -> None:
        """Raise the next interrupt that waits for `actor`, if there is one and the actor still lives."""
        waiting = self._interrupts.pop(actor.ordinal, None)
        if waiting and actor.coro is not None and not actor.cancelling:
            self._interrupts[actor.ordinal] = waiting[1:]
            self._throw(actor, waiting[0], Interruption)

    def spawn(
        self,
        name: str,
        coro: Coroutine[Any, Any, Any],
        *,
        on_exit: Callable[[Actor, Exit], object] | None = None,
    ) -> Actor:
        """Start an actor at this instant, next delta. See `adopt` for its ordinal."""
        actor = self.adopt(name)
        actor.on_exit = on_exit
        self.begin(actor, coro)
        return actor

    def adopt(self, name: str) -> Actor:
        """Make an actor without a coroutine.

        Before the run its ordinal is the next of the declared ones; during the run it is derived from its
        maker's, so that what one agent makes moves no other's place in the order. Those of one maker follow each other
        in the order in which they were made.
        """
        parent = self.acting()
        if parent is self.scenario:
            ordinal = FIRST_ACTOR + self._declared
            self._declared += 1
        else:
            children = self._children[parent.ordinal] = self._children.get(parent.ordinal, 0) + 1
            block = derive("ordinal", parent.ordinal) >> 22 << _CHILD_BITS  # of 62 bits, with room for the number
            ordinal = FIRST_DERIVED + block + children
        if ordinal in self.actors:
            raise KernelError(f"{name} and {self.actors[ordinal].name} have one ordinal")
        return Actor(name, ordinal)

    def begin(self, actor: Actor, coro: Coroutine[Any, Any, Any]) -> None:
        """Give `actor` a coroutine and let it run at this instant, next delta."""
        self.wake(actor, None, None)
        actor.coro = coro
        actor.cancelling = False
        self.actors[actor.ordinal] = actor

    def begin_now(self, actor: Actor, coro: Coroutine[Any, Any, Any]) -> None:
        """Give `actor` a coroutine and run its first step at once, inside the present step."""
        actor.coro = coro
        actor.cancelling = False
        actor.token = (actor.token | 1) + 1
        actor.value = actor.via = None
        self.actors[actor.ordinal] = actor
        before, self.current = self.current, actor
        try:
            request = coro.send(None)
        except BaseException as error:
            self._ended(actor, error)
        else:
            self._arm(actor, request)
        finally:
            self.current = before

    def resume_now(self, actor: Actor, value: Any) -> None:
        """Run the next step of `actor`, whose wait gives it `value`, at once, inside the present step."""
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

    def call_at(self, time: int, callback: Callable[[], object], source: Source | None = None) -> Timer:
        """Call `callback` at a simulated time (nanoseconds, now or later) on behalf of `source`."""
        source = source or self.acting()
        timer = Timer(self, source, callback)
        self.schedule(time - self.now, source, timer, 0)
        return timer

    def call_every(self, period: int, callback: Callable[[], object], source: Source | None = None) -> Ticker:
        """Call `callback` each time that `period` nanoseconds have passed, on behalf of `source`, until cancelled.

        The lightest kind of agent: no coroutine, no state machine, one object for all its steps.
        """
        if period.__class__ is not int or period <= 0:
            raise UsageError(f"a period must be a whole number of nanoseconds above 0, not {period!r}")
        source = source or self.acting()
        ticker = Ticker(self, source, callback, period)
        self.schedule(period, source, ticker, 0)
        return ticker

    def emit(self, topic: str, data: object, actor: str | None = None) -> tuple[int, int]:
        """Record that something happened and return its identity: (source ordinal, source counter).

        Args:
            topic: what happened, dotted.
            data: JSON-like; it must never change afterwards.
            actor: who it happened to; the present source by default.
        """
        source = self.current or self.acting()
        ordinal = source.ordinal
        source.counter = counter = source.counter + 1
        entry = self._entry
        cause = entry[2], entry[3]
        self.recorder.event(
            (self.now, self.delta, entry[1], ordinal, counter, actor or source.name, topic, data, cause)
        )
        return ordinal, counter

    @contextlib.contextmanager
    def one_event(self) -> Iterator[None]:
        """What is woken within is woken by one event, which takes one counter of the source, however many wait."""
        source = self.acting()
        source.counter += 1
        counter, mark = source.counter, len(self.ready)
        yield
        self.wake_as_one(mark, source, counter)

    def wake_as_one(self, mark: int, source: Source, counter: int) -> None:
        """Give all wake-ups that one event caused one place in the order, below it by the ordinals of who is woken.

        Args:
            mark: how many entries `ready` held before.
            source: whose event it is.
            counter: that of the event. The source counts on from there, if wake-ups alone have counted since.
        """
        ready = self.ready
        if len(ready) <= mark + 1 and self._wake_one(mark, source, counter):
            return
        woken, rest, counted = list[Any](), list[Entry](), 0
        for entry in ready[mark:]:
            _, priority, ordinal, _, target, token = entry
            if priority or target.__class__ not in _WOKEN:
                rest.append(entry)
                continue
            counted += ordinal == source.ordinal
            woken += target.waiting if target.__class__ is WakeBatch else (target, token)
        ready[mark:] = rest
        if woken:
            ready.append(self._entry_for(woken, source, counter))
        if source.counter - counter == counted:
            source.counter = counter

    def _wake_one(self, mark: int, source: Source, counter: int) -> bool:
        """Do the same if there is one plain wake-up, or none: the hot path of messages. Return whether that was so."""
        if len(self.ready) == mark:
            return True
        time, priority, ordinal, _, target, token = self.ready[mark]
        if priority or target.__class__ is not Actor or ordinal != source.ordinal or source.counter != counter + 1:
            return False
        self.ready[mark] = (time, 0, ordinal, counter, target, token)
        source.counter = counter
        return True

    def _entry_for(self, woken: list[Any], source: Source, counter: int) -> Entry:
        if len(woken) == 2:
            return (self.now, 0, source.ordinal, counter, woken[0], woken[1])
        batch = WakeBatch(self.throws)
        batch.waiting = woken
        batch.fired = True
        batch.sort()
        self.crowded = True
        return (self.now, 0, source.ordinal, counter, batch, 0)

    def step_under_way(self) -> object:
        """Return something that is another object at each step, or None between runs; for the watchdog."""
        return None if self.current is None else self._entry

    def acting(self) -> Source:
        """Return the source on whose behalf code runs now.

        Raises:
            KernelError: if the kernel is paused: the world changes only from inside a run, or by an input.
        """
        if self.current is None:
            raise KernelError(
                "the world was changed from outside while the run was paused",
                hint="sim.Control queues calls from outside (start, stop, stop_all, send, wake, publish, ...)",
            )
        return self.current

    @contextlib.contextmanager
    def acting_as(self, source: Source) -> Iterator[None]:
        """Let a runner act on behalf of `source` while the kernel is paused."""
        before, self.current = self.current, source
        try:
            yield
        finally:
            self.current = before

    def halt(self) -> None:
        """Like `pause`, and tell the host that the run is over."""
        self._halted = True
        self.pause()

    def reseed(self, seed: int) -> None:
        """Give all random streams, and the order of ties, another seed from now on."""
        self.seed = seed
        self.streams.reseed(seed)

    def has_only(self, known: Callable[[object], bool]) -> bool:
        """Return whether all that is still to happen happens to actors or timers that are `known`."""
        return not self.ready and all(entry[4].token != entry[5] or known(entry[4]) for entry in self.calendar)

    # -- how steps end

    def _rest(self, actor: Actor, span: int, token: int) -> None:
        """Let an actor pause under the token that it ran with: if it has cancelled itself, that is stale."""
        if span > 0:
            actor.counter += 1
            self.calendar.push((self.now + span, 0, actor.ordinal, actor.counter, actor, token))
        else:
            self._arm(actor, span)

    def _arm(self, actor: Actor, request: Any) -> None:
        if request is ARMED or actor.cancelling:  # it cancelled itself: what raises that is on its way
            return
        try:
            if request.__class__ is not int:
                request.arm(self, actor)
            elif request >= 0:
                self.schedule(request, actor, actor, actor.token)
            else:
                raise UsageError(f"{actor.name} asked for a pause of {request} ns, which is negative")
        except Exception as error:
            self._refuse(actor, request, error)

    def _refuse(self, actor: Actor, request: Any, error: Exception) -> None:
        """Answer an actor whose wait could not be armed."""
        if isinstance(error, RunError):
            raise error
        if not hasattr(request, "arm") and request.__class__ is not int:
            error = ForeignAwaitError(
                f"{actor.name} awaited {type(request).__name__!r}, which is not a wait of this kernel",
                hint="use perform(effect) for work outside, and sim's own sleep, queues and signals",
            )
        self.throw(actor, error)  # not at once: who tries again for ever must meet the guard against livelocks

    def throw_now(self, actor: Actor, error: BaseException) -> None:
        """Raise `error` in the actor now, and go on raising while it swallows its cancellation."""
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
            self._close(actor, _RETURNED if error.value is None else Exit("returned", value=error.value))
        elif isinstance(error, Cancelled) and actor.cancelling:
            self._close(actor, Exit("cancelled", error=error.with_traceback(None)))  # frames would stay alive
        elif isinstance(error, KeyboardInterrupt | RunError):
            raise error
        elif isinstance(error, MemoryError):
            raise OutOfMemoryError(actor.name, str(error)) from error
        else:
            self._close(actor, Exit("crashed", error=error))

    def _close(self, actor: Actor, end: Exit) -> None:
        actor.coro = None
        actor.token = (actor.token | 1) + 1
        actor.value = end
        self.actors.pop(actor.ordinal, None)
        if actor.on_exit is not None:
            actor.on_exit(actor, end)
        elif end.kind == "crashed":  # a failure that nobody watches for stops the run
            raise crash_of(actor, end)

    # -- between runs

    def ahead(self, time: int, delta: int, actor: Actor, work: Callable[[], object]) -> list[Entry]:
        """Run a piece of an actor's work as if it were `time` already: for a synchroniser that lets actors run ahead.

        Returns what it caused at that instant. The synchroniser brings that in with `bring_in` when all that is
        earlier has run; what it caused later stands in the order of things already.
        """
        if self.ready or self._midway:
            raise KernelError("nothing can run ahead in the middle of an instant")
        now, before, entry = self.now, self.delta, self._entry
        self._reached = now
        self.now, self.delta = time, delta
        self._entry = (time, 0, actor.ordinal, actor.counter, actor, 0)  # it is its own cause
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
        """The time that everybody has come to: `now`, and while work runs ahead, what that was before."""
        return self.now if self._reached is None else self._reached

    def bring_in(self, time: int, delta: int, entries: list[Entry]) -> None:
        """Let what was caused at `time` by work that ran ahead be what runs next; all that is earlier has run."""
        self.now, self.delta = time, delta
        self.ready.extend(entries)
        self.crowded = True  # there may be a crowd among them

    def begin_anew(self) -> None:
        """Let what happens next be caused by nothing that has run: which of several things ran last may be chance."""
        self._entry = (self.now, 0, self.supervisor.ordinal, 0, None, 0)

    def apply(self, kind: str, data: object) -> None:
        """Take an input: recorded with the place it has here and now; it runs in the next delta, as the host.

        Args:
            kind: which of `inputs` does it.
            data: JSON-like, as it is on record.
        """
        handler = self.inputs[kind]
        self.recorder.input(InputRow(self.now, self.delta, kind, data))
        if kind in self.placed:
            self.placed[kind](data)
        self.schedule(0, self.host, Timer(self, self.host, lambda: handler(data)), 0)

    def whole(self) -> bool:
        """Whether all that is due at this instant has run: what comes from outside is put at its end."""
        return not self.ready and not self._midway and self.calendar.due() > self.now

    def advance_to(self, time: int) -> None:
        """Let simulated time pass to `time`, before which nothing may be due."""
        due = self.next_time()
        if self._midway or (due is not None and due < time):
            raise KernelError(f"time cannot pass to {time} ns: something is due before")
        if time > self.now:
            self.now = time
            self.delta = 0

    def next_time(self) -> int | None:
        """Return when the next entry is due (nanoseconds), or None."""
        if self.ready or self._midway:
            return self.now
        time = self.calendar.due()
        return None if time == NEVER else time

    def pause(self) -> None:
        """Make `run` return when all that is caused at this instant has run, as if its limit had come."""
        self._limit = self._horizon = 0

    def look_out(self, time: int) -> None:
        """From `time` on, make sure before each instant that no outcome is missing."""
        self._blocked_from = min(self._blocked_from, time)
        self._look_at_limits()

    def drop_timer(self) -> None:
        """Count a timer that has become stale; they are removed when they are many."""
        self._stale += 1
        if self._stale >= self._purge_at:
            live = self.calendar.purge(lambda entry: entry[4].token == entry[5])
            live += sum(entry[4].thin_out() - 1 for entry in self.calendar.unread() if entry[4].__class__ is WakeBatch)
            self._stale = 0
            self._purge_at = max(_PURGE_FROM, live)

    def close(self) -> None:
        """Let go of all actors: a run that has failed, or is left for good, runs none of their code any more."""
        for actor in list(self.actors.values()):
            if actor.coro is not None:
                with contextlib.suppress(Exception, Cancelled):
                    actor.coro.close()
        self.actors.clear()

    def first_missing(self) -> int:
        """Return the earliest time at which an outcome must be delivered that is not there yet."""
        return self.effects.first_missing()


def crash_of(actor: Actor, end: Exit) -> Exception:
    """Return the error with which an actor crashed, as one that can be raised elsewhere."""
    if isinstance(end.error, Exception):
        return end.error
    error = ActorError(f"{actor.name} ended with {end.error!r}")
    error.__cause__ = end.error
    return error


def _has_begun(coro: Coroutine[Any, Any, Any]) -> bool:
    """Whether the first step of a coroutine has run, so that it can catch what is raised in it."""
    body: object = coro  # a coroutine, or a generator that serves as one
    if inspect.isgenerator(body):
        return inspect.getgeneratorstate(body) != inspect.GEN_CREATED
    return not inspect.iscoroutine(body) or inspect.getcoroutinestate(body) != inspect.CORO_CREATED
