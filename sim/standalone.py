"""`sim.World`: a world that a program runs without a scenario file."""

from typing import Any, Self

from sim.host.host import Host
from sim.host.until import run_host_until
from sim.kernel.until import Until
from sim.world import world


class World(world.World):
    """A shared world with the host that runs it. See `sim.world.World` for its parts and its arguments."""

    _host: Host | None = None

    async def __aenter__(self) -> Self:
        """Keep effects in flight between calls of `run`. Leaving the block ends the run (`close`)."""
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
            self.kernel.close()

    async def run(self, until: Until) -> Any:
        """Run up to a simulated time or until a condition holds. Call it again to continue.

        Inside `async with`, effects in flight continue between calls. Otherwise they are abandoned after each call.

        It can be awaited in any asyncio or trio program, and lets other tasks of the program run.

        Args:
            until: a simulated time since the start (seconds, or text such as `10m`): what is due at it happens only if
                the world is run further. Or a wait (a latch, a signal, `join`), an actor (until its end), or a function
                without arguments that is called after each instant: all events of the instant at which it ends are
                executed first.

        Returns:
            The value of the wait, the result of the actor, or the first true value of the function; None for a time.

        Raises:
            UsageError: if no event is scheduled and the condition does not hold.
            BaseException: the error of the awaited actor, or of an actor without a supervisor.
        """
        return await run_host_until(self._host or self._joined(), until)

    def _joined(self) -> Host:
        host = self._host = Host(self.kernel, held=lambda: self.on_hold)
        self.attach(host)
        return host
