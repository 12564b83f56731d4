"""Service time: a second time axis, on which a modelled server answers while no world time passes for the caller.

With `execution.sync`, the calls of agents take no world time. So the next action of an agent does not depend on the
speed of the server, and the total duration (the makespan) is measured on this axis only. The axis has its own kernel.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from sim.base.errors import KernelError
from sim.kernel import Actor, Kernel
from sim.kernel.waits import NOTHING

Work = Callable[[], Awaitable[Any]]
"""Work that takes service time. It runs in an actor of the service kernel."""

_ROUNDS = 2**62  # no limit of deltas per instant: the world advances within one instant of service time


class ServiceTime:
    """Transfers work from the world to the axis of service time.

    Args:
        seed: the seed of its random streams.

    Attributes:
        kernel: the kernel of the service time.
        take: called when an agent transfers work, with the waiting actor, the work, and its duration in seconds without
            other load. The synchroniser sets it.
    """

    def __init__(self, seed: int) -> None:
        self.kernel = Kernel(seed, max_deltas=_ROUNDS)
        self.take: Callable[[Actor, Work, float], None] = _no_synchroniser

    async def spend(self, work: Work, alone: float) -> Any:
        """Suspend the acting agent until `work` is done. This takes no world time.

        Args:
            work: the work that takes service time.
            alone: its duration in seconds without other load.

        Raises:
            Exception: any error that the work raises.
        """
        value, error = await _Handed(self, work, alone)
        if error is not None:
            raise error
        return value


def _no_synchroniser(actor: Actor, work: Work, alone: float) -> None:
    raise KernelError(f"{actor.name} transfers work to service time, but no synchroniser is set")


class _Handed:
    """The wait for transferred work."""

    __slots__ = ("_alone", "_time", "_work")

    def __init__(self, time: ServiceTime, work: Work, alone: float) -> None:
        self._time = time
        self._work = work
        self._alone = alone

    def __await__(self) -> Any:
        return (yield self)

    def take(self) -> Any:
        """Return NOTHING: the result is never available at once."""
        return NOTHING

    def arm(self, kernel: Kernel, actor: Actor) -> None:
        """Transfer the work."""
        self._time.take(actor, self._work, self._alone)

    def undo(self, value: Any) -> None:
        """No-op: nothing was taken."""

    def leave(self) -> None:
        """No-op: the work is completed, as on a real server."""
