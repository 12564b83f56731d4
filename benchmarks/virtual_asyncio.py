"""asyncio with a virtual clock: when nothing is ready it jumps to the next timer.

It makes no system call between two steps, which is kinder to asyncio than a real loop.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any


class _Selector(selectors.DefaultSelector):
    """Waiting for the outside takes no time: it moves the clock."""

    jumped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(0)
        self.jumped += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is what it has slept."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Return virtual seconds."""
        return self._virtual.jumped


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run `main` in a virtual loop of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main)
