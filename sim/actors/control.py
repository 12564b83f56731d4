"""Control from outside: what a host program may do to a run under way.

Each call is an input: queued from any thread, stamped, recorded, and applied inside the run (see `inputs`).
"""

from typing import Any

from sim.actors.manager import AgentLoopManager
from sim.errors import UsageError
from sim.events.topic import check_topic


class Control:
    """The host program's hand in a run.

    Args:
        manager: the loops that are controlled.
    """

    def __init__(self, manager: AgentLoopManager) -> None:
        self._manager = manager
        self._world = manager.world

    def publish(self, topic: str, data: Any = None) -> None:
        """Publish an event as the host."""
        check_topic(topic)
        self._world.submit("publish", {"topic": topic, "data": data})

    def wake(self, agent_id: str) -> None:
        """Wake a sleeping agent."""
        self._submit("wake", agent_id)

    def pause(self, agent_id: str) -> None:
        """Pause an agent until `resume`."""
        self._submit("pause", agent_id)

    def resume(self, agent_id: str) -> None:
        """End an agent's pause."""
        self._submit("resume", agent_id)

    def stop(self, agent_id: str) -> None:
        """Stop an agent for good; an iteration under way may end."""
        self._submit("stop", agent_id)

    def _submit(self, kind: str, agent_id: str) -> None:
        if self._manager.get_loop(agent_id) is None:
            raise UsageError(f"there is no agent {agent_id!r} to {kind}")
        self._world.submit(kind, {"agent": agent_id})
