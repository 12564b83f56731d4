"""The scheduler: one actor at a time, in an order fixed by a key.

The key of a step is (time, delta, priority, source ordinal, source counter). Time is superdense (Lee and
Zheng, "Operational semantics of hybrid systems", 2005): what a step causes at the same instant runs at its
cause's delta + 1, a later time starts at delta 0. So all that runs at one (time, delta) is known before the
first of it runs: it is sorted once, and nothing can enter behind it. The source is whoever caused the step
and counts what it causes, so the key needs no global state. Entries of the present instant are kept in a
plain list, later ones in the future-event list.

Actors are coroutines resumed by `send`. asyncio and trio tasks were rejected as actors: equal asyncio timers
fire in heap order, trio shuffles every batch on purpose, and a wake-up costs two to six times as much.
"""

import contextlib
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from sim.errors import (
    ActorError,
    Cancelled,
    ForeignAwaitError,
    KernelError,
    LivelockError,
    RunError,
    UsageError,
)
from sim.kernel.duration import MAX_NS
from sim.kernel.effects import Effects
from sim.kernel.future_events import Entry, FutureEvents
from sim.kernel.ports import NullRecorder, Recorder
from sim.kernel.rng import Streams, derive
from sim.kernel.source import FIRST_ACTOR, FIRST_DERIVED, HOST, SCENARIO, SUPERVISOR, Actor, Exit, Source
from sim.kernel.targets import Pause, Throw, Timer

