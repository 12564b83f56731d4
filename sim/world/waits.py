"""Symbols waits: who waits for a model, a line or others' turns, and must not be taken for one that hangs."""

from sim.kernel import Kernel


class KnownWaits:
    """The waits under way, by agent, and when the last of each agent ended.

    Effects are known without it (`Effects.under_way`); this is for what runs inside the core.

    Args:
        kernel: whose time counts.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._under_way: dict[str, int] = {}
        self._ended: dict[str, int] = {}

    def begin(self, agent_id: str) -> None:
        """A wait of an agent begins; `end` must follow, whatever happens in between."""
        self._under_way[agent_id] = self._under_way.get(agent_id, 0) + 1

    def end(self, agent_id: str) -> None:
        """A wait of an agent has ended."""
        left = self._under_way.get(agent_id, 1) - 1
        if left:
            self._under_way[agent_id] = left
        else:
            self._under_way.pop(agent_id, None)
        self._ended[agent_id] = self._kernel.now

    def under_way(self, agent_id: str) -> bool:
        """Whether an agent waits, here or for an effect, one that a person has to decide about included."""
        return agent_id in self._under_way or self._kernel.effects.under_way(agent_id)

    def ended_ns(self, agent_id: str) -> int:
        """Return when the last wait of an agent ended, simulated nanoseconds; 0 if it never waited."""
        return max(self._ended.get(agent_id, 0), self._kernel.effects.ended_ns.get(agent_id, 0))

    def forget(self, agent_id: str) -> None:
        """Drop what is kept of an agent that is no more."""
        self._ended.pop(agent_id, None)
