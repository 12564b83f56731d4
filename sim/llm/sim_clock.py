"""The client's clock in the core: simulated time, waits of the kernel, chance from the asking agent's own stream.

With it the same client code (`client`) that runs in real time against endpoints runs on simulated time against
`simulated`, in the coroutine of the agent that asks: there are no tasks here.
"""

import math
from collections.abc import Callable
from typing import Any

from sim.errors import Cancelled, UsageError
from sim.kernel import Actor, Kernel, Signal, to_seconds
from sim.kernel.duration import MAX_NS, NS
from sim.kernel.waits import sleep_ns


class _Expired(Cancelled):
    """Raised where an actor waits when the time of a `within` is over; which one, the levels know: a second expiry at
    the same instant replaces the first.

    Derived from `Cancelled`, so that every wait of the kernel takes back what it had handed out, and `except Exception`
    in between does not swallow it.
    """


class _Level:
    """One `within` under way, and whether its time is over."""

    __slots__ = ("over",)

    def __init__(self) -> None:
        self.over = False


class CoreWake:
    """Something that actors wait for until it is set, once; who comes later does not wait."""

    __slots__ = ("_set", "_signal")

    def __init__(self, kernel: Kernel) -> None:
        self._signal = Signal(kernel)
        self._set = False

    def set(self) -> None:
        """Let all that wait go on: at this instant, in order of arrival."""
        if not self._set:
            self._set = True
            self._signal.fire()

    async def wait(self) -> None:
        """Wait until it is set."""
        if not self._set:
            await self._signal.wait()


class CoreClock:
    """Simulated time for the client. One clock serves all agents of a kernel.

    Args:
        kernel: whose time it is.
        purpose: names the random stream; each agent draws from its own.
    """

    def __init__(self, kernel: Kernel, purpose: str = "llm.client") -> None:
        self._kernel = kernel
        self._purpose = purpose
        self._levels: dict[Actor, list[_Level]] = {}  # the deadlines under way, the outermost first

    def now(self) -> float:
        """Return simulated seconds since the start of the run."""
        return to_seconds(self._kernel.now)

    async def sleep(self, seconds: float) -> None:
        """Pause the acting agent for at least `seconds` of simulated time; without any wake-up if that is 0 or less."""
        if not seconds <= 0:  # NaN is not: it is refused
            await sleep_ns(_nanoseconds(seconds))

    def wake(self) -> CoreWake:
        """Return something to wait for."""
        return CoreWake(self._kernel)

    def random(self) -> float:
        """Return a number in [0, 1) from the stream of the agent that acts: its jitter moves nobody else's."""
        return self._kernel.streams.get(self._kernel.acting().name, self._purpose).random()

    async def within(self, seconds: float, work: Callable[[], Any]) -> Any:
        """Await `work()` in the acting agent for at most `seconds` of simulated time.

        What is done exactly when the time is over is too late if it began to wait after `within` did. What `work` was
        waiting for is let go as if the agent had been cancelled. Of nested deadlines that are over at one instant the
        outermost counts; a cancellation counts more than any.

        Raises:
            TimeoutError: if the time was over first.
        """
        actor = self._kernel.acting()
        if not isinstance(actor, Actor):
            raise UsageError(f"{actor.name} is no actor: only an actor can wait")
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
        if not actor.cancelling:  # else it is on its way out, and what raises that must not be replaced
            self._kernel.throw(actor, _Expired())


def _nanoseconds(seconds: float) -> int:
    """Return seconds in nanoseconds, rounded up: who waits for capacity must not come a moment too early."""
    if not seconds <= MAX_NS / NS:  # so is NaN
        raise UsageError(f"a wait must lie between 0 and 146 years, not {seconds!r} s")
    return math.ceil(seconds * NS)
