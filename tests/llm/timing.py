"""Time for tests of the client: trio's clock that jumps when everybody waits, so an hour takes milliseconds."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio
import trio.testing

T = TypeVar("T")


def jump(main: Callable[[], Awaitable[T]]) -> T:
    """Run `main` in trio, where nobody ever really waits."""
    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
