"""Edge: the host, which runs a kernel inside an asyncio or trio program.

The host carries out effects, paces simulated time against real time, and applies inputs. Inputs and outcomes of effects
are called arrivals. The host does not order them: the kernel places them at the end of an instant, and they are on disk
before any actor sees them. A run from a record first replays the record (its history), with each recorded arrival at
its place, and then continues live.
"""

import secrets
from collections.abc import Awaitable, Callable, Coroutine
from threading import get_ident
from typing import Any, Self

import anyio
import anyio.lowlevel

from sim.base.crashpoints import reach
from sim.base.errors import Cancelled, UsageError
from sim.host.arrivals import Arrivals
from sim.host.calls import HostCall, HostCalls
from sim.host.effect_tasks import EffectTasks
from sim.host.pacing import MonotonicClock, Pacer
from sim.host.replayer import Replayer
from sim.host.surroundings import Surroundings
from sim.host.time_slicer import TimeSlicer
from sim.kernel.duration import MAX_NS, NS
from sim.kernel.effects import EffectHandle, Outcome
from sim.kernel.kernel import Kernel, Pause
from sim.kernel.ports import Clock, History

GRACE = 3.0
"""Real seconds that a suspended run waits for effects in flight. The others are in flight again after a resume."""

_FLUSH_EVERY = 1.0  # real seconds


