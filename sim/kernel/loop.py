"""The loop: one actor at a time, in an order fixed by a key.

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

from abc import ABC, abstractmethod
from typing import Any

from sim._speedups import COMPILED
from sim.errors import ActorError, Cancelled, ForeignAwaitError, KernelError, OutOfMemoryError, RunError, UsageError
from sim.kernel.actor import SCENARIO, Actor, Exit, Source
from sim.kernel.duration import MAX_NS
from sim.kernel.future_events import NEVER, Entry, FutureEvents
from sim.kernel.order import livelock, sort, spread
from sim.kernel.rng import derive
from sim.kernel.targets import Pause

_CHUNK = 256  # steps after which entries that have run are let go, so that their memory is used again while in cache
ARMED = object()
"""What an actor yields that has been registered already with what it waits for."""

_RETURNED = Exit("returned")
_RECANCELS = 100  # times a swallowed cancellation is raised again before the actor is abandoned


class Loop(ABC):
    """The part of the kernel that runs what is due, and sees how steps end. See `Kernel`."""

    __slots__ = (
        "_begun",
        "_blocked_from",
        "_entry",
        "_halted",
        "_horizon",
        "_limit",
        "_max_deltas",
        "_midway",
        "_running",
        "_shuffled",
        "actors",
        "calendar",
        "crowded",
        "current",
        "delta",
        "now",
        "ready",
        "seed",
        "steps",
    )

    def __init__(self, seed: int, *, shuffled: bool, max_deltas: int) -> None:
        self.now = 0
        self.delta = 0
        self.steps = 0
        self.seed = seed
        self.current: Source | None = None
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

    @abstractmethod
    def throw(self, actor: Actor, error: BaseException) -> None:
        """Raise `error` in `actor` where it waits, at this instant, next delta."""

    @abstractmethod
    def first_missing(self) -> int:
        """Return the earliest time at which an outcome must be delivered that is not there yet."""

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


def crash_of(actor: Actor, end: Exit) -> Exception:
    """Return the error with which an actor crashed, as one that can be raised elsewhere."""
    if isinstance(end.error, Exception):
        return end.error
    error = ActorError(f"{actor.name} ended with {end.error!r}")
    error.__cause__ = end.error
    return error
