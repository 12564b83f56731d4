"""Control from outside: what a host program may do to a run under way.

Each call is an input: queued from any thread, stamped, recorded, and applied inside the run (see `inputs`).
"""

from collections.abc import Mapping
from typing import Any

from sim.actors.manager import AgentLoopManager
from sim.errors import UsageError
from sim.events.topic import check_topic
from sim.world.action import near


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

    def start(self, agent_id: str) -> None:
        """Start an agent that has stopped; one that has not is left alone."""
        self._submit("start", agent_id)

    def stop(self, agent_id: str) -> None:
        """Stop an agent; an iteration under way may end. `start` starts it again."""
        self._submit("stop", agent_id)

    def stop_all(self) -> None:
        """Stop all agents; iterations under way may end."""
        self._world.submit("stop_all")

    def send(self, agent_id: str, data: Any = None, *, topic: str = "") -> None:
        """Send a message to an agent, as `host`; if its mailbox refuses it, the event `message.refused` says why."""
        self._submit("send", agent_id, topic=topic, data=data)

    def create_loop(self, kind: str, agent_id: str) -> None:
        """Make an agent and start it.

        Args:
            kind: a name in `AgentLoopManager.kinds`, by which the host program has said how agents are made: a
                recorded call can hold a name, but no object. In a run of a scenario those are its `kinds`.
            agent_id: its name, unique in the world.

        Raises:
            UsageError: if there is no such kind, or the name is taken.
        """
        if kind not in self._manager.kinds:
            raise UsageError(
                f"there is no kind of agent {kind!r}{near(kind, self._manager.kinds)}",
                hint="manager.kinds[name] = a class, or a function of agent_id and world",
            )
        if agent_id in self._world.agents:
            raise UsageError(f"the name {agent_id!r} is taken already")
        self._world.submit("create_loop", {"kind": kind, "agent": agent_id})

    def spawn(self, agent: str, count: int = 1, *, state: Mapping[str, Any] | None = None) -> None:
        """Start copies of an entry of the scenario, named `AGENT-host-1` and so on.

        If that cannot be done when the call is applied, the event `agent.refused` says why.

        Args:
            agent: the name of an entry in `agents`; it may be a template.
            count: how many, at least 1.
            state: values of state variables, in place of those that the entry computes.

        Raises:
            UsageError: if there is no such entry, or the world was not built from a scenario.
        """
        entries = self._manager.entries
        if not entries:
            raise UsageError(
                "there are no entries of a scenario to spawn agents from",
                hint="create_loop makes agents of the kinds that the program has named",
            )
        if agent not in entries:
            raise UsageError(f"there is no entry {agent!r} in agents{near(agent, entries)}")
        self._world.submit("spawn", {"agent": agent, "count": count, "state": dict(state or {})})

    def remove_loop(self, agent_id: str) -> None:
        """Stop an agent and take it out of the world; its counts are kept."""
        self._submit("remove_loop", agent_id)

    def _submit(self, kind: str, agent_id: str, **data: Any) -> None:
        loops = self._manager.loops
        if agent_id not in loops:
            raise UsageError(f"there is no agent {agent_id!r} to {kind.partition('_')[0]}{near(agent_id, loops)}")
        self._world.submit(kind, {"agent": agent_id, **data})
