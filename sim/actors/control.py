"""The interface through which a host program controls a run.

Each call is an input. It can come from any thread. It is queued, gets a simulated time, is recorded, and is applied
inside the run (see `inputs`).
"""

from collections.abc import Mapping
from typing import Any

from sim.actors.manager import AgentLoopManager
from sim.errors import UsageError
from sim.events.topic import check_topic
from sim.world.action import near


class Control:
    """Submits calls of the host program to a run.

    Args:
        manager: the loops to control.
    """

    def __init__(self, manager: AgentLoopManager) -> None:
        self._manager = manager
        self._world = manager.world

    def publish(self, topic: str, data: Any = None) -> None:
        """Publish an event with the host as its source."""
        check_topic(topic)
        self._world.submit("publish", {"topic": topic, "data": data})

    def wake(self, agent_id: str) -> None:
        """Wake a sleeping agent."""
        self._submit("wake", agent_id)

    def pause(self, agent_id: str) -> None:
        """Pause an agent until `resume`."""
        self._submit("pause", agent_id)

    def resume(self, agent_id: str) -> None:
        """End the pause of an agent."""
        self._submit("resume", agent_id)

    def start(self, agent_id: str) -> None:
        """Start a stopped agent; has no effect on other agents."""
        self._submit("start", agent_id)

    def stop(self, agent_id: str) -> None:
        """Stop an agent after its current iteration, if there is one. `start` starts it again."""
        self._submit("stop", agent_id)

    def stop_all(self) -> None:
        """Stop all agents, each after its current iteration, if there is one."""
        self._world.submit("stop_all")

    def send(self, agent_id: str, data: Any = None, *, topic: str = "") -> None:
        """Send a message from `host` to an agent. If it is refused, the event `message.refused` has the reason."""
        self._submit("send", agent_id, topic=topic, data=data)

    def create_loop(self, kind: str, agent_id: str) -> None:
        """Create an agent and start it.

        Args:
            kind: a name in `AgentLoopManager.kinds`, where the host program registers how agents are created. It is a
                name because a recorded call cannot hold an object. In a run of a scenario these are its `kinds`.
            agent_id: the name of the agent, unique in the world.

        Raises:
            UsageError: if the kind does not exist, or the name is in use.
        """
        if kind not in self._manager.kinds:
            raise UsageError(
                f"there is no kind of agent {kind!r}{near(kind, self._manager.kinds)}",
                hint="register it: manager.kinds[name] = a class, or a function of agent_id and world",
            )
        if agent_id in self._world.agents:
            raise UsageError(f"the name {agent_id!r} is already in use by another agent")
        self._world.submit("create_loop", {"kind": kind, "agent": agent_id})

    def spawn(self, agent: str, count: int = 1, *, state: Mapping[str, Any] | None = None) -> None:
        """Start copies of an entry of the scenario, named `AGENT-host-1` and so on.

        If this is not possible when the call is applied, the event `agent.refused` has the reason.

        Args:
            agent: the name of an entry in `agents`; it can be a template.
            count: the number of copies, at least 1.
            state: values of state variables that replace those that the entry computes.

        Raises:
            UsageError: if the entry does not exist, or the world was not built from a scenario.
        """
        entries = self._manager.entries
        if not entries:
            raise UsageError(
                "there are no entries to spawn agents from, because this world was not built from a scenario",
                hint="use create_loop, which creates agents of the kinds that the program has registered",
            )
        if agent not in entries:
            raise UsageError(f"there is no entry {agent!r} in agents{near(agent, entries)}")
        self._world.submit("spawn", {"agent": agent, "count": count, "state": dict(state or {})})

    def remove_loop(self, agent_id: str) -> None:
        """Stop an agent and remove it from the world; its counts are kept."""
        self._submit("remove_loop", agent_id)

    def _submit(self, kind: str, agent_id: str, **data: Any) -> None:
        loops = self._manager.loops
        if agent_id not in loops:
            raise UsageError(f"there is no agent {agent_id!r} to {kind.partition('_')[0]}{near(agent_id, loops)}")
        self._world.submit(kind, {"agent": agent_id, **data})
