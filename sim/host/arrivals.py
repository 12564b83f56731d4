"""Edge: arrivals, which are inputs of the host program and outcomes of effects with measured latency."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

import anyio

from sim.base.crashpoints import reach
from sim.base.errors import UsageError
from sim.kernel.codec import decode, encode
from sim.kernel.effects import EffectHandle, Outcome
from sim.kernel.kernel import Kernel


class Arrivals:
    """Queues arrivals until the host places them at the end of an instant, and waits until they are on disk.

    Args:
        kernel: the kernel that gets the arrivals.

    Attributes:
        uncommitted: whether arrivals were placed that may not be on disk yet.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.uncommitted = False
        self._kernel = kernel
        self._arrivals: deque[Callable[[], object]] = deque()  # functions that apply an arrival
        self._committed = anyio.Event()

    def __bool__(self) -> bool:
        return bool(self._arrivals)

    def add_input(self, kind: str, data: object, applied: Callable[[object], object] | None = None) -> None:
        """Queue an input, from any thread; `applied` is called with the answer of its handler.

        Raises:
            UsageError: if the kernel has no input of this kind.
            ActorError: if the data is not JSON.
        """
        inputs = self._kernel.inputs
        if not inputs:
            raise UsageError(
                "this run takes nothing in from outside", hint="one with execution.sync, or on shards, cannot"
            )
        if kind not in inputs:
            raise UsageError(f"there is no input {kind!r}", hint=f"use one of {', '.join(sorted(inputs))}")
        kept = decode(encode(data))
        self._arrivals.append(lambda: self._kernel.apply(kind, kept, applied))

    def add_outcome(self, handle: EffectHandle, outcome: Outcome) -> None:
        """Queue the outcome of an effect with measured latency."""
        effects = self._kernel.effects

        def place() -> None:
            if effects.wanted(handle):  # else it has timed out or was abandoned in the meantime
                effects.record(handle, outcome)
                reach("effect.recorded")
                effects.post(handle, outcome)

        self._arrivals.append(place)

    def place(self) -> None:
        """Apply all queued arrivals at this place of the run."""
        while self._arrivals:
            self._arrivals.popleft()()
        self.uncommitted = True

    async def commit(self, when_durable: Callable[[Callable[[], object]], None]) -> None:
        """Wait until the placed arrivals are on disk. No actor may see them before.

        Args:
            when_durable: calls a function as soon as everything recorded so far is on disk.
        """
        reach("arrivals.applied")
        durable = self._committed = anyio.Event()
        when_durable(durable.set)
        await durable.wait()
        self.uncommitted = False
        reach("arrivals.durable")

    def commit_now(self) -> None:
        """Wait as `commit`, in plain code: the thread is blocked.

        Raises:
            Exception: the error of the recorder.
        """
        stored: Future[Exception | None] = Future()
        self._kernel.recorder.durable(stored.set_result)
        error = stored.result()
        self.uncommitted = False
        if error is not None:
            raise error

    def release(self) -> None:
        """End the wait of `commit`, because the recorder failed."""
        self._committed.set()
