"""Detects that nothing is left to happen in a run, and names the agents that are blocked then."""

from collections.abc import Sequence
from typing import Any

from sim.kernel import Timer
from sim.world.deadlock import deadlock
from sim.world.world import World


class DeadlockDetector:
    """Detects that only the timers of the run itself are left, which change no agent.

    Args:
        world: the world whose agents may be blocked.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.own: list[Any] = []  # actors and timers of the run itself: ticks, samples, the health monitor

    def reached(self, timers: Sequence[Timer | None]) -> bool:
        """Return whether nothing is scheduled that could affect an agent.

        Args:
            timers: timers that affect none: of the next sample, of the next surveys.
        """
        kernel = self._world.kernel
        own = [*self.own, *timers]
        return not kernel.effects.pending and kernel.has_only(lambda target: any(target is one for one in own))

    def deadlock(self) -> str | None:
        """Return which agents are blocked forever, in one sentence; None if all of them wait for work."""
        return deadlock(self._world)
