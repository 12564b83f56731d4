"""Edge: hides the event loop of the host program from the code of agents.

While the kernel steps, agents run inside a task of the host. Without this module, they would find its event loop: a
cancel scope or a timeout that an agent enters would then belong to the task of the host, and end the whole run, and the
scopes of two agents would be left in the wrong order. Hidden, the loop cannot be found, so that every function of
asyncio, trio or anyio that needs it raises an error at once, in the line of the agent that calls it.
"""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Surroundings:
    """The event loop of the thread that runs a kernel: asyncio's, or trio's."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context: dict[str, Any] = {}

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Hide the event loop within the block."""
        outer = self._loop, self._context  # a kernel can be run within a step of another one
        loop, context = asyncio._get_running_loop(), _trio_context()
        self._loop, self._context = loop, dict(context)
        asyncio._set_running_loop(None)
        context.clear()
        try:
            yield
        finally:
            context.update(self._context)
            asyncio._set_running_loop(loop)
            self._loop, self._context = outer

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the event loop again within the block, for calls of the host itself that are made inside a step."""
        if self._loop is None and not self._context:
            yield
            return
        context = _trio_context()
        asyncio._set_running_loop(self._loop)
        context.update(self._context)
        try:
            yield
        finally:
            context.clear()
            asyncio._set_running_loop(None)


def _trio_context() -> dict[str, Any]:
    """Return the variables by which trio finds its runner and task in this thread; empty if trio is not used."""
    trio = sys.modules.get("trio._core._run")
    return {} if trio is None else vars(trio.GLOBAL_RUN_CONTEXT)