class Host:
    """Runs one kernel.

    Args:
        kernel: the kernel to run.
        speed: simulated seconds per real second, or None to jump from event to event.
        clock: the clock for real time.
        progress: a function that is called about ten times per second while the kernel is paused.
        history: the record of this run, for a replay.
        live: a function that is called at the end of the history, before any effect starts, with the effects in doubt.
            If it returns True, the run continues live. Without it, or if it returns False, the run is suspended.
        held: a function that returns whether somebody has paused the run. While it does, simulated time stands still.
        drives: whether a wait for a call of the host program runs the kernel itself while no run is under way.
        strict: whether a step that is more than one simulated second late is an error; see `Pacer`.

    Attributes:
        calls: the calls of the host program.
        held: returns whether somebody has paused the run.
        pacer: the pace of simulated time against real time.
        by_instant: whether to look at `held` after each instant, and not only after each slice of real time.
        lost: a function that returns whether an effect may have been carried out according to a lost record, or None.
        hold: a function that is called with such an effect when it starts in the live part, or None.
        live: whether the run is live, and not in its history.
        replayer: repeats the history; None: there is none.
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
        held: Callable[[], bool] | None = None,
        drives: bool = False,
        strict: bool = False,
    ) -> None:
        self.kernel = kernel
        self._clock = clock or MonotonicClock()
        self._surroundings = Surroundings()
        kernel.surroundings = self._surroundings.hidden
        self.pacer = Pacer(kernel, self._clock, speed, strict=strict)
        self._progress = progress
        self._on_live = live
        self.held = held or _never
        self.by_instant = False
        self._arrivals = Arrivals(kernel)
        self._suspend = False
        self._holds: Callable[[], object] | None = None
        self._patient: Callable[[], bool] = _never
        self._failure: Exception | None = None
        self._thread = get_ident()
        self._news = anyio.Event()
        self._reported = 0
        self._blocked = False  # whether the kernel waits for an outcome that is due
        self._turned_idle = anyio.Event()
        self.lost: Callable[[EffectHandle], bool] | None = None
        self.hold: Callable[[EffectHandle], None] | None = None
        self.live = history is None
        self._slicer = TimeSlicer(kernel, self._clock)
        self.replayer = None if history is None else Replayer(kernel, history, self._slicer)
        self._tasks = EffectTasks(
            kernel, measured=self._arrived, news=self._notify, settled=self._note_idle, failed=self._failed
        )
        self.calls = HostCalls(self, (lambda holds: self.run(MAX_NS, holds)) if drives else None)
        kernel.effects.performer = self
        if not kernel.effects.namespace:  # the run has no record, but its idempotency keys must be unique
            kernel.effects.namespace = secrets.token_hex(8)

    # -- calls from any thread

    def submit(self, kind: str, data: object, applied: Callable[[object], object] | None = None) -> None:
        """Queue an input. It is placed at the end of an instant, recorded, and then applied inside the run.

        Args:
            kind: the kind of input.
            data: its data, JSON-like.
            applied: a function that is called in the run with the answer of its handler. It must not change the run.

        Raises:
            UsageError: if the kernel has no input of this kind.
            ActorError: if the data is not JSON.
        """
        self._arrivals.add_input(kind, data, applied)
        self._notify()

    def call(self, kind: str, data: object, name: str) -> HostCall:
        """Queue an input as `submit` does, and return its call, which can be awaited."""
        return self.calls.submit(kind, data, name)

    def watch(self, name: str, register: Callable[[Callable[[Any], object]], object]) -> HostCall:
        """Return a wait for something in the run; see `HostCalls.watch`."""
        return self.calls.watch(name, register)

    def in_other_thread(self) -> bool:
        """Whether the caller runs in another thread than the run."""
        return get_ident() != self._thread

    def suspend(self) -> None:
        """Make `run` return at the end of the present instant. The state of agents does not change."""
        self._suspend = True
        self._notify()

    def look_up(self) -> None:
        """Make a run that waits look at `holds` again."""
        self._notify()

    def _notify(self) -> None:
        door = self._tasks.door
        if door is None or get_ident() == self._thread:
            with self._surroundings.shown():
                self._news.set()
        else:
            door.call(lambda: self._news.set())

    # -- work beside the run

    def beside(self, work: Callable[[], Awaitable[None]]) -> None:
        """Start work that runs in the event loop of the effects, and is cancelled when the host is left."""
        self._tasks.beside(work)

    async def idle(self) -> int:
        """Wait until the kernel cannot continue before an effect ends, and return how many are being carried out.

        All outcomes so far are on disk then. A run that is paused by people is not idle.
        """
        await anyio.lowlevel.checkpoint()
        while not self._is_idle:
            await self._turned_idle.wait()
        return self._tasks.under_way

    @property
    def _is_idle(self) -> bool:
        return self._blocked and self._tasks.settled and not self._news.is_set()

    def _note_idle(self) -> None:
        if self._is_idle:
            self._turned_idle.set()
            self._turned_idle = anyio.Event()

    # -- the run

    async def __aenter__(self) -> Self:
        """Enter the host: effects in flight survive from one `run` to the next, until the host is left."""
        self._thread = get_ident()
        await self._tasks.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Cancel the tasks of effects in flight. The code that ends the run records them as abandoned."""
        await self._tasks.close()

    async def run(
        self, until: int, holds: Callable[[], object] | None = None, *, patient: Callable[[], bool] | None = None
    ) -> Pause:
        """Run the kernel until a simulated time, and return why it stopped.

        Effects in flight continue after the return only if the host was entered (`async with`). Otherwise they are
        recorded as abandoned, and the actors that wait for them are never woken.

        Args:
            until: the time (nanoseconds, exclusive).
            holds: a function that is called after each instant. If it returns True, the run is halted.
            patient: a function that returns whether to wait for inputs when no event is due any more.

        Returns:
            `LIMIT` if the time was reached or no event can happen any more, `HALTED` if a step or `holds` asked for it,
            `BUDGET` if the run was suspended.

        Raises:
            DivergenceError: if the replay differs from the record.
        """
        self._holds, self._patient = holds, patient or _never
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
        self.pacer.report_lag()
        return pause

    async def _drive(self, until: int) -> Pause:
        self._news = anyio.Event()
        self._blocked = False  # a run that was cancelled while it waited has left it set
        flushed = self._clock.now()
        steps = self.kernel.steps
        self.pacer.anchor()
        while True:
            pause = self._take_in(until)
            if self._arrivals.uncommitted:
                await self._commit()
            if pause is None:
                pause = self._slicer.run(self._limit(until))
            if self.kernel.steps != steps:
                steps = self.kernel.steps
                self.pacer.check_lag()
            if not self._suspend:
                self._tasks.launch(more=pause is Pause.BUDGET)
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
        if self._progress and now - self._reported > NS // 10:
            self._reported = now
            self._progress()

    def _finished(self, pause: Pause, until: int) -> bool:
        """Return whether there is nothing left to do before `until`. If so, advance simulated time to it."""
        if self.held() or (self._arrivals and self._stamp() < until):
            return False
        if self.kernel.effects.pending and pause is not Pause.LIMIT:
            return False
        due = self.kernel.next_time()
        if due is None and until == MAX_NS:
            return not self._patient()
        if self._limit(until) < until:
            return False
        if due is not None and due < until:
            return False
        if until < MAX_NS:
            self.kernel.advance_to(until)
        return True

    def _limit(self, until: int) -> int:
        """Return the simulated time (nanoseconds, exclusive) up to which the kernel may run now."""
        if self._suspend:
            return min(until, self.kernel.now + 1)
        if self.held():
            self.pacer.anchor()  # real time that passes now never becomes simulated time
            return min(until, self.kernel.now + 1)
        if self.replayer is not None and (arrival := self.replayer.late()) is not None:
            until = min(until, arrival.time_ns + 1)
        if (self.by_instant or self._holds is not None) and (due := self.kernel.next_time()) is not None:
            until = min(until, due + 1)
        return min(until, self.pacer.limit())

    async def _wait(self, pause: Pause, until: int) -> None:
        """Wait for an arrival or a commit, or until the pace allows the next step."""
        due = self.kernel.next_time()
        target = until if due is None else min(due, until)
        seconds: float | None = None
        held, paced = self.held(), self.pacer.paced
        if held:
            pass  # until an arrival
        elif paced and pause is not Pause.BLOCKED and target < MAX_NS:
            seconds = self.pacer.seconds_until(target)
        elif pause is Pause.LIMIT and not paced:
            seconds = 0.0  # an effect with measured latency started, and was abandoned at the same instant
        self._blocked = pause is Pause.BLOCKED and not held
        self._note_idle()
        await self._listen(seconds)
        self._blocked = False
        if due is not None and paced and not held:
            self.pacer.note_lag(due)

    async def _listen(self, seconds: float | None) -> None:
        """Wait for news, for at most a number of real seconds; None: without limit.

        In a long wait, the events so far are handed to the writer, because somebody may read them to act on them, and
        the progress is reported.
        """
        flushed = False
        while (seconds is None or seconds > _FLUSH_EVERY) and not self._news.is_set():
            with anyio.move_on_after(_FLUSH_EVERY):
                await self._news.wait()
            if not self._news.is_set():
                if not flushed:
                    self.kernel.recorder.flush()
                flushed = True
                self._tell(self._clock.now())
                seconds = None if seconds is None else seconds - _FLUSH_EVERY
        with anyio.move_on_after(seconds):
            await self._news.wait()
        self._news = anyio.Event()

    # -- arrivals

    def apply_now(self) -> None:
        """Apply the queued arrivals at the present instant, between two runs, with all that they cause at this instant.

        What is due at this instant runs first. If an outcome is missing for it, the next run applies the arrivals.
        """
        while (pause := self._slicer.run_through(self.kernel.now, blocked=True)) is Pause.BUDGET:
            pass
        if pause is not None and not self._stands_in_doubt(pause):
            return
        self._arrivals.place()
        self._arrivals.commit_now()
        while self._slicer.run(self.kernel.now + 1) is Pause.BUDGET:
            pass

    def _take_in(self, until: int) -> Pause | None:
        """Place the arrivals at the end of the present instant. Run the entries due until then first, in slices.

        Return why this is not possible yet, or None.
        """
        stamp = self._stamp()
        if (again := self.replayer) is not None and (arrival := again.late()) is not None:
            first = arrival.time_ns <= stamp or not self._arrivals
            if first and arrival.time_ns < self._limit(until):
                if (pause := self._slicer.run_through(arrival.time_ns)) is None:
                    again.bring_in(arrival)
                    self._arrivals.uncommitted = True
                return pause
        if not self._arrivals:
            return None
        if stamp >= until:
            if not self.kernel.effects.only_doubts():
                return None  # the arrivals are after the end of this run, so that the next run applies them
            stamp = self.kernel.now  # an effect in doubt blocks simulated time here, while real time continues
        pause = self._slicer.run_through(stamp, blocked=True)
        if pause is not None and not self._stands_in_doubt(pause):
            return pause
        self._arrivals.place()
        return None

    def _stands_in_doubt(self, pause: Pause) -> bool:
        """Return whether effects in doubt block the kernel within an instant. Only an input can change this."""
        return pause is Pause.BLOCKED and self.kernel.effects.only_doubts()

    def _stamp(self) -> int:
        """Return the simulated time (nanoseconds) of an arrival that comes now."""
        return self.kernel.now if self._suspend or self.held() else self.pacer.stamp()

    async def _commit(self) -> None:
        await self._arrivals.commit(self._tasks.when_durable)
        if self._failure is not None:
            raise self._failure

    async def _give_grace(self) -> None:
        """Wait for effects in flight, so that they need not be repeated after resume. Actors get the outcomes then."""
        with anyio.move_on_after(GRACE):
            while self._tasks.under_way:
                await self._news.wait()
                self._news = anyio.Event()
        if self.kernel.whole() or self.kernel.effects.only_doubts():
            self._arrivals.place()
        await self._commit()

    # -- replay

    async def _remake(self, until: int) -> Pause | None:
        """Replay the history at full speed. Return None when it is over, or why the run ended during the replay."""
        replayer = self.replayer
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
        aside = self._tasks.set_aside(lambda handle: replayer.is_held(handle) or self._is_lost(handle))
        if not self._on_live(aside):
            return Pause.BUDGET
        reach("resume.live")
        return None

    async def _end_instant(self) -> Pause | None:
        """Run the remaining entries of the instant in which the history ended, because they follow from the record."""
        while not self.kernel.whole():
            pause = self._slicer.run(self.kernel.now + 1)
            if pause is not Pause.BUDGET:
                return pause
            await anyio.lowlevel.checkpoint()
        return None

    # -- effects

    def start(self, handle: EffectHandle) -> bool:
        """Start an effect: answer it from the record, or carry it out in a task."""
        if self.replayer is not None and self.replayer.start(handle):
            return False
        if self.hold is not None and self._is_lost(handle):
            handle.doubtful = True
            self.hold(handle)
            self.kernel.pause()  # inputs that `hold` submits are placed at the end of this instant
            return False
        if not handle.modelled and not self.pacer.paced:
            self.pacer.anchor()
        self._tasks.add(handle)
        return True

    def _is_lost(self, handle: EffectHandle) -> bool:
        return self.lost is not None and self.lost(handle)

    def abandon(self, handle: EffectHandle) -> None:
        """Cancel the task of an effect whose outcome is no longer needed."""
        with self._surroundings.shown():
            self._tasks.drop(handle)

    def _arrived(self, handle: EffectHandle, outcome: Outcome) -> None:
        """Queue the outcome of an effect with measured latency. It is placed when the kernel pauses."""
        self._arrivals.add_outcome(handle, outcome)
        self._news.set()

    def _failed(self, error: Exception) -> None:
        self._failure = error
        self._arrivals.release()  # wakes `_commit`, which raises the error
        self._news.set()


def _never() -> bool:
    return False


def run_actor(kernel: Kernel, main: Coroutine[Any, Any, Any], *, backend: str = "asyncio") -> Any:
    """Run `main` as an actor of `kernel` to its end, and return its result. For synchronous code and for tests.

    Raises:
        UsageError: if `main` can never end.
        BaseException: the error of `main`.
    """
    actor = kernel.spawn("main", main, on_exit=lambda *_: kernel.halt())
    anyio.run(Host(kernel).run, MAX_NS, backend=backend)
    if actor.exit is None:
        raise UsageError("the main actor waits for an event that never happens")
    if actor.exit.error is not None and not isinstance(actor.exit.error, Cancelled):
        raise actor.exit.error
    return actor.exit.value
