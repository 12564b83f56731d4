"""Known waits: agents that wait for a model, a line or the turns of others.

The health monitor must not raise an alert for them.
"""

from sim.kernel import Kernel


class ActiveWaits:
    """Tracks which agents are in a known wait, and when the last such wait of each agent ended.

    `Effects` tracks waits for effects itself; this class covers the other waits.

    Args:
        kernel: the kernel that gives the simulated time and the effects.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._under_way: dict[str, int] = {}
        self._ended: dict[str, int] = {}

    def begin(self, agent_id: str) -> None:
        """Report that a wait of an agent begins. The caller must call `end` in a `finally` clause."""
        self._under_way[agent_id] = self._under_way.get(agent_id, 0) + 1

    def end(self, agent_id: str) -> None:
        """Report that a wait of an agent has ended."""
        left = self._under_way.get(agent_id, 1) - 1
        if left:
            self._under_way[agent_id] = left
        else:
            self._under_way.pop(agent_id, None)
        self.passed(agent_id)

    def passed(self, agent_id: str) -> None:
        """Report that an agent has just been able to continue, also if it had nothing to wait for."""
        self._ended[agent_id] = self._kernel.now

    def under_way(self, agent_id: str) -> bool:
        """Return whether an agent is in a known wait, or waits for an effect, including an in-doubt effect."""
        return agent_id in self._under_way or self._kernel.effects.under_way(agent_id)

    def ended_ns(self, agent_id: str) -> int:
        """Return when the last wait of an agent ended, in simulated nanoseconds; 0 if it never waited."""
        return max(self._ended.get(agent_id, 0), self._kernel.effects.ended_ns.get(agent_id, 0))

    def forget(self, agent_id: str) -> None:
        """Delete the data of a removed agent."""
        self._ended.pop(agent_id, None)
