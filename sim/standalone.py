"""`sim.World`: a world that a program runs without a scenario file."""

import logging
from collections.abc import Callable
from typing import Any, Literal, Self

from sim.base.errors import RunError, UsageError
from sim.host.host import Host
from sim.host.pacing import check_speed
from sim.host.until import run_host_until
from sim.kernel.duration import MAX_NS, to_ns
from sim.kernel.kernel import Pause
from sim.kernel.order import MAX_DELTAS
from sim.kernel.ports import Clock, Intake, Recorder
from sim.kernel.until import Until
from sim.world import world
from sim.world.deadlock import deadlock, mutual_block

_LOG = logging.getLogger("sim.world")


class World(world.World):
    """A shared world with the host that runs it. See `sim.world.World` for its parts.

    Args:
        seed: the seed of all random streams.
        clock: `virtual`: simulated time jumps from event to event. `wall`: it follows real time.
        speed: with the wall clock: simulated seconds per real second, above 0; 1 by default.
        strict: with the wall clock: whether a run that is late by more than one simulated second ends with an error, as
            in the real time of SimPy. Otherwise it says at its end, as a warning of the logger `sim.host`, by how much.
        recorder: records the run; None: nothing is recorded.
        shuffled: whether ties in the order of steps are broken by a hash instead of by the order of declaration.
        order: with `shuffled`, which of the orders of this seed.
        max_deltas: how many deltas one instant can have before it counts as a livelock.
        real_time: the clock that the wall clock reads; by default that of this machine.

    Attributes:
        deadlock: which agents were blocked for ever when the latest run ended, in one sentence; None: none.
        still: returns whether simulated time has to stand still until a call of the program; None: it never has to.

    Raises:
        UsageError: if a speed or `strict` is given without the wall clock, the speed is not a number above 0, or the
            seed or `max_deltas` is no whole number.
    """

    _host: Host | None = None
    _endless = False  # whether the run under way has no end in time

    def __init__(
        self,
        seed: int = 0,
        *,
        clock: Literal["virtual", "wall"] = "virtual",
        speed: float | None = None,
        strict: bool = False,
        recorder: Recorder | None = None,
        shuffled: bool = False,
        order: int = 0,
        max_deltas: int = MAX_DELTAS,
        real_time: Clock | None = None,
    ) -> None:
        super().__init__(seed, recorder=recorder, shuffled=shuffled, order=order, max_deltas=max_deltas)
        if clock not in ("virtual", "wall"):
            raise UsageError(f"the clock is 'virtual' or 'wall', not {clock!r:.60}")
        if clock == "virtual" and (speed is not None or strict):
            option = "strict" if speed is None else "a speed"
            raise UsageError(f"{option} needs the wall clock", hint='write World(clock="wall", ...)')
        self._speed = None if clock == "virtual" else 1.0 if speed is None else speed
        self._strict = strict
        self._real_time = real_time
        self.deadlock: str | None = None
        self.still: Callable[[], bool] | None = None
        if self._speed is not None:
            check_speed(self._speed)

    async def __aenter__(self) -> Self:
        """Keep effects in flight between calls of `run`. Leaving the block ends the run (`close`)."""
        self._check_open()
        await self._joined().__aenter__()
        return self

    async def __aexit__(self, kind: object, *rest: object) -> None:
        try:
            self.close()
        except Exception:
            if kind is None:  # otherwise the caller must see the first failure
                raise
        finally:
            if self._host is not None:
                await self._host.__aexit__(kind, *rest)
                self._host.calls.close()
            self.ended = True
            self.kernel.close()

    async def run(self, until: Until | None = None) -> Any:
        """Run up to a simulated time or until a condition holds. Call it again to continue.

        Inside `async with`, effects in flight continue between calls. Otherwise they are abandoned after each call.

        It can be awaited in any asyncio or trio program, and lets other tasks of the program run.

        Args:
            until: a simulated time since the start (seconds, or text such as `10m`): what is due at it happens only if
                the world is run further. Or a wait (a latch, a signal, `join`), an actor (until its end), or a function
                without arguments that is called after each instant: all events of the instant at which it ends are
                executed first. None: until all agents have stopped, or the program cancels it; meanwhile agents that
                sleep can be woken by calls of the program. In a world without agents that were started: until no event
                is due any more.

        Returns:
            The value of the wait, the result of the actor, or the first true value of the function; None for a time.

        Raises:
            UsageError: if no event is scheduled and the condition does not hold, if the time has passed already, if
                another call of `run` is under way, or after the block of `async with`.
            RunError: with `until=None`, if all agents that have not stopped are blocked for ever; with `strict`, if the
                run is too late.
            BaseException: the error of the awaited actor, or of an actor without a supervisor.
        """
        self._check_open()
        host = self._host or self._joined()
        async with host.calls.alone():
            if isinstance(until, int | float | str) and to_ns(until) < self.kernel.now:
                raise UsageError(
                    f"this world is at {self.now:g} s already, so that it cannot run until {until!r}",
                    hint="`until` counts from the start of the world: write world.run(until=world.now + 10)",
                )
            try:
                return await (run_host_until(host, until) if until is not None else self._until_stopped(host))
            finally:
                self._report_deadlock()

    def _check_open(self) -> None:
        if self.ended:
            raise UsageError(
                "the run of this world is over, because the block of `async with` was left",
                hint="run it within the block, or make another World",
            )

    async def _until_stopped(self, host: Host) -> None:
        """Run until all agents have stopped; if none has been started, until nothing is left to happen."""
        before = self.on_all_stopped
        had_agents = self.running > 0
        self.on_all_stopped = _both(before, self.kernel.halt)
        self._endless = True
        try:
            pause = await host.run(MAX_NS, patient=self._can_continue)
        finally:
            self.on_all_stopped = before
            self._endless = False
        if pause is Pause.LIMIT and had_agents and self.running:
            raise RunError(deadlock(self) or "nothing is left to happen")

    def _can_continue(self) -> bool:
        """Whether calls of the program can still make something happen, though no event is due."""
        return self.running > sum(not pending.handler.awaits_work for pending in self.pending.values())

    def _report_deadlock(self) -> None:
        """Find out whether agents are blocked for ever, and say so once."""
        before, kernel = self.deadlock, self.kernel
        over = not kernel.effects.pending and kernel.next_time() is None
        self.deadlock = (deadlock(self) if over else None) or mutual_block(self)
        if self.deadlock is not None and self.deadlock != before:
            _LOG.warning("at %g s: %s", self.now, self.deadlock)

    def _is_held(self) -> bool:
        return self.on_hold or (self._endless and self.still is not None and self.running > 0 and self.still())

    def _take_in(self) -> Intake:
        return self._intake or self._joined()

    def _joined(self) -> Host:
        host = self._host = Host(
            self.kernel,
            speed=self._speed,
            clock=self._real_time,
            held=self._is_held,
            drives=True,
            strict=self._strict,
        )
        self.attach(host)
        return host


def _both(first: Callable[[], None] | None, second: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls both."""

    def call() -> None:
        if first is not None:
            first()
        second()

    return call
