"""The host: runs a kernel inside an asyncio or trio program (edge).

The host carries effects out, paces simulated against real time, and brings in calls from outside. It orders
nothing: what it brings in gets its place in the order from the kernel, at the end of an instant, and is durable before
any actor sees it. A run from a record first brings in what is on record (its history), each thing at its place; after
the history it continues live.
"""

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Self

import anyio
import anyio.lowlevel

from sim.crashpoints import reach
from sim.errors import Cancelled, UsageError
from sim.host.effect_tasks import EffectTasks
from sim.host.replayer import Replayer
from sim.host.time_slicer import TimeSlicer
from sim.kernel.codec import decode, encode
from sim.kernel.duration import MAX_NS, NS
from sim.kernel.effects import EffectHandle, Outcome
from sim.kernel.kernel import Kernel, Pause
from sim.kernel.ports import Clock, History

GRACE = 3.0
"""Real seconds in which effects in flight may end when a run is suspended; the rest are in flight again on resuming."""

_FLUSH_EVERY = 1.0


class MonotonicClock:
    """The real clock: monotonic, so that setting the wall clock moves nothing."""

    def now(self) -> int:
        """Return monotonic nanoseconds."""
        return time.monotonic_ns()


class Host:
    """Runs one kernel.

    Args:
        kernel: what to run.
        speed: simulated seconds per real second, or None to jump from event to event.
        clock: real time.
        progress: called about every tenth of a second with the kernel paused.
        history: what is on record of this run already.
        live: called at the end of the history, before anything is done outside, with the effects that were begun and
            must not be repeated without asking. The run continues live if it returns true; without it, or if it returns
            false, the run is suspended there.
    """

    def __init__(
        self,
        kernel: Kernel,
        *,
        speed: float | None = None,
        clock: Clock | None = None,
        progress: Callable[[], None] | None = None,
        history: History | None = None,
        live: Callable[[list[EffectHandle]], bool] | None = None,
    ) -> None:
        if speed is not None and not 0 < speed < 1e9:
            raise UsageError(f"the speed must be above 0, not {speed}")
        self.kernel = kernel
        self.lag_ns = 0  # how late the latest paced step was: a metric, never state
        self._speed = speed
        self._clock = clock or MonotonicClock()
        self._progress = progress
        self._on_live = live
        self._arrivals: deque[Callable[[], object]] = deque()  # what applies each
        self._suspend = False
        self._holds: Callable[[], object] | None = None
        self._uncommitted = False
        self._committed = anyio.Event()
        self._failure: Exception | None = None
        self._thread = threading.get_ident()
        self._news = anyio.Event()
        self._anchor = (0, 0)
        self._told = 0
        self.lost: Callable[[EffectHandle], bool] | None = None  # whether an effect may have been done in a lost record
        self.hold: Callable[[EffectHandle], None] | None = None  # what then happens when one begins in the live part
        self.live = history is None  # whether what happens now is new
        self._slicer = TimeSlicer(kernel, self._clock)
        self._replayer = None if history is None else Replayer(kernel, history, self._slicer)
        self._tasks = EffectTasks(kernel, measured=self._arrived, news=self._notify, failed=self._failed)
        kernel.effects.performer = self
        if not kernel.effects.namespace:  # nothing is kept of this run, but its keys must not be those of another one
            kernel.effects.namespace = secrets.token_hex(8)

    # -- from outside, any thread

    def submit(self, kind: str, data: object) -> None:
        """Queue a call from outside: it gets a place, is recorded, and is then applied inside the run.

        Raises:
            UsageError: if the kernel has no input of this kind.
            ActorError: if the data is not JSON-like.
        """
        if kind not in self.kernel.inputs:
            raise UsageError(f"there is no input {kind!r}", hint=f"there are {', '.join(sorted(self.kernel.inputs))}")
        kept = decode(encode(data))
        self._arrivals.append(lambda: self.kernel.apply(kind, kept))
        self._notify()

    def suspend(self) -> None:
        """Make `run` return at the end of the present instant; no agent is changed."""
        self._suspend = True
        self._notify()

    def _notify(self) -> None:
        door = self._tasks.door
        if door is None or threading.get_ident() == self._thread:
            self._news.set()
        else:
            door.call(lambda: self._news.set())

    # -- the run

    async def __aenter__(self) -> Self:
        """Let effects live from one `run` to the next, until the host is left."""
        self._thread = threading.get_ident()
        await self._tasks.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Stop carrying out what is in flight; whoever ends the run records it as abandoned."""
        await self._tasks.close()

    async def run(self, until: int, holds: Callable[[], object] | None = None) -> Pause:
        """Run the kernel until a simulated time (nanoseconds, exclusive) and say why it stopped.

        Args:
            until: the time.
            holds: asked after each instant that has run; when its answer is true the run is halted.

        Returns `LIMIT` when the time was reached or nothing more can happen, `HALTED` when a step asked for
        it, `BUDGET` when it was suspended. Effects in flight live on only if the host was entered (`async with`):
        else they are recorded as abandoned when this returns, and who waits for one waits for ever.

        Raises:
            DivergenceError: if what is made again is not what is on record.
        """
        self._holds = holds
        if self._tasks.door is not None:
            return await self._run(until)
        try:
            async with self:
                return await self._run(until)
        finally:
            self.kernel.effects.abandon_all()

    async def _run(self, until: int) -> Pause:
        pause = await self._remake(until) or await self._drive(until)
        if pause is Pause.BUDGET:
            self._suspend = False
        return pause

    async def _drive(self, until: int) -> Pause:
        self._news = anyio.Event()
        flushed = self._clock.now()
        self._anchor = (self.kernel.now, flushed)
        while True:
            pause = self._take_in(until)
            if self._uncommitted:
                await self._commit()
            if pause is None:
                pause = self._slicer.run(self._limit(until))
            if not self._suspend:
                self._tasks.launch()
            if self._failure is not None:
                raise self._failure
            now = self._clock.now()
            self._tell(now)
            if now - flushed > _FLUSH_EVERY * NS:
                flushed = now
                self.kernel.recorder.flush()
            if pause is Pause.HALTED or (self._holds is not None and self.kernel.whole() and self._holds()):
                return Pause.HALTED
            if self._suspend and pause is not Pause.BUDGET:
                await self._give_grace()
                return Pause.BUDGET
            if pause is Pause.BUDGET:
                await anyio.lowlevel.checkpoint()
            elif self._finished(pause, until):
                return Pause.LIMIT
            else:
                await self._wait(pause, until)

    def _tell(self, now: int) -> None:
        if self._progress and now - self._told > NS // 10:
            self._told = now
            self._progress()

    def _finished(self, pause: Pause, until: int) -> bool:
        """Whether nothing is left to do before `until`; if so, time has passed to it."""
        if self._arrivals and self._stamp() < until:
            return False
        if self.kernel.effects.pending and pause is not Pause.LIMIT:
            return False
        if self._limit(until) < until:
            return False
        due = self.kernel.next_time()
        if due is not None and due < until:
            return False
        if until < MAX_NS:
            self.kernel.advance_to(until)
        return True

    def _limit(self, until: int) -> int:
        """Up to which simulated time the kernel may run now."""
        if self._suspend:
            return min(until, self.kernel.now + 1)
        if self._replayer is not None and (known := self._replayer.late()) is not None:
            until = min(until, known.time_ns + 1)
        if self._holds is not None and (due := self.kernel.next_time()) is not None:
            until = min(until, due + 1)
        if self._speed is None and not self.kernel.effects.measured:
            self._anchor = (self.kernel.now, self._clock.now())
            return until
        return min(until, self._paced(self._clock.now()))

    def _paced(self, real: int) -> int:
        simulated, started = self._anchor
        elapsed = real - started
        return simulated + (elapsed if self._speed is None else round(elapsed * self._speed)) + 1

    async def _wait(self, pause: Pause, until: int) -> None:
        """Wait for news, or until the pace allows the next step."""
        due = self.kernel.next_time()
        target = until if due is None else min(due, until)
        seconds: float | None = None
        paced = self._speed is not None or self.kernel.effects.measured
        if paced and pause is not Pause.BLOCKED and target < MAX_NS:
            ahead = target - self._paced(self._clock.now()) + 1
            seconds = max(0.0, ahead / NS / (self._speed or 1.0))
        elif pause is Pause.LIMIT and not paced:
            seconds = 0.0  # a measured effect began, and was abandoned before time passed
        with anyio.move_on_after(seconds):
            await self._news.wait()
        self._news = anyio.Event()
        if due is not None and paced:
            self.lag_ns = max(0, self._paced(self._clock.now()) - due)

    # -- what comes from outside

    def _take_in(self, until: int) -> Pause | None:
        """Put what has come from outside at its place: the end of the instant that it is now. What is due until then
        runs first, in slices.
        """
        stamp = self._stamp()
        if (again := self._replayer) is not None and (known := again.late()) is not None:
            first = known.time_ns <= stamp or not self._arrivals
            if first and known.time_ns < self._limit(until):
                if (pause := self._slicer.run_through(known.time_ns)) is None:
                    again.bring_in(known)
                    self._uncommitted = True
                return pause
        if not self._arrivals:
            return None
        if stamp >= until:
            if not self.kernel.effects.only_doubts():
                return None  # what comes after the end of this run is for the next one
            stamp = self.kernel.now  # real time has run on, but an effect in doubt holds simulated time here
        pause = self._slicer.run_through(stamp, blocked=True)
        if pause is not None and not self._stands_in_doubt(pause):
            return pause
        self._place_arrivals()
        return None

    def _stands_in_doubt(self, pause: Pause) -> bool:
        """Whether the kernel stands within an instant because of effects in doubt, which only an input can change."""
        return pause is Pause.BLOCKED and self.kernel.effects.only_doubts()

    def _stamp(self) -> int:
        """Return the simulated time of what comes from outside now."""
        if self._suspend or (self._speed is None and not self.kernel.effects.measured):
            return self.kernel.now
        return max(self.kernel.now, self._paced(self._clock.now()) - 1)

    def _place_arrivals(self) -> None:
        while self._arrivals:
            self._arrivals.popleft()()
        self._uncommitted = True

    async def _commit(self) -> None:
        """Wait until what was placed is durable: no actor sees it before."""
        reach("arrivals.applied")
        durable = self._committed = anyio.Event()
        self._tasks.when_durable(durable.set)
        await durable.wait()
        self._uncommitted = False
        reach("arrivals.durable")
        if self._failure is not None:
            raise self._failure

    async def _give_grace(self) -> None:
        """Let effects under way end, so that they need not be done again; no actor sees their outcomes now."""
        with anyio.move_on_after(GRACE):
            while self._tasks.under_way:
                await self._news.wait()
                self._news = anyio.Event()
        if self.kernel.whole() or self.kernel.effects.only_doubts():
            self._place_arrivals()
        await self._commit()

    # -- what is on record

    async def _remake(self, until: int) -> Pause | None:
        """Make again what is on record, at full speed; return None when that is over, or why the run ended in it."""
        replayer = self._replayer
        if replayer is None or self.live:
            return None
        while not replayer.over:
            pause = replayer.some(until)
            self._tell(self._clock.now())
            if self._suspend:
                return Pause.BUDGET
            if pause is not Pause.BUDGET:
                return pause
            await anyio.lowlevel.checkpoint()
        self.live = True
        if self._on_live is None:
            return Pause.BUDGET
        if await self._end_instant() is Pause.HALTED:
            return Pause.HALTED
        aside = self._tasks.set_aside(lambda handle: replayer.in_doubt(handle) or self._is_lost(handle))
        if not self._on_live(aside):
            return Pause.BUDGET
        reach("resume.live")
        return None

    async def _end_instant(self) -> Pause | None:
        """Run what is left of the instant in which the history ended: it belongs to what is on record there."""
        while not self.kernel.whole():
            pause = self._slicer.run(self.kernel.now + 1)
            if pause is not Pause.BUDGET:
                return pause
            await anyio.lowlevel.checkpoint()
        return None

    # -- effects

    def start(self, handle: EffectHandle) -> bool:
        """Take an effect that has begun: from the record, or to be carried out in a task of its own."""
        if self._replayer is not None and self._replayer.start(handle):
            return False
        if self.hold is not None and self._is_lost(handle):
            handle.doubtful = True
            self.hold(handle)
            self.kernel.pause()  # what was submitted gets its place at the end of this instant
            return False
        if not handle.modelled and not self.kernel.effects.measured and self._speed is None:
            self._anchor = (self.kernel.now, self._clock.now())
        self._tasks.add(handle)
        return True

    def _is_lost(self, handle: EffectHandle) -> bool:
        return self.lost is not None and self.lost(handle)

    def abandon(self, handle: EffectHandle) -> None:
        """Stop carrying out an effect that nobody waits for."""
        self._tasks.drop(handle)

    def _arrived(self, handle: EffectHandle, outcome: Outcome) -> None:
        """Take the outcome of a measured effect, which gets its place when the kernel pauses."""

        def place() -> None:
            if self.kernel.effects.wanted(handle):  # else it timed out or was abandoned meanwhile
                self.kernel.effects.record(handle, outcome)
                reach("effect.recorded")
                self.kernel.effects.post(handle, outcome)

        self._arrivals.append(place)
        self._news.set()

    def _failed(self, error: Exception) -> None:
        self._failure = error
        self._committed.set()  # who waits for a commit must learn that none comes
        self._news.set()


def run_actor(kernel: Kernel, main: Coroutine[Any, Any, Any], *, backend: str = "asyncio") -> Any:
    """Run `main` as an actor of `kernel` to its end and return what it returns. For plain code and for tests.

    Raises:
        BaseException: what `main` raised.
    """
    actor = kernel.spawn("main", main, on_exit=lambda *_: kernel.halt())
    anyio.run(Host(kernel).run, MAX_NS, backend=backend)
    if actor.exit is None:
        raise UsageError("the main actor waits for something that never happens")
    if actor.exit.error is not None and not isinstance(actor.exit.error, Cancelled):
        raise actor.exit.error
    return actor.exit.value
