"""The clock of the client in the core: simulated time, waits of the kernel, random draws from the agent's own stream.

With this clock, the client code (`client`) that calls endpoints in real time calls `simulated` in simulated time. It
runs in the coroutine of the calling agent, without further tasks.
"""

import math
from collections.abc import Callable
from typing import Any

from sim.base.errors import Cancelled, UsageError
from sim.kernel import Actor, Kernel, Signal, to_seconds
from sim.kernel.duration import MAX_NS, NS
from sim.kernel.waits import sleep_ns


class _Expired(Cancelled):
    """Raised at the wait of an actor when a `within` expires.

    The levels record which `within` it is, because a second expiry at the same instant replaces the first. The class is
    derived from `Cancelled`, so that the waits of the kernel undo what they granted and `except Exception` does not
    catch it.
    """


class _Level:
    """One active `within`, and whether it has expired."""

    __slots__ = ("over",)

    def __init__(self) -> None:
        self.over = False


class CoreWake:
    """A latch: actors wait until it is set, once. Later actors do not wait."""

    __slots__ = ("_set", "_signal")

    def __init__(self, kernel: Kernel) -> None:
        self._signal = Signal(kernel)
        self._set = False

    def set(self) -> None:
        """Wake all waiting actors at this instant, in order of arrival."""
        if not self._set:
            self._set = True
            self._signal.fire()

    async def wait(self) -> None:
        """Wait until it is set."""
        if not self._set:
            await self._signal.wait()


class CoreClock:
    """Simulated time for the client. All agents of a kernel share one clock.

    Args:
        kernel: the kernel that gives the time.
        purpose: the purpose of the random draws; each agent has its own.
    """

    def __init__(self, kernel: Kernel, purpose: str = "llm.client") -> None:
        self._kernel = kernel
        self._purpose = purpose
        self._levels: dict[Actor, list[_Level]] = {}  # active deadlines, outermost first

    def now(self) -> float:
        """Return simulated seconds since the start of the run."""
        return to_seconds(self._kernel.now)

    async def sleep(self, seconds: float) -> None:
        """Suspend the acting agent for at least `seconds` of simulated time. No-op if `seconds` is 0 or less."""
        if not seconds <= 0:  # in this form NaN reaches the check below
            await sleep_ns(_nanoseconds(seconds))

    def wake(self) -> CoreWake:
        """Return a new latch."""
        return CoreWake(self._kernel)

    def random(self) -> float:
        """Return a number in [0, 1) from the draws of the acting agent, so that agents do not affect each other."""
        kernel = self._kernel
        return kernel.streams.draws(kernel.acting().name, self._purpose).moment(kernel.now).random()

    async def within(self, seconds: float, work: Callable[[], Any]) -> Any:
        """Await `work()` in the acting agent for at most `seconds` of simulated time.

        If `work` ends exactly at the deadline, it counts as late if its last wait began after the call of `within`. The
        wait of `work` is undone as in a cancellation. If nested deadlines expire at one instant, the outermost counts.
        A cancellation precedes every deadline.

        Raises:
            TimeoutError: if the time expires first.
        """
        actor = self._kernel.acting()
        if not isinstance(actor, Actor):
            raise UsageError(f"{actor.name} is not an actor: only an actor can wait")
        if seconds == math.inf:
            return await work()
        levels = self._levels.setdefault(actor, [])
        level = _Level()
        levels.append(level)
        timer = self._kernel.call_at(
            self._kernel.now + _nanoseconds(max(seconds, 0)), lambda: self._expire(actor, level), actor
        )
        try:
            return await work()
        except _Expired:
            if not level.over or any(outer.over for outer in levels[: levels.index(level)]):
                raise
            raise TimeoutError(f"the work took longer than {seconds:g} s of simulated time") from None
        finally:
            timer.cancel()
            levels.remove(level)
            if not levels:
                del self._levels[actor]

    def _expire(self, actor: Actor, level: "_Level") -> None:
        level.over = True
        if not actor.cancelling:  # otherwise it is being cancelled, and that must not be replaced
            self._kernel.throw(actor, _Expired())


def _nanoseconds(seconds: float) -> int:
    """Return seconds in nanoseconds, rounded up, so that a wait for capacity does not end too early."""
    if not seconds <= MAX_NS / NS:  # NaN fails this test, too
        raise UsageError(f"a wait must lie between 0 and 146 years, not {seconds!r} s")
    return math.ceil(seconds * NS)
