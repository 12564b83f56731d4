"""The host: runs a kernel inside an asyncio or trio program (edge).

The host carries effects out, paces simulated against real time, and brings in calls from outside. It orders
nothing: what it brings in gets its place in the order from the kernel.
"""

import inspect
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Self

import anyio
import anyio.abc
import anyio.from_thread
import anyio.lowlevel

from sim.errors import Cancelled, UsageError
from sim.kernel.codec import decode, encode
from sim.kernel.duration import MAX_NS, NS
from sim.kernel.effects import Effect, Outcome, Ticket
from sim.kernel.ports import Clock
from sim.kernel.scheduler import Kernel
from sim.kernel.targets import Pause

SLICE = 0.004
"""Real seconds the kernel runs before the host program gets a turn."""

_FIRST_BUDGET = 16
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
    """

    def __init__(
        self,
        kernel: Kernel,
        *,
        speed: float | None = None,
        clock: Clock | None = None,
        progress: Callable[[], None] | None = None,
    ) -> None:
        if speed is not None and not 0 < speed < 1e9:
            raise UsageError(f"the speed must be above 0, not {speed}")
        self.kernel = kernel
        self.lag_ns = 0  # how late the latest paced step was: a metric, never state
        self._speed = speed
        self._clock = clock or MonotonicClock()
        self._progress = progress
        self._arrivals: deque[tuple[int, Callable[[], object]]] = deque()  # (real time, what applies it)
        self._scopes: dict[Ticket, anyio.CancelScope] = {}
        self._suspend = False
        self._thread = threading.get_ident()
        self._token: Any = None
        self._group: anyio.abc.TaskGroup | None = None
        self._news = anyio.Event()
        self._anchor = (0, 0)
        self._budget = _FIRST_BUDGET
        kernel.effects.performer = self

    # -- from outside, any thread

    def submit(self, kind: str, data: object, callback: Callable[[], object]) -> None:
        """Queue a call from outside: it is stamped, recorded, and then applied inside the run."""
        self._arrivals.append((self._clock.now(), lambda: self.kernel.apply(kind, data, callback)))
        self._notify()

    def suspend(self) -> None:
        """Make `run` return at the next step boundary; no agent is changed."""
        self._suspend = True
        self._notify()

    def _notify(self) -> None:
        if self._token is None or threading.get_ident() == self._thread:
            self._news.set()
        else:
            anyio.from_thread.run_sync(self._news.set, token=self._token)

    # -- the run

    async def __aenter__(self) -> Self:
        """Let effects live from one `run` to the next, until the host is left."""
        self._thread = threading.get_ident()
        self._token = anyio.lowlevel.current_token()
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Record what is still in flight as abandoned, and stop it."""
        group, self._group, self._token = self._group, None, None
        assert group is not None, "entered before"
        self.kernel.effects.abandon_all()
        group.cancel_scope.cancel()
        await group.__aexit__(None, None, None)  # without the error, which it would wrap in a group

    async def run(self, until: int) -> Pause:
        """Run the kernel until a simulated time (nanoseconds, exclusive) and say why it stopped.

        Returns `LIMIT` when the time was reached or nothing more can happen, `HALTED` when a step asked for
        it, `BUDGET` when it was suspended. Effects in flight go on if the host was entered (`async with`),
        and are recorded as abandoned if not.
        """
        if self._group is None:
            async with self:
                return await self._drive(until)
        return await self._drive(until)

    async def _drive(self, until: int) -> Pause:
        self._news = anyio.Event()
        told = flushed = self._clock.now()
        self._anchor = (self.kernel.now, told)
        while True:
            pause = self._take_in(until)
            started = self._clock.now()
            if pause is None:
                pause = self.kernel.run(self._limit(until), self._budget)
            ended = self._clock.now()
            self._adapt(pause, ended - started)
            if self._progress and ended - told > NS // 10:
                told = ended
                self._progress()
            if ended - flushed > _FLUSH_EVERY * NS:
                flushed = ended
                self.kernel.recorder.flush()
            if self._suspend and pause is not Pause.HALTED:
                self._suspend = False
                return Pause.BUDGET
            if pause is Pause.HALTED or (pause is not Pause.BUDGET and self._finished(pause, until)):
                return pause if pause is Pause.HALTED else Pause.LIMIT
            if pause is Pause.BUDGET:
                await anyio.lowlevel.checkpoint()
            else:
                await self._wait(pause, until)

    def _finished(self, pause: Pause, until: int) -> bool:
        """Whether nothing is left to do before `until`; if so, time has passed to it."""
        if self._arrivals and self._stamp(self._arrivals[0][0]) < until:
            return False
        if self.kernel.effects.in_flight and pause is not Pause.LIMIT:
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
        if self._speed is None and not self.kernel.effects.measured:
            self._anchor = (self.kernel.now, self._clock.now())
            return until
        return min(until, self._paced(self._clock.now()))

    def _paced(self, real: int) -> int:
        simulated, started = self._anchor
        elapsed = real - started
        return simulated + (elapsed if self._speed is None else round(elapsed * self._speed)) + 1

    def _adapt(self, pause: Pause, elapsed: int) -> None:
        """Choose the next budget so that a slice takes about `SLICE`."""
        if pause is Pause.BUDGET and elapsed > 0:
            wanted = self._budget * SLICE * NS / elapsed
            self._budget = max(1, min(round(wanted), self._budget * 4, 1_000_000))

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

    def _take_in(self, until: int) -> Pause | None:
        """Apply what has come from outside, each at its own simulated time; what is due before runs first, in
        slices.
        """
        while self._arrivals:
            real, apply = self._arrivals[0]
            stamp = self._stamp(real)
            if stamp >= until:
                break  # it came after the end of this run: the next one takes it
            pause = self.kernel.run(stamp, self._budget)
            if pause in (Pause.BUDGET, Pause.HALTED):
                return pause
            if (due := self.kernel.next_time()) is None or due >= stamp:
                self.kernel.advance_to(stamp)
            self._arrivals.popleft()
            apply()
        return None

    def _stamp(self, real: int) -> int:
        """Return the simulated time of something that came from outside at a real time."""
        if self._speed is None and not self.kernel.effects.measured:
            return self.kernel.now
        return max(self.kernel.now, self._paced(real) - 1)

    # -- effects

    def start(self, ticket: Ticket) -> None:
        """Begin an effect in a host task of its own."""
        assert self._group is not None, "effects start while the kernel runs under its host"
        if ticket.effect.latency_ns is None and self.kernel.effects.measured == 1 and self._speed is None:
            self._anchor = (self.kernel.now, self._clock.now())
        self._group.start_soon(self._carry_out, ticket)

    def abandon(self, ticket: Ticket) -> None:
        """Stop carrying out an effect that nobody waits for."""
        if scope := self._scopes.get(ticket):
            scope.cancel()

    async def _carry_out(self, ticket: Ticket) -> None:
        effect = ticket.effect
        if ticket.state != "running":
            return
        outcome = Outcome("timeout")
        with anyio.CancelScope(deadline=anyio.current_time() + effect.timeout) as scope:
            self._scopes[ticket] = scope
            try:
                outcome = await _outcome(effect)
            except anyio.get_cancelled_exc_class() as error:
                if scope.cancel_called or self._group is None:
                    raise
                outcome = _failure(error)  # the work was cancelled, but not by us
            finally:
                del self._scopes[ticket]
        if effect.latency_ns is None:
            self._arrivals.append((self._clock.now(), lambda: self.kernel.effects.post(ticket, outcome)))
        else:  # its place in the order is fixed already
            self.kernel.effects.post(ticket, outcome)
        self._news.set()


async def _outcome(effect: Effect) -> Outcome:
    """Carry `effect` out. The value takes the way through the record, so that a replay sees the same."""
    try:
        result: Any = effect.call(effect.request)
        value = await result if inspect.isawaitable(result) else result
        return Outcome("ok", decode(encode(value)))
    except (Exception, SystemExit, Cancelled) as error:
        return _failure(error)


def _failure(error: BaseException) -> Outcome:
    message = str(error).encode(errors="replace").decode()
    return Outcome("error", {"type": type(error).__name__, "message": message})


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
