"""The link to one worker: bytes, over standard input and output of a process on this machine (edge)."""

import os
import sys
from collections.abc import Callable
from typing import Final, Protocol

import anyio

from sim.base.child import Child, variables
from sim.base.errors import RunError
from sim.llm.workers.messages import Start, framed

_PROGRAM: Final = "sim.llm.workers.program"
_CHUNK: Final = 1 << 18  # bytes received at once
GRACE: Final = 2.0
"""Seconds in which a worker must end after its input was closed."""


class Link(Protocol):
    """Bytes to and from one worker.

    Attributes:
        keeps: whether what a worker has sent can still be received when it has ended.
    """

    keeps: bool

    def first(self, start: Start) -> bytes:
        """Return the first message in the form in which it may be sent: it has the keys."""

    async def send(self, data: bytes) -> bool:
        """Send bytes, and return whether the worker still takes them."""

    async def receive(self) -> bytes:
        """Return the next bytes, or none when the worker has ended."""

    async def collect_errors(self) -> None:
        """Keep the end of what the worker writes to standard error."""

    def kill(self) -> None:
        """Kill the worker."""

    async def ended(self) -> str:
        """End what is left of the worker, and return how it ended, as part of a sentence without secrets."""

    async def close(self) -> None:
        """Have the worker end, and kill it if it does not."""


class Links(Protocol):
    """Where workers are started."""

    async def open(self, cut: Callable[[str], str]) -> Link:
        """Start a worker.

        Args:
            cut: removes secrets from a text.

        Raises:
            RunError, UsageError: if it cannot be started.
        """

    async def close(self) -> None:
        """Leave the place. All workers have been closed."""


class Processes:
    """Starts workers as processes on this machine."""

    async def open(self, cut: Callable[[str], str]) -> "ProcessLink":
        """Start a worker: see `Links`."""
        return await ProcessLink.open(cut)

    async def close(self) -> None:
        """Do nothing."""


class ProcessLink:
    """A worker process. Its keys come over the pipe, and are not in its arguments or variables."""

    keeps = True

    def __init__(self, child: Child) -> None:
        self._child = child

    @classmethod
    async def open(cls, cut: Callable[[str], str]) -> "ProcessLink":
        """Start a process.

        Args:
            cut: removes secrets from a text.

        Raises:
            RunError: if it cannot be started.
        """
        if not sys.executable:
            raise RunError("worker processes for model calls need a Python that knows its own program")
        own = os.environ  # noqa: TID251  # what a process needs to start; nothing of it is an input of the run
        command = [sys.executable, "-P", "-m", _PROGRAM]
        return cls(await Child.start("a worker process for model calls", command, environment=variables(own), cut=cut))

    def first(self, start: Start) -> bytes:
        """Return the first message unencrypted: only the worker reads the pipe."""
        return framed(start)

    async def send(self, data: bytes) -> bool:
        """Send bytes, and return whether the worker still takes them."""
        return await self._child.send(data)

    async def receive(self) -> bytes:
        """Return the next bytes, or none when the worker has ended."""
        return await self._child.receive(_CHUNK)

    async def collect_errors(self) -> None:
        """Keep the end of what the worker writes to standard error."""
        await self._child.collect_errors()

    def kill(self) -> None:
        """Kill the process. What it has sent can still be received."""
        self._child.kill()

    async def ended(self) -> str:
        """End what is left of the process, and return how it ended, as part of a sentence without secrets."""
        with anyio.move_on_after(GRACE, shield=True):  # it closes its output when it ends
            await self._child.ended_in(GRACE)
            await self._child.collect_errors()
        await self._child.close(0.0)
        return self._child.how()

    async def close(self) -> None:
        """Close the input, so that the process ends, and kill it if it does not."""
        await self._child.close(GRACE)
