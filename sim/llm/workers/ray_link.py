"""The link to a worker on a machine of a Ray cluster: an actor, whose methods take and return bytes (edge)."""

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

import anyio
import anyio.lowlevel
import anyio.to_thread

from sim.base.cluster import Membership, join
from sim.base.errors import RunError, UsageError
from sim.base.source import package_hash
from sim.kernel.codec import as_sent
from sim.llm.workers.messages import Sealed, Start, framed
from sim.llm.workers.ray_actor import WorkerActor, greeting
from sim.llm.workers.sealing import sealed

_AT_ONCE: Final = 4  # methods of a worker that run at a time: `put`, `take`, `why`
_ASKED: Final = 2.0  # seconds for the answer of a worker that has ended


class RayCluster:
    """Starts workers on a Ray cluster, each on a core of any of its machines.

    Args:
        address: of the cluster; see `join`.
        count: how many workers there are at a time.
    """

    def __init__(self, address: str, count: int) -> None:
        self._address = address
        self._count = count
        self._joining = anyio.Lock()
        self._joined = Membership(None)
        self._ray: Any = None

    async def open(self, cut: Callable[[str], str]) -> "RayLink":
        """Start a worker; it waits until a machine of the cluster has a core for it.

        Args:
            cut: removes secrets from a text.

        Raises:
            UsageError: if there is no such cluster, or it has too few cores.
            RunError: if a machine has another version of the code.
        """
        async with self._joining:
            if self._ray is None:
                await self._join()
        make = self._ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0, max_concurrency=_AT_ONCE)(WorkerActor)
        link = RayLink(self._ray, make.options(scheduling_strategy="SPREAD").remote(), cut)
        try:
            await link.greet()
        except BaseException:
            link.kill()
            raise
        return link

    async def _join(self) -> None:
        """Join the cluster. That takes seconds."""
        self._joined = await anyio.to_thread.run_sync(join, self._address)
        self._ray = self._joined.ray
        cores = self._ray.cluster_resources().get("CPU", 0)
        if cores < self._count:
            raise UsageError(
                f"the Ray cluster has {cores:g} cores, and each of {self._count} worker processes needs one",
                hint="ask for fewer, or add machines",
            )

    async def close(self) -> None:
        """Leave the cluster."""
        await anyio.to_thread.run_sync(self._joined.leave)
        self._joined, self._ray = Membership(None), None


class RayLink:
    """A worker that is an actor. What it is sent waits in this process until it has taken what was sent before.

    Args:
        ray: the module.
        actor: the actor.
        cut: removes secrets from a text.
    """

    keeps = False

    def __init__(self, ray: Any, actor: Any, cut: Callable[[str], str]) -> None:
        self._ray = ray
        self._actor = actor
        self._cut = cut
        self._public = b""
        self._lost = ""
        self._sending: Future[bytes] | None = None
        self._receiving: Future[bytes] | None = None

    async def greet(self) -> None:
        """Wait until the worker has started, and get its public key. If it does not start, it counts as ended.

        Raises:
            RunError: if it has another version of the code.
        """
        said = await self._got(self._actor.hello.remote().future())
        if said is None:
            return
        self._public, code = greeting(said)
        if code != package_hash():
            raise RunError("a machine of the cluster has another version of sim", hint="install the same one on all")

    def first(self, start: Start) -> bytes:
        """Return the first message, sealed for this worker: machines of the cluster can see what it is sent."""
        return framed(Sealed(sealed(as_sent(start), self._public))) if self._public else b""

    async def send(self, data: bytes) -> bool:
        """Send bytes, and return whether the worker still takes them."""
        if self._sending is not None and await self._got(self._sending) is None:
            return False
        self._sending = self._actor.put.remote(data).future()
        return await self._got(self._sending) is not None

    async def receive(self) -> bytes:
        """Return the next bytes, or none when the worker has ended. If it is cancelled, nothing is lost."""
        if self._lost:
            return b""
        self._receiving = self._receiving or self._actor.take.remote().future()
        data = await self._got(self._receiving)
        self._receiving = None
        return data or b""

    async def collect_errors(self) -> None:
        """Do nothing: what an actor writes is in the logs of its machine."""

    def kill(self) -> None:
        """Kill the worker."""
        self._ray.kill(self._actor)

    async def ended(self) -> str:
        """End what is left of the worker, and return how it ended, as part of a sentence without secrets."""
        if not self._lost:
            with anyio.move_on_after(_ASKED):
                self._lost = (
                    self._cut((await self._got(self._actor.why.remote().future()) or b"").decode()) or self._lost
                )
        self.kill()
        return self._lost or "ended"

    async def close(self) -> None:
        """Kill the worker: nothing is asked of it any more."""
        self.kill()

    async def _got(self, future: "Future[bytes]") -> bytes | None:
        """Wait for what a method returns; None: the worker is lost. If it is cancelled, it can wait again."""
        arrived = anyio.Event()
        loop: Any = anyio.lowlevel.current_token().native_token
        soon = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon  # of asyncio, or of trio

        def wake(_: "Future[bytes]") -> None:
            with suppress(RuntimeError):  # the event loop has ended
                soon(arrived.set)

        future.add_done_callback(wake)
        await arrived.wait()
        try:
            return future.result()
        except self._ray.exceptions.RayError as error:
            self._lost = self._lost or self._cut(_how(error))
            return None


def _how(error: Exception) -> str:
    """Return how a worker was lost, as part of a sentence."""
    return f"was lost by the cluster ({type(error).__name__})"
