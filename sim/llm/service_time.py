"""Service time: a second axis of time, on which a modelled server answers while the world stands still for who asked.

With `execution.sync` the agents' calls take no world time: what an agent does next does not depend on how fast it was
served, and how long the whole takes (the makespan) is measured on this axis alone. The axis is a kernel of its own.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from sim.errors import KernelError
from sim.kernel import Actor, Kernel
from sim.kernel.waits import NOTHING

Work = Callable[[], Awaitable[Any]]
"""What takes service time. It runs in an actor of the service kernel."""

_ROUNDS = 2**62  # on this axis there may be any number of rounds in an instant: the world goes on in them


class ServiceTime:
    """Hands work over from the world to the axis of service time.

    Args:
        seed: of its random streams.

    Attributes:
        kernel: whose time it is.
        take: called with (who waits, the work, the seconds it would take alone) when an agent hands work over; a
            synchroniser sets it.
    """

    def __init__(self, seed: int) -> None:
        self.kernel = Kernel(seed, max_deltas=_ROUNDS)
        self.take: Callable[[Actor, Work, float], None] = _nobody

    async def spend(self, work: Work, alone: float) -> Any:
        """Let the acting agent wait until `work` is done, in no world time.

        Args:
            work: what takes service time.
            alone: the seconds that it would take if nobody else were served.

        Raises:
            Exception: what the work raised.
        """
        value, error = await _Handed(self, work, alone)
        if error is not None:
            raise error
        return value


def _nobody(actor: Actor, work: Work, alone: float) -> None:
    raise KernelError(f"{actor.name} hands work over, and nobody carries it out")


class _Handed:
    """The wait for work that was handed over."""

    __slots__ = ("_alone", "_time", "_work")

    def __init__(self, time: ServiceTime, work: Work, alone: float) -> None:
        self._time = time
        self._work = work
        self._alone = alone

    def __await__(self) -> Any:
        return (yield self)

    def take(self) -> Any:
        """It is never there already."""
        return NOTHING

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Hand the work over."""
        self._time.take(actor, self._work, self._alone)

    def undo(self, value: Any) -> None:
        """Nothing was taken."""

    def leave(self) -> None:
        """What is served is served to the end, as on a real server."""