_NEVER: Entry = (2**63, 0, 0, 0, None, 0)  # stands at the end of the future-event list
_RECANCELS = 100  # times a swallowed cancellation is raised again before the actor is abandoned
_PURGE_FROM = 1024  # stale timers before they are looked for


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
    """

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
        self.streams = Streams(seed)
        self.recorder: Recorder = recorder or NullRecorder()
        self.host = Source("host", HOST)
        self.scenario = Source("scenario", SCENARIO)
        self.supervisor = Source("supervisor", SUPERVISOR)
        self.current: Source | None = self.scenario
        self.actors: dict[int, Actor] = {}  # all that live: nothing else keeps a waiting actor
        self.effects = Effects(self)
        self._shuffled = shuffled
        self._max_deltas = max_deltas
        self._declared = 0
        self._calendar = FutureEvents()
        self._ready: list[Entry] = []
        self._entry: Entry = (0, 0, SCENARIO, 0, None, 0)
        self._order = self._entries()
        self._begun = -1  # the latest instant of which entries of the calendar have run
        self._limit = 0
        self._blocked_from = MAX_NS  # the earliest time at which an outcome might be missing
        self._halted = False
        self._midway = False  # stopped by its budget or an error, perhaps within an instant
        self._stale = 0
        self._purge_at = _PURGE_FROM

    # -- the loop

    def run(self, limit: int = MAX_NS, budget: int = 2**62) -> Pause:
        """Run all before `limit` (nanoseconds, exclusive), at most `budget` steps; say why it stopped.

        Raises:
            LivelockError: if time does not advance.
            BaseException: what an actor that nobody watches raised.
        """
        self._limit = 0 if self._halted else limit
        self._midway = True
        push = self._calendar.push
        left = budget
        try:
            for entry in self._order:  # This is the loop: an actor runs until it waits again.
                target = entry[4]
                token = entry[5]
                if target.token == token:  # else it was cancelled, or woken by something else
                    self._entry = entry
                    if target.__class__ is Actor:
                        self.current = target
                        target.token = token = (token | 1) + 1
                        try:
                            request = target.coro.send(target.value)  # type: ignore[union-attr]  # checks cost here
                        except BaseException as error:
                            self._ended(target, error)
                        else:
                            if request.__class__ is int and request > 0:
                                target.counter = counter = target.counter + 1
                                push((self.now + request, 0, target.ordinal, counter, target, token))
                            else:
                                self._arm(target, request)
                    elif target.__class__ is Pause:
                        self._midway = False
                        return target
                    else:
                        target.fire()
                left -= 1
                if left <= 0:
                    return Pause.BUDGET
            raise KernelError("this run has failed before and cannot go on")
        finally:
            self.current = None
            self.steps += budget - left

    def _entries(self) -> Iterator[Entry]:
        """Yield all entries in key order. A pause is an entry too: then what follows is looked for anew."""
        calendar = self._calendar
        while True:
            if calendar.position < len(calendar.open):
                entry = calendar.open[calendar.position]
            else:
                entry = calendar.peek() or _NEVER
            time = entry[0]
            if time > self._begun:  # not `now`: time may have passed to an instant without beginning it
                if self._ready and time > self.now:
                    if self._blocked_from <= self.now and self._missing(self.now):
                        yield (0, 0, 0, 0, Pause.BLOCKED, 0)
                    else:
                        yield from self._next_delta()
                    continue
                if time >= self._limit or self._blocked_from <= time:
                    pause = self._reason(time)
                    if pause is not None:
                        yield (0, 0, 0, 0, pause, 0)
                        continue
                self.now = self._begun = time
                self.delta = 0
                if self._shuffled:
                    yield from self._shuffled_instant()
                    continue
            calendar.position += 1
            yield entry

    def _next_delta(self) -> list[Entry]:
        batch, self._ready = self._ready, []
        self.delta += 1
        if self.delta > self._max_deltas:
            raise self._livelock(batch)
        if len(batch) > 1:
            self._sort(batch)
        return batch

    def _shuffled_instant(self) -> list[Entry]:
        calendar, batch = self._calendar, list[Entry]()
        while (entry := calendar.peek()) is not None and entry[0] == self.now:
            calendar.position += 1
            batch.append(entry)
        self._sort(batch)
        return batch

    def _reason(self, time: int) -> Pause | None:
        """Say why what is due at `time` must not run yet, or None if it may."""
        if time >= self._limit:
            if self._halted:
                self._halted = False
                return Pause.HALTED
            return Pause.IDLE if time == _NEVER[0] else Pause.LIMIT
        return Pause.BLOCKED if self._missing(time) else None

    def _missing(self, time: int) -> bool:
        self._blocked_from = self.effects.first_missing()
        return self._blocked_from <= time

    def _sort(self, batch: list[Entry]) -> None:
        try:
            if self._shuffled:
                ties = {ordinal: derive(self.seed, self.now, self.delta, ordinal) for ordinal in {e[2] for e in batch}}
                batch.sort(key=lambda entry: (entry[1], ties[entry[2]], entry[2], entry[3]))
            else:
                batch.sort()
        except TypeError as error:  # two equal keys make the comparison reach the targets
            raise KernelError(f"two wake-ups at {self.now} ns have one order key") from error

    # -- what steps do

    def schedule(self, delay: int, source: Source, target: Any, token: int, priority: int = 0) -> None:
        """Add an entry for `target` after `delay` nanoseconds, caused by `source`."""
        source.counter += 1
        now = self.now
        if delay > 0:
            self._calendar.push((now + delay, priority, source.ordinal, source.counter, target, token))
        elif delay == 0:
            self._ready.append((now, priority, source.ordinal, source.counter, target, token))
        else:
            raise KernelError(f"{source.name} asked for a wake-up {-delay} ns in the past")

    def wake(self, actor: Actor, value: Any, via: Any, source: Source | None = None) -> None:
        """Decide the wait of `actor`: it runs at this instant, next delta, and gets `value`.

        Args:
            actor: who waits; its registrations elsewhere become stale.
            value: what its wait returns.
            via: the wait that gave the value and can take it back.
            source: who causes it; the present one by default.
        """
        source = source or self.acting()
        actor.token += 1
        actor.value = value
        actor.via = via
        source.counter += 1
        self._ready.append((self.now, 0, source.ordinal, source.counter, actor, actor.token))

    def throw(self, actor: Actor, error: BaseException) -> None:
        """Raise `error` in `actor` where it waits, at this instant, next delta."""
        source = self.acting()
        value, via = actor.value, actor.via if actor.token & 1 else None
        actor.token = (actor.token | 1) + 1
        actor.value = None
        actor.via = None
        throw = Throw(self, actor, error)
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
        maker's, so that what one agent makes moves no other's place in the order.
        """
        parent = self.acting()
        if parent is self.scenario:
            ordinal = FIRST_ACTOR + self._declared
            self._declared += 1
        else:
            parent.children += 1
            ordinal = FIRST_DERIVED + (derive("ordinal", parent.ordinal, parent.children, name) >> 2)
        if ordinal in self.actors:
            raise KernelError(f"{name} and {self.actors[ordinal].name} have one ordinal")
        return Actor(name, ordinal)

    def begin(self, actor: Actor, coro: Coroutine[Any, Any, Any]) -> None:
        """Give `actor` a coroutine and let it run at this instant, next delta."""
        self.wake(actor, None, None)
        actor.coro = coro
        actor.exit = None
        actor.cancelling = False
        self.actors[actor.ordinal] = actor

    def begin_now(self, actor: Actor, coro: Coroutine[Any, Any, Any]) -> None:
        """Give `actor` a coroutine and run its first step at once, inside the present step."""
        actor.coro = coro
        actor.exit = None
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

    def call_at(self, time: int, callback: Callable[[], object], source: Source | None = None) -> Timer:
        """Call `callback` at a simulated time (nanoseconds, now or later) on behalf of `source`."""
        source = source or self.acting()
        timer = Timer(self, source, callback)
        self.schedule(time - self.now, source, timer, 0)
        return timer

    def emit(self, topic: str, data: object, actor: str | None = None) -> tuple[int, int]:
        """Record that something happened and return its identity: (source ordinal, source counter).

        Args:
            topic: what happened, dotted.
            data: JSON-like; it must never change afterwards.
            actor: who it happened to; the present source by default.
        """
        source = self.acting()
        source.counter += 1
        identity = (source.ordinal, source.counter)
        entry = self._entry
        self.recorder.event(
            (self.now, self.delta, 0, *identity, actor or source.name, topic, data, (entry[2], entry[3]))
        )
        return identity

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
                hint="use the host's methods (stop, wake, publish, spawn): they queue an input",
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

    # -- between runs

    def apply(self, kind: str, data: object, callback: Callable[[], object]) -> None:
        """Take an input: stamped at this instant, next delta, with the host as source; recorded; then it
        runs.
        """
        self.schedule(0, self.host, Timer(self, self.host, callback), 0)
        self.recorder.input((self.now, self.delta + 1, 0, HOST, self.host.counter, kind, data))

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
        if self._ready:
            return self.now
        entry = self._calendar.peek()
        return None if entry is None else entry[0]

    def pause(self) -> None:
        """Make `run` return when all that is caused at this instant has run, as if its limit had come."""
        self._limit = 0

    def look_out(self, time: int) -> None:
        """From `time` on, make sure before each instant that no outcome is missing."""
        self._blocked_from = min(self._blocked_from, time)

    def drop_timer(self) -> None:
        """Count a timer that has become stale; they are removed when they are many."""
        self._stale += 1
        if self._stale >= self._purge_at:
            live = self._calendar.purge(lambda entry: entry[4].token == entry[5])
            self._stale = 0
            self._purge_at = max(_PURGE_FROM, live)

    # -- how steps end

    def _arm(self, actor: Actor, request: Any) -> None:
        if actor.cancelling:  # it cancelled itself: what raises that is on its way
            return
        try:
            if request.__class__ is int:
                if request < 0:
                    raise UsageError(f"{actor.name} asked for a pause of {request} ns, which is negative")
                self.schedule(request, actor, actor, actor.token)
            elif hasattr(request, "arm"):
                request.arm(self, actor)
            else:
                raise ForeignAwaitError(
                    f"{actor.name} awaited {type(request).__name__!r}, which is not a wait of this kernel",
                    hint="use perform(effect) for work outside, and sim's own sleep, queues and signals",
                )
        except RunError:
            raise
        except Exception as error:
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
            self._close(actor, Exit("returned", value=error.value))
        elif isinstance(error, Cancelled) and actor.cancelling:
            self._close(actor, Exit("cancelled", error=error.with_traceback(None)))  # frames would stay alive
        elif isinstance(error, KeyboardInterrupt | MemoryError | RunError):
            raise error
        else:
            self._close(actor, Exit("crashed", error=error))

    def _close(self, actor: Actor, end: Exit) -> None:
        actor.coro = None
        actor.token = (actor.token | 1) + 1
        actor.exit = end
        self.actors.pop(actor.ordinal, None)
        if actor.on_exit is not None:
            actor.on_exit(actor, end)
        elif end.kind == "crashed":  # a failure that nobody watches for stops the run
            if isinstance(end.error, Exception):
                raise end.error
            raise ActorError(f"{actor.name} ended with {end.error!r}") from end.error

    def _livelock(self, batch: list[Entry]) -> LivelockError:
        targets = [getattr(entry[4], "actor", entry[4]) for entry in batch]
        names = sorted({getattr(target, "name", "a timer") for target in targets})[:5]
        return LivelockError(
            f"time stands still at {self.now / 1e9:g} s: after {self._max_deltas} rounds "
            f"{', '.join(names)} still cause more",
            hint="let them sleep between two actions (min_loop_delay), or raise execution.max_deltas",
        )
