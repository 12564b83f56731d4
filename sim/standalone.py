"""`sim.World`: a world that a program runs by itself, without a scenario file."""

from typing import Any, Self

from sim.host.host import Host
from sim.host.until import run_host_until
from sim.kernel.until import Until
from sim.world import world


class World(world.World):
    """A shared world, joined with the host that runs it. What it holds, and its arguments: see `sim.world.World`."""

    _host: Host | None = None

    async def __aenter__(self) -> Self:
        """Let effects live from one `run` to the next; leaving ends the run (`close`)."""
        await self._joined().__aenter__()
        return self

    async def __aexit__(self, kind: object, *rest: object) -> None:
        try:
            self.close()
        except Exception:
            if kind is None:  # else the run has failed already, and that failure is what the caller must see
                raise
        finally:
            if self._host is not None:
                await self._host.__aexit__(kind, *rest)
            self.kernel.close()

    async def run(self, until: Until) -> Any:
        """Run up to a time or until something has happened; call it again to go on.

        Effects in flight live on from one call to the next only inside `async with`; else they are abandoned.

        Awaitable in any asyncio or trio program; the program keeps getting turns.

        Args:
            until: a simulated time since the start (seconds, or text such as `10m`), a wait (a latch, a signal,
                `join`), an actor, whose end is waited for, or a function without arguments that is asked after each
                instant. All that is due at the instant in which it happens runs first.

        Returns:
            The value of the wait, what the actor returned, or the first true answer of the function; None for a time.

        Raises:
            UsageError: if nothing is due any more and what is waited for has not happened.
            BaseException: what an actor that nobody supervises raised, or the awaited actor.
        """
        return await run_host_until(self._host or self._joined(), until)

    def _joined(self) -> Host:
        host = self._host = Host(self.kernel)
        self.attach(host)
        return host
