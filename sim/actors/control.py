"""Control from outside: what a host program may do to a run under way.

Each call is an input: queued from any thread, stamped, recorded, and applied inside the run.
"""

from collections.abc import Callable
from typing import Any

from sim.actors.loop import AgentLoop
from sim.actors.manager import AgentLoopManager
from sim.errors import UsageError
from sim.events.topic import check_topic
from sim.kernel.codec import encode


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

        def apply() -> None:
            self._world.event_bus.publish(topic, data)

        check_topic(topic)
        encode(data)  # refused here, where the caller is, and not inside the run
        self._world.submit("publish", {"topic": topic, "data": data}, apply)

    def wake(self, agent_id: str) -> None:
        """Wake a sleeping agent."""
        self._loop_call("wake", agent_id, AgentLoop.wake)

    def pause(self, agent_id: str) -> None:
        """Pause an agent until `resume`."""
        self._loop_call("pause", agent_id, AgentLoop.pause)

    def resume(self, agent_id: str) -> None:
        """End an agent's pause."""
        self._loop_call("resume", agent_id, AgentLoop.resume)

    def stop(self, agent_id: str) -> None:
        """Stop an agent for good; an iteration under way may end."""
        self._loop_call("stop", agent_id, lambda loop: loop.agent.shutdown())

    def _loop_call(self, kind: str, agent_id: str, call: Callable[[AgentLoop], None]) -> None:
        loop = self._manager.get_loop(agent_id)
        if loop is None:
            raise UsageError(f"there is no agent {agent_id!r} to {kind}")
        self._world.submit(kind, {"agent": agent_id}, lambda: call(loop))
